"""A real Slurm for comparisons: Debian's slurmctld, munged and one slurmd per node, in their own namespaces.

    with RealSlurm() as slurm:
        result = slurm.run(["squeue", "--me"])

The packages are unpacked once per machine (`tests/setup.sh`); nothing is installed. All daemons run in
process, network and host name namespaces that end with the block. Therefore no process is left, no port of
the machine is used, and the host is called `login`.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

from tests.support.waiting import eventually

SCRIPT = Path(__file__).with_name("slurm.sh")
PACKAGES = Path("/var/cache/warpdeck-tests/slurm")
"""The folder into which `slurm.sh get` unpacks the packages. tests/setup.sh names it too."""
HOST = "login"
PORT = 6817
"""Port of slurmctld in its own network namespace. The ports of the slurmds follow."""
ADDRESS = "198.18.61.1/32"
"""An address besides 127.0.0.1. Without one, slurmd finds no address to listen on."""
_NULL = os.makedev(1, 3)
UP_S = 90.0
COMMAND_S = 60.0
NODES = ("n1", "n2", "n3", "n4")
NO_ACCOUNTING = "AccountingStorageType=accounting_storage/none\n"
SITE = f"""
SelectTypeParameters=CR_Core_Memory
PriorityType=priority/multifactor
PriorityWeightJobSize=1000
PriorityWeightPartition=1000
GresTypes=gpu
DefMemPerCPU=100
JobCompType=jobcomp/none
{NO_ACCOUNTING}\
NodeName=n[1-4] NodeHostname={HOST} NodeAddr=127.0.0.1 Port=[{PORT + 1}-{PORT + 4}] \
CPUs=16 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=64000 Gres=gpu:a100:4 State=UNKNOWN
PartitionName=gpu Nodes=n[1-4] Default=YES MaxTime=7-0 DefaultTime=1:00:00 PriorityTier=10 State=UP
PartitionName=debug Nodes=n[1-2] MaxTime=30 PriorityTier=1 State=UP
"""
GRES = "NodeName=n[1-4] Name=gpu Type=a100 File={folder}/gpu[0-3]\n"
GPU_FILES = 8
"""Number of files gpu0, gpu1, ... in the folder. Slurm counts device files."""

REST = ("--reuid=nobody", "--regid=nogroup", "--clear-groups", "sh", "-c")
ANSWER = "cat | slurmrestd -a rest_auth/local -s openapi/v0.0.38"
"""slurmrestd answers one request on its input. It refuses to run as root, and to serve a caller that does not
own its pipe.
"""
_INIT = """
ip link set lo up; ip address add {address} dev lo; hostname {host}; mount --bind {folder}/hosts /etc/hosts
{overlay}
{script} up {folder} {port} || exit 1
echo up; read -r _; {script} down {folder}
"""
"""Script of bash as the first process of the namespaces: bash reaps the children that daemons leave."""
SUITES = {"20.11": "bullseye", "24.11": "trixie", "26.05": "forky"}
"""The releases of Debian that have the other versions of Slurm. Version 22.05 is that of PACKAGES."""
VERSIONS = ("20.11", "22.05", "24.11", "26.05")
COMMANDS = (
    "sbatch",
    "salloc",
    "scancel",
    "scontrol",
    "sinfo",
    "squeue",
    "srun",
    "sacct",
    "sacctmgr",
    "sdiag",
    "sprio",
    "sshare",
    "sstat",
)


class CommandResult(NamedTuple):
    """Exit code and output of a command."""

    rc: int
    out: str
    err: str


class RealSlurm:
    """A small cluster.

    `site` holds the lines of slurm.conf from SelectTypeParameters on, and `gres` is gres.conf. With
    `accounting`, slurmdbd and its database keep the history, which takes two more seconds to start.
    `accounts` are then command lines of sacctmgr that create accounts, users and QoS, and `database` more lines of
    slurmdbd.conf. `version` is one of VERSIONS; the database does not run with 20.11, whose libraries are too old
    for it. With `own_names`, the jobs of a node see its name as the name of their machine, as on nodes that are
    machines. Otherwise all of them see HOST. With `tokens`, `scontrol token` gives users tokens for slurmrestd.
    """

    def __init__(
        self,
        site: str = SITE,
        *,
        nodes: Sequence[str] = NODES,
        gres: str = GRES,
        accounting: bool = False,
        accounts: Sequence[str] = (),
        version: str = "22.05",
        own_names: bool = False,
        tokens: bool = False,
        database: str = "",
    ) -> None:
        suite = SUITES.get(version, "")
        packages = Path(f"{PACKAGES}-{suite}") if suite else PACKAGES
        # The libraries of another release of Debian lie over those of this machine, in the daemons' namespace only.
        self._overlay = (
            f"mount -t overlay -o lowerdir={packages}/root/usr:/usr overlay /usr || exit 1" if suite else ""
        )
        self.folder = Path(tempfile.mkdtemp(prefix="wdp", dir="/tmp"))
        self.folder.chmod(0o755)
        (self.folder / "root").symlink_to(packages / "root")
        site = site.replace(NO_ACCOUNTING, "") if accounting else site
        (self.folder / "site.conf").write_text(site + (self._token_key() if tokens else ""))
        if accounting:
            (self.folder / "accounting").write_text("".join(f"{line}\n" for line in accounts))
            (self.folder / "database.conf").write_text(database)
            (self.folder / "mariadb").symlink_to(PACKAGES / "root")
        (self.folder / "nodes").write_text("\n".join(nodes) + "\n")
        if own_names:
            (self.folder / "own_names").touch()
        (self.folder / "gres.conf").write_text(gres.format(folder=self.folder))
        for number in range(GPU_FILES):
            os.mknod(self.folder / f"gpu{number}", 0o666 | stat.S_IFCHR, _NULL)
        # All nodes have one address, as their slurmds have, and programs of jobs find it under the name of a node.
        (self.folder / "hosts").write_text(f"127.0.0.1 localhost {HOST} {' '.join(nodes)}\n")
        self._init: subprocess.Popen[str] | None = None
        self._pid = 0

    def _token_key(self) -> str:
        """Create a key for tokens, and return the lines of slurm.conf for it."""
        key = self.folder / "jwt.key"
        key.write_bytes(os.urandom(32))
        key.chmod(0o600)
        return f"AuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key={key}\n"

    def __enter__(self) -> Self:
        values = {"address": ADDRESS, "script": SCRIPT, "folder": self.folder, "port": PORT, "host": HOST}
        quoted = {name: shlex.quote(str(value)) for name, value in values.items()}
        script = _INIT.format(**quoted, overlay=self._overlay)
        namespaces = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--net", "--uts", "--ipc"]
        with (self.folder / "up.log").open("wb") as log:
            self._init = subprocess.Popen(
                ["timeout", "1h", *namespaces, "bash", "-c", script],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd="/",
                text=True,
                start_new_session=True,
            )
        try:
            self._wait_until_up()
        except BaseException:
            self.close()
            raise
        return self

    def _wait_until_up(self) -> None:
        assert self._init is not None and self._init.stdout is not None
        greeting = self._init.stdout.readline()
        assert greeting == "up\n", "\n".join(
            path.read_text(errors="replace")[-3000:]
            for path in (*sorted(self.folder.glob("*.err")), *sorted(self.folder.glob("*.log")))
        )
        self._pid = first_below(first_below(self._init.pid))

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all daemons and running jobs."""
        if self._init is not None:
            self._init.communicate("down\n", timeout=UP_S)
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(
        self,
        values: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        data: str = "",
        user: str = "root",
        timeout_s: float = COMMAND_S,
    ) -> CommandResult:
        """Run a command as the user. `env` is set in addition to the environment that Slurm's commands need."""
        result = subprocess.run(
            [*self._prefix(str(cwd or self.folder), user), *values],
            env={**_plain_environ(), **(env or {})},
            input=data,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        return CommandResult(result.returncode, result.stdout, result.stderr)

    def python(self, *values: str, user: str) -> list[str]:
        """Return a command line of our interpreter that runs in the namespaces, as the user.

        The user may read all files, because the interpreter may lie in a folder that only root can read.
        """
        reads = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
        return [*self._prefix(str(self.folder), user, *reads), sys.executable, *values]

    def _prefix(self, cwd: str, user: str, *options: str) -> list[str]:
        """Return the command line in front of a Slurm command that runs in the namespaces, as the user."""
        become = ["setpriv", f"--reuid={user}", "--clear-groups", *options] if user != "root" else []
        return [
            *(
                "nsenter",
                f"--target={self._pid}",
                "--pid",
                "--mount",
                "--net",
                "--uts",
                "--ipc",
                f"--wd={cwd}",
            ),
            *(*become, str(SCRIPT), "run", str(self.folder)),
        ]

    def wrappers(self, folder: Path, *, user: str = "root") -> dict[str, str]:
        """Write programs with the names of Slurm's commands that run in the namespaces, and return a PATH with them."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in COMMANDS:
            line = shlex.join([*self._prefix("CWD", user), name]).replace("--wd=CWD", '--wd="$PWD"')
            program = folder / name
            program.write_text(f'#!/bin/sh\nexec {line} "$@"\n')
            program.chmod(0o755)
        return {"PATH": f"{folder}:{os.environ['PATH']}"}

    def ok(self, *values: str) -> str:
        """Return the output of a command that must succeed."""
        result = self.run(values)
        assert result.rc == 0, f"{' '.join(values)}: {result.out}{result.err}"
        return result.out

    def rpcs(self) -> int:
        """Return the number of requests of users that slurmctld has answered since `sdiag --reset`.

        Those of the daemons, and of sdiag itself, are left out.
        """
        found = 0
        for line in self.ok("sdiag").splitlines():
            words = line.split()
            if not words or not words[0].startswith("REQUEST_") or "count:" not in line:
                continue
            if not any(part in words[0] for part in ("STATS", "NODE_REGISTRATION", "PING", "COMPLETE")):
                found += next(int(word[6:]) for word in words if word.startswith("count:"))
        return found

    def submit_many(self, count: int) -> None:
        """Submit many held jobs, a hundred times faster than with sbatch."""
        libraries = f"{self.folder}/root/usr/lib"
        modules = next(Path(libraries).resolve().rglob("Slurm.pm")).parent
        result = self.run(
            ["perl", f"-I{modules}", str(Path(__file__).with_name("submit_many.pl")), str(count)],
            timeout_s=900,
        )
        assert result.rc == 0, result.err

    def rest(self, path: str) -> Any:
        """Return slurmrestd's answer for `path`, for example partitions or reservation/R.

        In 22.05 it is the only source of JSON for the data that scontrol shows.
        """
        request = f"GET /slurm/v0.0.38/{path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n"
        result = self.run(["setpriv", *REST, ANSWER], data=request)
        assert result.out.startswith("HTTP/1.1 200 "), f"{path}: {result.out}{result.err}"
        return json.JSONDecoder().raw_decode(result.out.partition("\n\n")[2])[0]

    def token(self) -> str:
        """Return a token of root for slurmrestd."""
        return self.ok("scontrol", "token", "lifespan=3600").strip().removeprefix("SLURM_JWT=")

    @contextmanager
    def slurmrestd(self) -> Iterator[Path]:
        """Run slurmrestd for callers with a token, and yield the path of its socket."""
        folder = self.folder / "rest"
        folder.mkdir()
        folder.chmod(0o777)
        path, log_path = folder / "socket", self.folder / "slurmrestd.log"
        daemon = ("slurmrestd", "-a", "rest_auth/jwt", "-s", "slurmctld", f"unix:{path}")
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                [*self._prefix("/", "root"), "setpriv", *REST[:-2], *daemon],
                env=_plain_environ() | {"SLURM_JWT": "daemon"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            eventually(lambda: _listens(path), timeout_s=UP_S, what=f"slurmrestd listens; see {log_path}")
            yield path
        finally:
            process.terminate()
            process.wait()
            shutil.rmtree(folder)


def _listens(path: Path) -> bool:
    """Return whether a server listens at a Unix socket."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


def _plain_environ() -> dict[str, str]:
    """Return the environment without variables of ours that Slurm's commands read."""
    kept = ("HOME", "LANG", "PATH", "TZ")
    return {name: os.environ[name] for name in kept if name in os.environ} | {"LC_ALL": "C.UTF-8"}


def first_below(pid: int) -> int:
    """Return the first child of the process."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
