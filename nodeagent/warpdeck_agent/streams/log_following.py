"""Follows a job's output file: from an offset to its end, and on while it grows, until the job has ended."""

from __future__ import annotations

import asyncio
from typing import Callable, Optional, Protocol

from warpdeck_agent.linux.file_reading import FilePiece, LogError
from warpdeck_agent.wire.messages import StreamOpened

from .streams import OutStream

POLL_S = 0.05
"""Interval in seconds between checks of a followed file; a stat costs microseconds."""
IDLE_POLL_S = 0.25
"""The same interval after nothing was written for a while."""


class ReadableOutput(Protocol):
    """A readable output file: an OwnFile, or a UserFileReader."""

    async def read_at(self, at: Optional[int]) -> Optional[FilePiece]: ...
    def close(self) -> None: ...


async def follow(
    out: OutStream,
    tell: Callable[[StreamOpened], None],
    file: ReadableOutput,
    *,
    path: str,
    offset: int,
    ended: asyncio.Event,
    over: asyncio.Event,
) -> None:
    """Stream the file until `ended` is set, and then read it a last time.

    Nothing more is written after `ended`. Closes the file. Raises LogError if the file does not exist and the
    job is `over`.
    """
    try:
        found = await file.read_at(None)
        size = 0 if found is None else found.size
        at = max(0, size + offset) if offset < 0 else min(offset, size)
        tell(StreamOpened(stream=out.stream, offset=at, size_bytes=size, path=path))
        quiet = 0
        while True:
            last = ended.is_set()
            found = await file.read_at(at)
            moved = found is not None and bool(found.data)
            if found is not None:
                at = (at if at <= found.size else 0) + len(found.data)
            if found is not None and found.data:
                await out.send(found.data)
            if last and not moved:
                if found is None and over.is_set():
                    raise LogError(f"{path} does not exist: it was removed or moved, or could not be written")
                return
            quiet = 0 if moved else quiet + 1
            if not moved:
                await _pause(ended, POLL_S if quiet < 40 else IDLE_POLL_S)
    finally:
        file.close()


async def _pause(ended: asyncio.Event, limit_s: float) -> None:
    """Wait until the end, or for the time limit, so that the end of a short job is noticed without delay."""
    try:
        await asyncio.wait_for(ended.wait(), limit_s)
    except asyncio.TimeoutError:
        return
