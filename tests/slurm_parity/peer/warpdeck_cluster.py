"""Our controller for comparisons with a real Slurm: the same site, jobs and command lines.

The controller, its socket and the commands are real and run in this process. The nodes are simulated: they
only report that they run the jobs that they are given.
"""

from __future__ import annotations

import asyncio
import io
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from tests.support.served import Served, served
from tests.support.waiting import WAIT_S, eventually

from warpdeck.client.blocking_client import SyncClient
from warpdeck.client.submission import draft_script
from warpdeck.config import decode
from warpdeck.slurm.console.console import Console, ControllerAccess, StandardStreams
from warpdeck.slurm.runtime.commands import run
from warpdeck_agent.wire import messages as wire

from .real_slurm import HOST, NODES, CommandResult

T = TypeVar("T")
SITE = """
[scheduler]
default_partition = "gpu"
default_time = "1:00:00"
default_mem_per_cpu = "100M"
kill_invalid_dependency = false
[scheduler.weights]
job_size = 1000
partition = 1000
[partitions.gpu]
nodes = "n[1-4]"
max_time = "7-00:00:00"
default_time = "1:00:00"
priority_tier = 10
[partitions.debug]
nodes = "n[1-2]"
max_time = "30:00"
"""
"""The same site as real_slurm.SITE."""
CONNECT = """
import os, pwd, socket, sys
path, user, number = sys.argv[1:]
os.setuid(pwd.getpwnam(user).pw_uid)
link = socket.socket(socket.AF_UNIX)
link.connect(path)
socket.send_fds(socket.socket(fileno=int(number)), [b"."], [link.fileno()])
"""
"""Program that connects as another user and hands over the connection."""


class WarpdeckCluster:
    """The controller in its own thread, and commands that talk to it."""

    def __init__(self, folder: Path, *, site: str = SITE, nodes: Sequence[str] = NODES) -> None:
        self.folder = folder
        self._site = site
        self._nodes = nodes
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._up = threading.Event()
        self._over: asyncio.Event | None = None
        self.served: Served | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._up.wait(WAIT_S), "the controller serves"
        return self

    def __exit__(self, *_: object) -> None:
        assert self._over is not None
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(WAIT_S)
        self._loop.close()

    def _live(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        self._over = asyncio.Event()
        config = decode(self._site, "config.toml").config
        async with served(self.folder / "home", config=config) as self.served:
            Path(self.served.paths.config).write_text(self._site)
            for name in self._nodes:
                await self.served.add_node(name)
            self._up.set()
            await self._over.wait()

    def run_in_loop(self, work: Callable[[Served], Awaitable[T]]) -> T:
        """Run `work` in the controller's loop and return its result."""
        assert self.served is not None

        async def done(site: Served) -> T:
            return await work(site)

        return asyncio.run_coroutine_threadsafe(done(self.served), self._loop).result(WAIT_S)

    def connect(self, user: str = "root") -> SyncClient:
        """Connect as the user, as the kernel reports it."""
        assert self.served is not None
        if user == "root":
            return SyncClient.connect(self.served.paths, start=False)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            argv = [sys.executable, "-c", CONNECT, self.served.paths.socket, user, str(theirs.fileno())]
            subprocess.run(argv, pass_fds=[theirs.fileno()], timeout=WAIT_S, check=True)
            _, links, _, _ = socket.recv_fds(ours, 1, 1)
        return SyncClient.over(socket.socket(fileno=links[0]))

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        user: str = "root",
        data: str = "",
    ) -> CommandResult:
        """Run one command as a process inside a job would, with `data` on its input."""
        out, err = io.StringIO(), io.StringIO()
        console = Console(
            streams=StandardStreams(io.StringIO(data), out, err),
            controller=ControllerAccess(lambda: self.connect(user)),
            env=env or {},
            folder=str(self.folder),
            user=user,
            host=HOST,
            read_file=_no_file,
        )
        code = run(argv[0], list(argv[1:]), console)
        return CommandResult(code, out.getvalue(), err.getvalue())

    def submit(self, *options: str, name: str = "wrap", script: str = "sleep 1000") -> int:
        """Submit a job with sbatch's options and return its id."""
        draft = draft_script(
            f"#!/bin/sh\n{script}\n",
            name,
            options=options,
            cwd=str(self.folder),
            environ={},
            now=time.time(),
        )
        with self.connect() as client:
            answer = client.call("submit", request=draft.request)
        return int(answer["job_id"])

    def report_launches_running(self) -> None:
        """Let every node report that the jobs sent to it run."""

        async def send_reports(site: Served) -> None:
            launches, site.fleet.launches = site.fleet.launches, []
            for launch in launches:
                report = wire.JobReport(
                    launch.job_id, launch.restarts, phase="running", started_at=time.time()
                )
                for node in _nodes_of(site, launch.job_id):
                    await site.report(node, report)

        self.run_in_loop(send_reports)

    def report_job_end(self, job: int, **facts: Any) -> None:
        """Let every node report the end of the job with these facts."""

        async def send_reports(site: Served) -> None:
            running = site.controller.state.jobs[job]  # type: ignore[index]
            report = wire.JobReport(running.id, running.restarts, **{"phase": "exited", **facts})
            for node in _nodes_of(site, running.id):
                await site.report(node, report)

        self.run_in_loop(send_reports)

    def wait_until_running(self, *jobs: int) -> None:
        """Wait until these jobs run."""

        def all_run() -> bool:
            self.report_launches_running()
            assert self.served is not None
            state = self.served.controller.state
            return all(state.jobs[job].state == "RUNNING" for job in jobs)  # type: ignore[index]

        eventually(all_run, what=f"jobs {jobs} run")


def _no_file(path: str, size: int) -> bytes:
    raise FileNotFoundError(path)


def _nodes_of(site: Served, job: int) -> list[str]:
    allocation = site.controller.state.jobs[job].allocation  # type: ignore[index]
    return [str(share.node) for share in allocation.shares] if allocation else []
