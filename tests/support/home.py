"""Run warpdeck commands in a temporary home, and end all its processes afterwards."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.processes import has_ended, kill, running, sees_other_folder
from tests.support.waiting import eventually

from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.base.submitter_address import folder_of
from warpdeck.client.blocking_client import GONE, SyncClient
from warpdeck_agent.isolation.containment import NodeContainment
from warpdeck_agent.storage.tmpdirs import prefix_of

VERB_S = 180.0
"""Longest time of a command. Some commands wait for a job with four tasks that import PyTorch."""


class Home:
    """A home with one controller and one user's environment."""

    def __init__(self, path: Path, **environ: str) -> None:
        self.path = path
        self.environ = {**os.environ, "WARPDECK_HOME": str(path), "NO_COLOR": "1", **environ}

    def run(self, *argv: str, cwd: Path | None = None, data: str = "") -> subprocess.CompletedProcess[str]:
        """Run `warpdeck ARGV` as a process."""
        return subprocess.run(
            [sys.executable, "-m", "warpdeck.cli.main", *argv],
            cwd=cwd or self.path.parent,
            env=self.environ,
            input=data,
            capture_output=True,
            text=True,
            timeout=VERB_S,
            check=False,
        )

    def slurm(
        self, *argv: str, cwd: Path | None = None, data: str = "", **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a Slurm command as a process."""
        return subprocess.run(
            [sys.executable, "-m", "warpdeck.slurm.runtime.entry", *argv],
            cwd=cwd or self.path.parent,
            env={**self.environ, **environ},
            input=data,
            capture_output=True,
            text=True,
            timeout=VERB_S,
            check=False,
        )

    def ok(self, *argv: str, cwd: Path | None = None) -> str:
        """Return the standard output of a command that must succeed."""
        done = self.run(*argv, cwd=cwd)
        assert done.returncode == 0, f"warpdeck {' '.join(argv)}: {done.stdout}{done.stderr}\n{self.log()}"
        return done.stdout

    def json(self, *argv: str, cwd: Path | None = None) -> Any:
        """Return the parsed output of a command with --json."""
        if argv[0] == "submit":  # arguments after the script belong to the script
            return json.loads(self.ok("submit", "--json", *argv[1:], cwd=cwd))
        return json.loads(self.ok(*argv, "--json", cwd=cwd))

    def request(self, kind: str, **fields: Any) -> Any:
        """Return the controller's answer to a request. It starts the controller if necessary.

        It is faster than a command, because it starts no interpreter, so tests can poll with it.
        """
        try:
            with SyncClient.connect(Paths(str(self.path)), start=False) as client:
                return client.call(kind, **fields)
        except UserError as error:
            if error.code != GONE:
                raise
        self.ok("up")
        return self.request(kind, **fields)

    def job(self, job: object) -> dict[str, Any]:
        """Return a job's row."""
        row: dict[str, Any] = self.request("job", job=str(job))["row"]
        return row

    def state(self, job: object) -> str:
        return str(self.job(job)["state"])

    def node(self, name: str) -> dict[str, Any]:
        """Return a node's row."""
        (row,) = self.request("nodes", name=name)["nodes"]
        return dict(row)

    def wait_for_idle_node(self) -> None:
        """Wait until this machine is an idle node. A new controller adds it automatically."""
        eventually(lambda: self.request("nodes")["nodes"][0]["state"] == "idle", what="an idle node")

    def log(self) -> str:
        """Return the end of the controller's log."""
        try:
            return (self.path / "controller.log").read_text()[-3000:]
        except FileNotFoundError:
            return ""

    def controller_pid(self) -> int:
        """Return the controller's pid, waiting for a controller that is just starting."""
        return int(
            eventually((self.path / "controller.lock").read_text, what="a controller's pid").split()[0]
        )

    def kill_controller(self) -> None:
        """Kill the controller with SIGKILL, and remove its socket so that no client connects to it."""
        pid = self.controller_pid()
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: has_ended(pid), what="the end of the controller")

    def close(self) -> None:
        """End the controller, this machine's agent and all remaining jobs."""
        self.run("down")
        self._kill_rest()
        submitter = Path(folder_of(Paths(str(self.path))))
        for folder in submitter.parent.glob(f"warpdeck-*{submitter.suffix}"):  # left by killed submitters
            shutil.rmtree(folder, ignore_errors=True)
        for identity in self.path.glob("agent/identity"):  # left by killed agents
            for folder in Path("/tmp").glob(prefix_of(identity.read_text()) + "*"):
                shutil.rmtree(folder, ignore_errors=True)
            containment = NodeContainment(identity.read_text())
            eventually(partial(self._is_clear, containment), what="the groups of its jobs are empty")
            containment.close()

    def _is_clear(self, containment: NodeContainment) -> bool:
        """Return whether the groups of its jobs are empty. A process that was just being started may have escaped the first look."""
        if containment.clear(keep=()):
            return True
        self._kill_rest()
        return False

    def _kill_rest(self) -> None:
        """Kill the processes of this home that are found now."""
        marks = (
            f"WARPDECK_HOME={self.path}\0",
            f"{self.path}/agent/",
        )  # a job's environment contains the agent's socket
        left = {pid for mark in marks for pid in running(mark, also_in_environ=True)}
        kill(pid for pid in left - {os.getpid()} if not sees_other_folder(pid, self.path))


@contextmanager
def temporary_home() -> Iterator[Home]:
    """Return a home in a temporary folder with a short path, for fixtures that many tests share."""
    folder = Path(tempfile.mkdtemp(prefix="wd", dir="/tmp"))
    home = Home(folder / "home")
    try:
        yield home
    finally:
        home.close()
        shutil.rmtree(folder, ignore_errors=True)
