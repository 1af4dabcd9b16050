"""A home with a controller, for commands as users type them and for requests over one open connection.

Commands run with the environment of a login (see `login`), in a folder that is a git repository, as those of users do.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.support.agent import lock_holder
from tests.support.home import Home
from tests.support.waiting import eventually
from warpdeck.base.paths import Paths
from warpdeck.client.blocking_client import SyncClient

from .login import login_environment, make_project

TICKS_A_SECOND = 100
"""Unit of utime and stime in /proc/PID/stat."""


class Rig:
    """One controller; its jobs write to `submit_dir`."""

    def __init__(self, folder: Path, **environ: str) -> None:
        self.folder = folder
        self.home = Home(folder / "home", **{**login_environment(), **environ})
        self.home.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program has compiled bytecode
        self.submit_dir = folder / "out"
        self.submit_dir.mkdir()
        make_project(self.submit_dir)
        self._client: SyncClient | None = None

    @property
    def paths(self) -> Paths:
        return Paths(str(self.home.path))

    @property
    def client(self) -> SyncClient:
        """Return the connection, which is opened at the first use."""
        if self._client is None:
            self._client = SyncClient.connect(self.paths, start=False)
        return self._client

    def hang_up(self) -> None:
        """Close the connection before the controller ends."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def up(self, *argv: str) -> None:
        """Start the controller and wait for its nodes."""
        self.home.ok("up", *argv)
        self.wait_for_nodes()

    def wait_for_nodes(self) -> None:
        eventually(
            lambda: all(node["state"] in ("idle", "mixed", "allocated") for node in self.nodes()),
            what="all nodes",
        )

    def nodes(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.client.call("nodes")["nodes"]
        return found

    def request(self, script: str, **fields: Any) -> dict[str, Any]:
        """Return a request like that of the command line, without a snapshot."""
        base = {"name": "bench", "submit_dir": str(self.submit_dir), "env": {"PATH": "/usr/bin:/bin"}}
        return {**base, "script": script, **fields}

    def submit(self, script: str, **fields: Any) -> int:
        """Submit a job and return its id once it is durable."""
        return int(self.client.call("submit", request=self.request(script, **fields))["job_id"])

    def counts(self) -> dict[str, int]:
        """Return the number of jobs in each state."""
        found: dict[str, int] = self.client.call("status")["jobs"]
        return found

    def wait_until_idle(self, *, timeout_s: float = 120.0) -> None:
        """Wait until no job waits or runs."""
        open_states = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING")

        def idle() -> bool:
            counts = self.counts()
            return not any(counts.get(state) for state in open_states)

        eventually(idle, timeout_s=timeout_s, what="an empty queue")

    def rows(self, array_job_id: int, *, limit: int) -> list[dict[str, Any]]:
        """Return all jobs of one submission, including finished ones."""
        rows = self.client.call("jobs", ids=[str(array_job_id)], finished=True, limit=limit)["jobs"]
        return [row for row in rows if row["array_job_id"] == array_job_id]

    def controller_pid(self) -> int:
        return self.home.controller_pid()

    def agent_pid(self) -> int:
        """Return the pid of this machine's agent."""
        return lock_holder(self.home.path / "agent" / "agent.lock")

    def supervisor_pid(self) -> int:
        """Return the pid of the process that starts this machine's jobs."""
        return lock_holder(self.home.path / "agent" / "supervisor.lock")

    def close(self) -> None:
        self.hang_up()
        self.home.close()


@contextmanager
def open_rig(*argv: str, **environ: str) -> Iterator[Rig]:
    """Run a rig in a temporary folder."""
    with TemporaryDirectory(prefix="wdb", dir="/tmp") as folder:
        Path(folder).chmod(0o711)  # lets other users reach a shared controller
        rig = Rig(Path(folder), **environ)
        try:
            rig.up(*argv)
            yield rig
        finally:
            rig.close()


def rss_mb(pid: int) -> float:
    """Return the resident memory in MB."""
    return _status_kb(pid, "VmRSS") / 1e3


def pss_mb(pid: int) -> float:
    """Return the proportional memory (PSS) in MB; shared pages are counted in part."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        for text in file:
            if text.startswith("Pss:"):
                return int(text.split()[1]) / 1e3
    return 0.0


def cpu_percent(pid: int, *, over_s: float) -> float:
    """Return the CPU use of a process over `over_s` seconds, in percent of one core."""
    before_s, begun = cpu_s(pid), time.monotonic()
    time.sleep(over_s)  # this is the measured time, not a wait for a condition
    return 100.0 * (cpu_s(pid) - before_s) / (time.monotonic() - begun)


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process since its start."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND


def _status_kb(pid: int, key: str) -> int:
    for text in Path(f"/proc/{pid}/status").read_text().splitlines():
        if text.startswith(key + ":"):
            return int(text.split()[1])
    return 0
