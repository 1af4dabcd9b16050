"""Run a temporary sshd on the loopback address with its own keys."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.waiting import eventually

SSHD = "/usr/sbin/sshd"


class Loopback:
    """A running sshd. It accepts the SSH key in the folder `home`. `target` is the argument of `node add`."""

    def __init__(self, base: Path, port: int) -> None:
        self.base = base
        self.home = base / "user"
        self.target = f"{getpass.getuser()}@127.0.0.1:{port}"

    def fingerprint(self) -> str:
        """Return the fingerprint of the host key."""
        argv = ["ssh-keygen", "-lf", str(self.base / "hostkey.pub")]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split()[1]


def is_possible() -> bool:
    """Return whether an sshd can be started here."""
    return Path(SSHD).exists() and shutil.which("ssh-keygen") is not None


@contextmanager
def open_loopback(base: Path) -> Iterator[Loopback]:
    """Start an sshd and wait until it answers."""
    port = free_port()
    loopback = Loopback(base, port)
    ssh = loopback.home / ".ssh"
    ssh.mkdir(parents=True, mode=0o700)
    for key in (base / "hostkey", ssh / "id_ed25519"):
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
        subprocess.run(argv, check=True, capture_output=True)
    config = base / "sshd_config"
    config.write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {base / 'hostkey'}\nPidFile none\nUsePAM no\n"
        f"AuthorizedKeysFile {ssh / 'id_ed25519.pub'}\nStrictModes no\nPasswordAuthentication no\n"
        f"KbdInteractiveAuthentication no\nUseDNS no\n"
    )
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", exist_ok=True)
    with (base / "sshd.log").open("wb") as log:
        daemon = subprocess.Popen([SSHD, "-D", "-e", "-f", str(config)], stdout=log, stderr=log)
    try:
        eventually(lambda: _answers(port), what="a connection to the sshd")
        yield loopback
    finally:
        daemon.terminate()
        daemon.wait()


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as link:
        link.bind(("127.0.0.1", 0))
        return int(link.getsockname()[1])


def _answers(port: int) -> bool:
    with socket.socket() as link:
        return link.connect_ex(("127.0.0.1", port)) == 0
