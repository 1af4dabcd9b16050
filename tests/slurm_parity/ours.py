"""Our controller where a real Slurm stands beside it: the same site, the same jobs, the same command lines.

The controller, its socket and the commands are the real ones, in this process; its nodes only say that they run what they are told.
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
from warpdeck.slurm.console.console import Console, ControllerAccess, Streams
from warpdeck.slurm.runtime.commands import run
from warpdeck_agent.wire import messages as wire

from .peer import HOST, NODES, Done

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
"""The site of peer.SITE."""
CONNECT = """
import os, pwd, socket, sys
path, user, number = sys.argv[1:]
os.setuid(pwd.getpwnam(user).pw_uid)
link = socket.socket(socket.AF_UNIX)
link.connect(path)
socket.send_fds(socket.socket(fileno=int(number)), [b"."], [link.fileno()])
"""
"""A process that connects as another user, and hands over the connection."""


class OurSlurm:
    """The controller in a thread of its own, and commands run beside it."""

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

    def do(self, work: Callable[[Served], Awaitable[T]]) -> T:
        """Something done in the controller's loop."""
        assert self.served is not None

        async def done(site: Served) -> T:
            return await work(site)

        return asyncio.run_coroutine_threadsafe(done(self.served), self._loop).result(WAIT_S)

    def connect(self, user: str = "root") -> SyncClient:
        """As the user, for whom the kernel answers."""
        assert self.served is not None
        if user == "root":
            return SyncClient.connect(self.served.paths, start=False)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            words = [sys.executable, "-c", CONNECT, self.served.paths.socket, user, str(theirs.fileno())]
            subprocess.run(words, pass_fds=[theirs.fileno()], timeout=WAIT_S, check=True)
            _, links, _, _ = socket.recv_fds(ours, 1, 1)
        return SyncClient.over(socket.socket(fileno=links[0]))

    def run(
        self,
        words: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        user: str = "root",
        data: str = "",
    ) -> Done:
        """One command, as a process inside a job would run it, with `data` on its input."""
        out, err = io.StringIO(), io.StringIO()
        console = Console(
            streams=Streams(io.StringIO(data), out, err),
            controller=ControllerAccess(lambda: self.connect(user)),
            env=env or {},
            folder=str(self.folder),
            user=user,
            host=HOST,
            read_file=_no_file,
        )
        code = run(words[0], list(words[1:]), console)
        return Done(code, out.getvalue(), err.getvalue())

    def submit(self, *options: str, name: str = "wrap", script: str = "sleep 1000") -> int:
        """sbatch's options; the job's number."""
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

    def begins(self) -> None:
        """Every node says that what it was told to start runs."""

        async def say(site: Served) -> None:
            launches, site.fleet.launches = site.fleet.launches, []
            for launch in launches:
                said = wire.JobReport(launch.job_id, launch.restarts, phase="running", started_at=time.time())
                for node in _nodes_of(site, launch.job_id):
                    await site.report(node, said)

        self.do(say)

    def ends(self, job: int, **facts: Any) -> None:
        """Every node says that the job has ended so."""

        async def say(site: Served) -> None:
            held = site.controller.state.jobs[job]  # type: ignore[index]
            said = wire.JobReport(held.id, held.restarts, **{"phase": "exited", **facts})
            for node in _nodes_of(site, held.id):
                await site.report(node, said)

        self.do(say)

    def runs(self, *jobs: int) -> None:
        """Waits until these jobs run."""

        def so() -> bool:
            self.begins()
            assert self.served is not None
            state = self.served.controller.state
            return all(state.jobs[job].state == "RUNNING" for job in jobs)  # type: ignore[index]

        eventually(so, what=f"jobs {jobs} run")


def _no_file(path: str, size: int) -> bytes:
    raise FileNotFoundError(path)


def _nodes_of(site: Served, job: int) -> list[str]:
    allocation = site.controller.state.jobs[job].allocation  # type: ignore[index]
    return [str(share.node) for share in allocation.shares] if allocation else []
