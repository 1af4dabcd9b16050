"""Bringing output that was written on a node to the submit host, where the user looks for it.

What was brought already is the size of the file itself, so a restarted controller goes on where it stopped; a file that
somebody else changed meanwhile is not touched further than by appending. As root the file is written through a child that
runs as the user.
"""

from __future__ import annotations

import asyncio
import logging
import os

from warpdeck.errors import RemoteError
from warpdeck.model import JobId, NodeName
from warpdeck_agent.wire import messages as wire

from .fleet import AgentFleet

log = logging.getLogger("warpdeck.outputs")
RETRY_S = 2.0
_Key = tuple[JobId, int, NodeName]


class Outputs:
    """controller.ports.OutputCollector over the fleet's log streams."""

    def __init__(self, fleet: AgentFleet) -> None:
        self._fleet = fleet
        self._tasks: dict[_Key, asyncio.Task[None]] = {}

    def begin(
        self, job_id: JobId, restarts: int, node: NodeName, *, files: dict[str, str], uid: int, user: str
    ) -> None:
        key = (job_id, restarts, node)
        if key not in self._tasks:
            work = self._collect(key, files, uid, user)
            self._tasks[key] = asyncio.get_running_loop().create_task(work)

    async def finished(self, job_id: JobId, restarts: int, node: NodeName) -> None:
        task = self._tasks.get((job_id, restarts, node))
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)
            self._tasks.pop((job_id, restarts, node), None)

    async def _collect(self, key: _Key, files: dict[str, str], uid: int, user: str) -> None:
        for channel, path in files.items():
            try:
                await self._bring(key, channel, path, uid, user)
            except OSError as error:
                log.error("output of job %s: cannot write %s: %s", key[0], path, error.strerror)

    async def _bring(self, key: _Key, channel: str, path: str, uid: int, user: str) -> None:
        job_id, restarts, node = key
        while True:
            sink = await FileSink.open(path, uid=uid, user=user)
            asked = wire.OpenLog(
                stream=0, job_id=job_id, restarts=restarts, channel=channel, offset=sink.size, follow=True
            )
            try:
                await self._fleet.open_stream(node, asked, sink)
                error = await sink.end
            except RemoteError as broken:
                error = str(broken)
            await sink.close()
            if not error or "not kept" in error:
                return
            await asyncio.sleep(RETRY_S)


class FileSink:
    """A file on the submit host, appended to as its user."""

    def __init__(self, child: asyncio.subprocess.Process | None, descriptor: int, size: int) -> None:
        self._child = child
        self._descriptor = descriptor
        self.size = size
        self.end: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @classmethod
    async def open(cls, path: str, *, uid: int, user: str) -> FileSink:
        """Makes missing folders. Raises OSError."""
        if os.geteuid() != 0 or uid == 0:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            return cls(None, descriptor, os.fstat(descriptor).st_size)
        script = 'mkdir -p "$(dirname "$1")" && touch "$1" && exec cat >>"$1"'
        child = await asyncio.create_subprocess_exec(
            "setpriv",
            f"--reuid={uid}",
            f"--regid={uid}",
            "--clear-groups",
            "/bin/sh",
            "-c",
            script,
            "sh",
            path,
            stdin=asyncio.subprocess.PIPE,
        )
        size = os.path.getsize(path) if os.path.exists(path) else 0
        return cls(child, -1, size)

    async def opened(self, offset: int, size_bytes: int, path: str) -> None:
        return None

    async def data(self, chunk: bytes) -> None:
        if self._child is not None and self._child.stdin is not None:
            self._child.stdin.write(chunk)
            await self._child.stdin.drain()
        else:
            os.write(self._descriptor, chunk)

    async def ended(self, error: str) -> None:
        if not self.end.done():
            self.end.set_result(error)

    async def close(self) -> None:
        if self._child is not None:
            if self._child.stdin is not None:
                self._child.stdin.close()
            await self._child.wait()
        if self._descriptor >= 0:
            os.close(self._descriptor)
