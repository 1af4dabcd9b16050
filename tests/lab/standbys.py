"""A standby on a host of the lab."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.support.home import Home
from tests.support.waiting import eventually

from .hosts import Lab

VERB_S = 120.0


class Standby:
    """The home of a standby on a host. Its files and its socket are visible here, too, its processes run on the host."""

    def __init__(self, lab: Lab, host: int, *, folder: Path | None = None) -> None:
        self._lab = lab
        self.host = host
        self.path = folder or Path(tempfile.mkdtemp(prefix="wdsb", dir="/var/tmp")) / "home"
        self.home = Home(self.path, HOME=str(self.path.parent), SSH_AUTH_SOCK="")

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run `warpdeck ARGV` on the host."""
        with self.start(*argv) as process:
            out, err = process.communicate(timeout=VERB_S)
            return subprocess.CompletedProcess(argv, process.returncode, out, err)

    def start(self, *argv: str) -> subprocess.Popen[str]:
        """Start `warpdeck ARGV` on the host."""
        environ = f"WARPDECK_HOME={self.path}", f"HOME={self.path.parent}", "SSH_AUTH_SOCK=", "NO_COLOR=1"
        command = ["env", *environ, sys.executable, "-m", "warpdeck.cli.main", *argv]
        return subprocess.Popen(
            self._lab.command(self.host, *command),
            env=self._lab.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
        )

    def ok(self, *argv: str) -> str:
        """Return the standard output of a command that must succeed."""
        done = self.run(*argv)
        assert done.returncode == 0, (
            f"warpdeck {' '.join(argv)}: {done.stdout}{done.stderr}\n{self.home.log()}"
        )
        return done.stdout

    def set_up(self, home: Home, *options: str) -> None:
        """Make this the standby of a controller, and wait until its copy is complete."""
        target = f"root@{self._lab.address(self.host)}"
        fingerprint = self._lab.fingerprint(self.host)
        home.ok("standby", target, "--home", str(self.path), "--accept-host-key", fingerprint, *options)
        eventually(lambda: self.row(home)["state"] == "following", what="a complete copy")

    def row(self, home: Home) -> dict[str, Any]:
        """Return the standby's row at the controller."""
        row: dict[str, Any] = home.request("standby")["standby"]
        return row

    def receivers(self) -> list[int]:
        """Return the host's pids of the receivers of this home."""
        return self._lab.pids(self.host, f"warpdeck.standby.receiver --home {self.path}")

    def close(self) -> None:
        """End all processes of the home on the host."""
        self.run("down")
        for pid in self._lab.pids(self.host, str(self.path)):
            self._lab.on(self.host, "sh", "-c", f"kill -9 {pid} 2>/dev/null || true")
