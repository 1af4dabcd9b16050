"""Hosts on one machine: each has network, process and mount namespaces and a real sshd, in a network of the
lab.

Entering the lab moves this process into new network and mount namespaces. Therefore the lab does not touch
the machine's own network, and labs of different test runs cannot reach each other. A keeper process outside
pytest removes everything when pytest ends, even if it is killed.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.waiting import eventually

from .nvml import build_fake_nvml, show, write_state

SCRIPT = Path(__file__).with_name("hosts.sh")
_CLONE_NEWNS, _CLONE_NEWNET = 0x00020000, 0x40000000
NETWORK = "198.18.60"
FIRST_UID = 20001
COMMAND_S = 60.0


class Lab:
    """A number of running hosts."""

    def __init__(self, count: int, *, gpus: int = 4) -> None:
        # Not below /tmp: a test may hide that folder from a host, and the host's sshd needs this one.
        self.base = Path(tempfile.mkdtemp(prefix="wdlab", dir="/var/tmp"))
        self.base.chmod(0o711)
        self.count = count
        self.gpus = gpus
        library = build_fake_nvml(self.base / "nvml")
        self.environ = {**os.environ, "HOSTS_BASE": str(self.base), "HOSTS_NVML": str(library.parent)}
        self._users = 0
        for host in range(1, count + 1):
            (self.base / str(host)).mkdir()
            self.show_gpus(host)
        self._keeper = self._start_keeper()
        self.sh("up", str(count))

    def _start_keeper(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [str(SCRIPT), "keep"],
            env=self.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )

    def sh(self, *argv: str) -> None:
        """Run one command of hosts.sh. Its background processes must not hold our pipes open."""
        log = self.base / "hosts.log"
        with log.open("wb") as file:
            result = subprocess.run(
                [str(SCRIPT), *argv],
                env=self.environ,
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                timeout=COMMAND_S,
            )
        assert result.returncode == 0, f"hosts.sh {' '.join(argv)}: {log.read_text()}"

    def command(self, host: int, *argv: str) -> list[str]:
        """Return the command that runs another command as root in all namespaces of the host."""
        return [str(SCRIPT), "exec", str(host), *argv]

    def on(self, host: int, *argv: str) -> str:
        """Return the output of a command that runs as root in all namespaces of the host."""
        result = subprocess.run(
            self.command(host, *argv),
            env=self.environ,
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=COMMAND_S,
        )
        assert result.returncode == 0, f"on host {host}: {argv}: {result.stderr}"
        return result.stdout

    def pids(self, host: int, words: str) -> list[int]:
        """Return the host's pids of the processes with this text in their command line."""
        script = (
            'for dir in /proc/[0-9]*; do tr "\\0" " " <$dir/cmdline 2>/dev/null | grep -qF -- "$1" '
            "&& [ ${dir#/proc/} != $$ ] && echo ${dir#/proc/}; done; true"
        )
        return [int(word) for word in self.on(host, "sh", "-c", script, "-", words).split()]

    def agent(self, host: int) -> int:
        """Return the pid of the host's only agent.

        A child that the agent is about to start has the same command line for a moment.
        """
        return eventually(lambda: self._agent(host), what=f"one agent on host {host}")

    def _agent(self, host: int) -> int:
        found = self.pids(host, "serve --dir")
        return found[0] if len(found) == 1 else 0

    def add_user(self, host: int, name: str, *, shell: str = "/bin/bash") -> Path:
        """Add an ordinary user of the host who may log in with the lab's key, and return the home folder."""
        self._users += 1
        uid = FIRST_UID + self._users
        host_folder = self.base / str(host)
        home = host_folder / "home" / name
        home.mkdir()
        os.chown(home, uid, uid)
        for file, line in (
            ("passwd", f"{name}:x:{uid}:{uid}::{home}:{shell}"),
            ("group", f"{name}:x:{uid}:"),
            ("shadow", f"{name}:*:19000:0:99999:7:::"),
        ):
            with (host_folder / "etc" / file).open("a") as table:
                table.write(line + "\n")
        return home

    @contextmanager
    def covered(self, host: int, path: str, cover: Path) -> Iterator[None]:
        """Replace a file by another one, as the host sees it."""
        self.on(host, "mount", "--bind", str(cover), path)
        try:
            yield
        finally:
            self.on(host, "umount", "--lazy", path)

    @contextmanager
    def small_disk(self, host: int, path: str, *, size: str = "64m", files: int = 0) -> Iterator[None]:
        """Mount an empty file system of this size, and with this number of files, over a folder. Only this
        host sees it.
        """
        options = f"size={size},mode=1777,nr_inodes={files}"
        self.on(host, "mount", "-t", "tmpfs", "-o", options, "tmpfs", path)
        try:
            yield
        finally:
            self.on(host, "umount", "--lazy", path)

    def show_gpus(
        self, host: int, *, util: int = 0, processes: list[tuple[int, int, int]] | None = None
    ) -> None:
        """Set the values that NVML returns on that host."""
        write_state(
            self.base / str(host) / "nvml.state", gpus=self.gpus, util=util, processes=processes or []
        )

    def show_driver(self, host: int, text: str) -> None:
        """Set the complete state of NVML on that host."""
        show(self.base / str(host) / "nvml.state", text)

    def address(self, host: int) -> str:
        return f"{NETWORK}.{10 + host}"

    def fingerprint(self, host: int) -> str:
        """Return the fingerprint of the host's key, as ssh-keygen prints it."""
        return fingerprint(self.base / str(host) / "hostkey.pub")

    def public_key(self, host: int) -> str:
        """Return the host's key in the form of known_hosts, without the host's name."""
        return " ".join((self.base / str(host) / "hostkey.pub").read_text().split()[:2])

    def user_home(self, path: Path) -> Path:
        """Return a home folder with an ssh key that the hosts accept, and with no known host."""
        ssh = path / ".ssh"
        ssh.mkdir(parents=True, mode=0o700)
        self.give_key(ssh)
        return path

    def give_key(self, ssh: Path) -> None:
        """Put the key into a .ssh folder."""
        (ssh / "id_ed25519").write_bytes((self.base / "client").read_bytes())
        (ssh / "id_ed25519").chmod(0o600)

    def close(self) -> None:
        """Stop all hosts. Nothing of them is left when this returns."""
        self._keeper.communicate(b"done\n", timeout=COMMAND_S)
        shutil.rmtree(self.base, ignore_errors=True)


def fingerprint(public_key: Path) -> str:
    """Return the fingerprint SHA256:..., as ssh-keygen prints it."""
    out = subprocess.run(
        ["ssh-keygen", "-lf", str(public_key)], check=True, capture_output=True, text=True
    ).stdout
    return out.split()[1]


def enter_namespaces() -> None:
    """Move this process, and the processes that it starts later, into new network and mount namespaces."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS | _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    os.makedirs("/var/lib/warpdeck", exist_ok=True)
    for argv in (
        ["mount", "--make-rprivate", "/"],
        ["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/var/lib/warpdeck"],
        ["ip", "link", "set", "lo", "up"],
    ):
        subprocess.run(argv, check=True)
