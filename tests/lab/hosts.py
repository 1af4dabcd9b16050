"""Hosts on one machine: network, process and mount namespaces and a real sshd each, in a network of the lab's own.

Entering the lab moves this process into fresh network and mount namespaces, so nothing touches the machine's own network,
and labs of other test runs are never met. A keeper outside pytest takes everything down when pytest ends, however it ends.
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
    """So many hosts, up."""

    def __init__(self, count: int, *, gpus: int = 4) -> None:
        # Not below /tmp: a test may hide that folder from a host, and the host's sshd needs this one.
        self.base = Path(tempfile.mkdtemp(prefix="wdlab", dir="/var/tmp"))
        self.base.chmod(0o711)
        self.count = count
        self.gpus = gpus
        library = build_fake_nvml(self.base / "nvml")
        self._environ = {**os.environ, "HOSTS_BASE": str(self.base), "HOSTS_NVML": str(library.parent)}
        self._users = 0
        for host in range(1, count + 1):
            (self.base / str(host)).mkdir()
            self.show_gpus(host)
        self._keeper = self._start_keeper()
        self.sh("up", str(count))

    def _start_keeper(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [str(SCRIPT), "keep"],
            env=self._environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )

    def sh(self, *argv: str) -> None:
        """One command of hosts.sh. Its background processes must not hold our pipes."""
        log = self.base / "hosts.log"
        with log.open("wb") as file:
            done = subprocess.run(
                [str(SCRIPT), *argv],
                env=self._environ,
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                timeout=COMMAND_S,
            )
        assert done.returncode == 0, f"hosts.sh {' '.join(argv)}: {log.read_text()}"

    def on(self, host: int, *argv: str) -> str:
        """What a command on the host prints; it runs as root in all the host's namespaces."""
        done = subprocess.run(
            [str(SCRIPT), "exec", str(host), *argv],
            env=self._environ,
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=COMMAND_S,
        )
        assert done.returncode == 0, f"on host {host}: {argv}: {done.stderr}"
        return done.stdout

    def pids(self, host: int, words: str) -> list[int]:
        """The processes of the host whose command line holds the words, as the host counts them."""
        script = (
            'for dir in /proc/[0-9]*; do tr "\\0" " " <$dir/cmdline 2>/dev/null | grep -qF -- "$1" '
            "&& [ ${dir#/proc/} != $$ ] && echo ${dir#/proc/}; done; true"
        )
        return [int(word) for word in self.on(host, "sh", "-c", script, "-", words).split()]

    def agent(self, host: int) -> int:
        """The pid of the one agent on that host. What it is about to start is called so, too, until it begins."""
        return eventually(lambda: self._agent(host), what=f"one agent on host {host}")

    def _agent(self, host: int) -> int:
        found = self.pids(host, "serve --dir")
        return found[0] if len(found) == 1 else 0

    def add_user(self, host: int, name: str, *, shell: str = "/bin/bash") -> Path:
        """A plain user of that host, who may log in with the lab's key; returns the home folder."""
        self._users += 1
        uid = FIRST_UID + self._users
        place = self.base / str(host)
        home = place / "home" / name
        home.mkdir()
        os.chown(home, uid, uid)
        for file, line in (
            ("passwd", f"{name}:x:{uid}:{uid}::{home}:{shell}"),
            ("group", f"{name}:x:{uid}:"),
            ("shadow", f"{name}:*:19000:0:99999:7:::"),
        ):
            with (place / "etc" / file).open("a") as table:
                table.write(line + "\n")
        return home

    @contextmanager
    def covered(self, host: int, path: str, cover: Path) -> Iterator[None]:
        """The host sees another file in place of that one."""
        self.on(host, "mount", "--bind", str(cover), path)
        try:
            yield
        finally:
            self.on(host, "umount", "--lazy", path)

    @contextmanager
    def small_disk(self, host: int, path: str, *, size: str = "64m", files: int = 0) -> Iterator[None]:
        """An empty file system of that size (and so many files) over a folder that only this host sees."""
        options = f"size={size},mode=1777,nr_inodes={files}"
        self.on(host, "mount", "-t", "tmpfs", "-o", options, "tmpfs", path)
        try:
            yield
        finally:
            self.on(host, "umount", "--lazy", path)

    def show_gpus(
        self, host: int, *, util: int = 0, processes: list[tuple[int, int, int]] | None = None
    ) -> None:
        """What NVML says on that host."""
        write_state(
            self.base / str(host) / "nvml.state", gpus=self.gpus, util=util, processes=processes or []
        )

    def show_driver(self, host: int, text: str) -> None:
        """NVML says exactly this on that host."""
        show(self.base / str(host) / "nvml.state", text)

    def address(self, host: int) -> str:
        return f"{NETWORK}.{10 + host}"

    def fingerprint(self, host: int) -> str:
        """Of the host's key, as ssh-keygen tells it."""
        return fingerprint(self.base / str(host) / "hostkey.pub")

    def public_key(self, host: int) -> str:
        """The host's key as known_hosts holds it, without the host's name."""
        return " ".join((self.base / str(host) / "hostkey.pub").read_text().split()[:2])

    def user_home(self, path: Path) -> Path:
        """A home folder whose ssh key the hosts accept, and which knows no host yet."""
        ssh = path / ".ssh"
        ssh.mkdir(parents=True, mode=0o700)
        self.give_key(ssh)
        return path

    def give_key(self, ssh: Path) -> None:
        """Puts the key into a .ssh folder."""
        (ssh / "id_ed25519").write_bytes((self.base / "client").read_bytes())
        (ssh / "id_ed25519").chmod(0o600)

    def close(self) -> None:
        """Takes all hosts down; nothing of them is left when this returns."""
        self._keeper.communicate(b"done\n", timeout=COMMAND_S)
        shutil.rmtree(self.base, ignore_errors=True)


def fingerprint(public_key: Path) -> str:
    """SHA256:..., as ssh-keygen tells it."""
    out = subprocess.run(
        ["ssh-keygen", "-lf", str(public_key)], check=True, capture_output=True, text=True
    ).stdout
    return out.split()[1]


def enter_namespaces() -> None:
    """Moves this process (and what it starts from now on) into a network and mounts of its own."""
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
