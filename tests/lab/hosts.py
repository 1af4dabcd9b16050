"""Hosts on one machine: a network, process and mount namespace and a real sshd each, all inside a namespace of our own.

Entering the lab moves this process into fresh network and mount namespaces, so nothing of it touches the machine's own
network, and everything is gone with the process.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

from .nvml import build_fake_nvml, write_state

SCRIPT = Path(__file__).with_name("hosts.sh")
_CLONE_NEWNS, _CLONE_NEWNET = 0x00020000, 0x40000000
NETWORK = "198.18.60"


class Lab:
    """So many hosts, up."""

    def __init__(self, base: Path, count: int, *, gpus: int = 4) -> None:
        self.base = base
        self.count = count
        self.gpus = gpus
        library = build_fake_nvml(base / "nvml")
        self._environ = {**os.environ, "HOSTS_BASE": str(base), "HOSTS_NVML": str(library.parent)}
        for host in range(1, count + 1):
            (base / str(host)).mkdir(parents=True)
            self.show_gpus(host)
        self.sh("up", str(count))

    def sh(self, *argv: str) -> None:
        """One command of hosts.sh. Its background processes must not hold our pipes."""
        with (self.base / "hosts.log").open("ab") as log:
            subprocess.run(
                [str(SCRIPT), *argv],
                env=self._environ,
                check=True,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def show_gpus(
        self, host: int, *, util: int = 0, processes: list[tuple[int, int, int]] | None = None
    ) -> None:
        """What NVML says on that host."""
        write_state(
            self.base / str(host) / "nvml.state", gpus=self.gpus, util=util, processes=processes or []
        )

    def address(self, host: int) -> str:
        return f"{NETWORK}.{10 + host}"

    def fingerprint(self, host: int) -> str:
        """Of the host's key, as ssh-keygen tells it."""
        key = self.base / str(host) / "hostkey.pub"
        out = subprocess.run(
            ["ssh-keygen", "-lf", str(key)], check=True, capture_output=True, text=True
        ).stdout
        return out.split()[1]

    def user_home(self, path: Path) -> Path:
        """A home folder whose ssh key the hosts accept, and which knows no host yet."""
        ssh = path / ".ssh"
        ssh.mkdir(parents=True, mode=0o700)
        (ssh / "id_ed25519").write_bytes((self.base / "client").read_bytes())
        (ssh / "id_ed25519").chmod(0o600)
        return path

    def close(self) -> None:
        self.sh("down")


def enter_namespaces() -> None:
    """Moves this process (and what it starts from now on) into a network and mounts of its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS | _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    os.makedirs("/var/lib/warpdeck", exist_ok=True)
    os.makedirs("/run/netns", exist_ok=True)
    for argv in (
        ["mount", "--make-rprivate", "/"],
        ["mount", "-t", "tmpfs", "tmpfs", "/run/netns"],
        ["mount", "-t", "tmpfs", "tmpfs", "/var/lib/warpdeck"],
        ["ip", "link", "set", "lo", "up"],
    ):
        subprocess.run(argv, check=True)
