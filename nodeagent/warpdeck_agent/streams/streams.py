"""Streams to the controller with flow control.

A sender pauses when its window is used up, until the receiver acknowledges bytes.
"""

from __future__ import annotations

import asyncio
from typing import Any, Awaitable, Callable

from warpdeck_agent.wire.frames import DATA_CHUNK_BYTES, STREAM_WINDOW_BYTES, data_frame
from warpdeck_agent.wire.messages import StreamEnd


class OutStream:
    """An outgoing stream to the controller."""

    def __init__(
        self,
        stream: int,
        write: Callable[[bytes], None],
        tell: Callable[[Any], None],
        *,
        drain: Callable[[], Awaitable[None]],
        window_bytes: int = STREAM_WINDOW_BYTES,
    ) -> None:
        self.stream = stream
        self._write = write
        self._tell = tell
        self._drain = drain
        self._window = self._window_bytes = window_bytes
        self._window_open = asyncio.Event()
        self._window_open.set()
        self._ended = False

    async def send(self, data: bytes) -> None:
        """Send all of `data`, waiting for space in the window."""
        view = memoryview(data)
        while view:
            while self._window <= 0:
                self._window_open.clear()
                await self._window_open.wait()
            part = bytes(view[: min(DATA_CHUNK_BYTES, self._window)])
            self._window -= len(part)
            self._write(data_frame(self.stream, part))
            view = view[len(part) :]
            await self._drain()

    def finish(self) -> None:
        """Report that no more bytes follow, while the other direction continues."""
        self._write(data_frame(self.stream, b""))

    async def send_piece(self, piece: bytes) -> None:
        """Send the piece in one frame. It may exceed the window by its size."""
        while self._window <= 0:
            self._window_open.clear()
            await self._window_open.wait()
        self._window -= len(piece)
        self._write(data_frame(self.stream, piece))
        await self._drain()

    @property
    def unacknowledged(self) -> int:
        """Number of bytes that were sent and not acknowledged yet."""
        return self._window_bytes - self._window

    def acknowledge(self, size: int) -> None:
        """Add `size` acknowledged bytes to the window."""
        self._window += size
        self._window_open.set()

    def end(self, error: str = "", code: str = "") -> None:
        """End the stream. Only the first call has an effect."""
        if not self._ended:
            self._ended = True
            self._tell(StreamEnd(stream=self.stream, error=error, code=code))
