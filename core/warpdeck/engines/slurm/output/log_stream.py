"""Sends an output file to a client, and follows it until the job has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from warpdeck.base.background_task import cancel
from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.reading.job_table import NOT_BEGUN
from warpdeck.model import ExitStatus, Job
from warpdeck.ports.engine_streams import ByteSink, StreamEnd
from warpdeck.protocol.results import LogOpened

from .log_file import LogFile

FIRST_POLL_S, LAST_POLL_S, POLL_GROWTH = 0.2, 2.0, 1.3
"""Seconds between looks at a file that does not grow: the first, the longest, and the factor between two of them."""
QUIET_LOOKS = 3
"""Number of looks in a row that find nothing new after the end of the job. The bytes of another machine come late."""


@dataclass(frozen=True, kw_only=True)
class LogRequest:
    """A log that a client reads."""

    label: str
    path: str
    node: str
    offset: int
    ended: Callable[[], Awaitable[Job]] | None
    """Returns when this start of the job has ended. None: the log is sent as it is now."""
    exit: ExitStatus | None
    """The exit status at the time of the request."""


class LogStream:
    """A ByteStream that reads a file."""

    def __init__(self, request: LogRequest, sink: ByteSink) -> None:
        self._request = request
        self._sink = sink
        self._file = LogFile(request.path)
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Open the file, tell the client its size, and begin to send it. Raises UserError.

        A file that is followed may not exist yet.
        """
        request = self._request
        try:
            size = await self._file.size()
        except FileNotFoundError as error:
            if request.ended is None:
                raise missing(request, request.exit) from error
            size = 0
        except OSError as error:
            raise unreadable(request, error) from error
        at = max(0, size + request.offset) if request.offset < 0 else min(request.offset, size)
        self._file.at = at
        await self._sink.opened(LogOpened(offset=at, size_bytes=size, path=request.path, node=request.node))
        self._task = asyncio.create_task(self._send())

    async def write(self, data: bytes) -> None:
        """Do nothing, because the job has no input."""

    async def resize(self, rows: int, cols: int) -> None:
        """Do nothing, because the job has no terminal."""

    async def close(self) -> None:
        if self._task is not None:
            await cancel(self._task)
        await self._file.close()

    async def _send(self) -> None:
        try:
            end = await self._send_all()
        except OSError as error:
            end = StreamEnd(unreadable(self._request, error).message, exit=self._request.exit)
        except UserError as error:
            end = StreamEnd(error.message, exit=self._request.exit)
        await self._file.close()
        if self._sink.is_open:
            self._sink.ended(end)

    async def _send_all(self) -> StreamEnd:
        if self._request.ended is None:
            await self._send_rest()
            return StreamEnd(exit=self._request.exit)
        end = asyncio.ensure_future(self._request.ended())
        try:
            await self._follow(end)
            job = await end
            if not self._file.was_found and job.is_finished:
                error = missing(self._request, job.exit)
                return StreamEnd(error.message, exit=job.exit)
            return StreamEnd(exit=job.exit)
        finally:
            end.cancel()

    async def _follow(self, end: asyncio.Future[Job]) -> None:
        pause_s, quiet = FIRST_POLL_S, 0
        while quiet < QUIET_LOOKS and self._sink.is_open:
            if await self._send_rest():
                pause_s, quiet = FIRST_POLL_S, 0
            elif end.done():
                pause_s, quiet = FIRST_POLL_S, quiet + 1
                await asyncio.sleep(pause_s)
            else:
                await asyncio.wait([end], timeout=pause_s)
                pause_s = min(LAST_POLL_S, POLL_GROWTH * pause_s)

    async def _send_rest(self) -> bool:
        """Send what the file has now, and return whether it had anything new."""
        moved = False
        while self._sink.is_open and (data := await self._file.piece()):
            moved = True
            self._file.at += len(data)
            await self._sink.data(data)
        return moved


async def settled(path: str) -> None:
    """Return when the file has stopped growing."""
    file, before, quiet = LogFile(path), -1, 0
    try:
        while quiet < QUIET_LOOKS:
            size = await file.size()
            quiet = quiet + 1 if size == before else 0
            before = size
            await asyncio.sleep(FIRST_POLL_S)
    except OSError:
        return
    finally:
        await file.close()


def missing(request: LogRequest, status: ExitStatus | None) -> UserError:
    """Return the error for a file that does not exist on this machine. `status` is the end of the job."""
    if status is not None and status.message == NOT_BEGUN:
        return UserError(
            f"job {request.label} has no log: {NOT_BEGUN} ({request.path})",
            "create the folder and check its permissions, or give another file with --output",
        )
    return UserError(
        f"cannot read the log of job {request.label}: {request.path} does not exist on this machine",
        f"it was removed or renamed, or only {request.node or 'the node of the job'} has this folder",
    )


def unreadable(request: LogRequest, error: OSError) -> UserError:
    """Return the error for a file that this user cannot read."""
    return UserError(
        f"cannot read the log of job {request.label}: {request.path}: {error.strerror}",
        "check the file and the permissions of its folder",
    )
