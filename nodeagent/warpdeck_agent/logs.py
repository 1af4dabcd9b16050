"""Following a job's output file: from an offset to its end, and on as it grows until the job has ended."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from typing import Callable, Optional, Tuple

from .streams import OutStream
from .wire.messages import StreamOpened

POLL_S = 0.05
"""How often a followed file is looked at; a stat costs microseconds."""
IDLE_POLL_S = 0.25
"""The same once nothing was written for a while."""
READ_BYTES = 256 * 1024


class LogError(Exception):
    """An output file that may not or cannot be read, in one sentence."""


def open_output(path: str, *, uid: int) -> Optional[int]:
    """A descriptor for reading, None if there is no such file. A root agent reads only files of the job's user."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LogError(f"cannot read {path}: {os.strerror(error.errno or errno.EIO)}") from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or (os.geteuid() == 0 and uid > 0 and status.st_uid != uid):
        os.close(descriptor)
        raise LogError(f"{path} is not an output file of this job's user")
    return descriptor


async def follow(
    out: OutStream,
    tell: Callable[[StreamOpened], None],
    path: str,
    *,
    uid: int,
    offset: int,
    ended: asyncio.Event,
) -> None:
    """Streams the file until `ended`, which says that nothing more may come; the last look is taken after it."""
    descriptor, size = _open(path, uid)
    at = max(0, size + offset) if offset < 0 else min(offset, size)
    tell(StreamOpened(stream=out.stream, offset=at, size_bytes=size, path=path))
    quiet = 0
    try:
        while True:
            last = ended.is_set()
            if descriptor is None:
                descriptor, _ = _open(path, uid)
            moved, at = await _send_new(out, descriptor, at)
            if last and not moved:
                return
            quiet = 0 if moved else quiet + 1
            if not moved:
                await _pause(ended, POLL_S if quiet < 40 else IDLE_POLL_S)
    finally:
        if descriptor is not None:
            os.close(descriptor)


async def _pause(ended: asyncio.Event, limit_s: float) -> None:
    """Until the end, or for so long: whoever waits for a short job is told without delay."""
    try:
        await asyncio.wait_for(ended.wait(), limit_s)
    except asyncio.TimeoutError:
        return


def _open(path: str, uid: int) -> Tuple[Optional[int], int]:
    descriptor = open_output(path, uid=uid)
    return descriptor, 0 if descriptor is None else os.fstat(descriptor).st_size


async def _send_new(out: OutStream, descriptor: Optional[int], at: int) -> Tuple[bool, int]:
    """Sends what lies behind `at`; a file that shrank is read from its start."""
    if descriptor is None:
        return False, at
    if os.fstat(descriptor).st_size < at:
        at = 0
    chunk = os.pread(descriptor, READ_BYTES, at)
    if chunk:
        await out.send(chunk)
    return bool(chunk), at + len(chunk)
