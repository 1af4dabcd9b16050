"""The streams of one connection to an agent, with bounded buffers and flow control in both directions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from warpdeck.ports.ports import LINK_BROKE, StreamSink
from warpdeck_agent.wire import WireError
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire.frames import DATA_CHUNK_BYTES, STREAM_WINDOW_BYTES
from warpdeck_agent.wire.steps import FIRST_CALL

from .frame_writer import FrameWriter

ITEM_OVERHEAD_BYTES = 100
"""Bytes of overhead for each buffered item."""
MAX_BUFFERED_BYTES = 8 * STREAM_WINDOW_BYTES
"""Maximum buffered bytes of one stream: a window of short lines, each with its overhead."""
MAX_CALLS = 1024
"""Maximum number of calls of one node: twice as many as its agent allows processes to open."""
MAX_TYPED_BYTES = 8 * 1024 * 1024
"""Bytes that the agent may leave unread before terminal input waits.

The input of a user can therefore not break the link.
"""
BUFFER_CHECK_S = 0.05
"""Seconds between checks whether there is space in the buffer again."""


class Credit:
    """Flow-control window: the bytes of an upload, tunnel or call that may still be sent."""

    def __init__(self, window_bytes: int) -> None:
        self._left = window_bytes
        self._more = asyncio.Event()
        self._broken = False

    async def spend(self, size: int) -> None:
        """Wait until this many bytes may be sent. Raises ConnectionError if the stream has ended."""
        while self._left < size:
            if self._broken:
                raise ConnectionError("connection lost")
            self._more.clear()
            await self._more.wait()
        self._left -= size

    def earn(self, size: int) -> None:
        """Extend the window, because the agent has acknowledged this many bytes."""
        self._left += size
        self._more.set()

    def break_off(self) -> None:
        """End the stream for its waiting sender."""
        self._broken = True
        self._more.set()


class ChannelStreams:
    """The open streams of one channel, by number."""

    def __init__(self, frames: FrameWriter) -> None:
        self._frames = frames
        self._incoming: dict[int, asyncio.Queue[Any]] = {}
        self._buffered_bytes: dict[int, int] = {}
        """Number of bytes that were received on a stream and not passed on yet."""
        self._late_bytes = 0
        """Number of bytes that may still arrive on streams that were ended here.

        The agent does not know yet that these streams have ended.
        """
        self._on_taken: dict[int, Callable[[int], None]] = {}
        self._credits: dict[int, Credit] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.has_ended = False
        """Whether the connection has ended."""

    def accept(
        self, stream: int, sink: StreamSink, *, on_taken: Callable[[int], None] | None = None
    ) -> ChannelStream:
        """Deliver the data of an open stream to the sink.

        `on_taken` is called with the size of each piece of input that the tasks of a step have taken.
        """
        if on_taken is not None:
            self._on_taken[stream] = on_taken
        queue: asyncio.Queue[Any] = asyncio.Queue()  # Bounded by `put`.
        self._incoming[stream] = queue
        task = asyncio.get_running_loop().create_task(self._feed(stream, queue, sink))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return ChannelStream(self, self._frames, stream)

    def accept_call(self, stream: int, sink: StreamSink) -> ChannelStream:
        """Accept a stream that the agent opened. Raises WireError if the agent may not open it."""
        calls = sum(number >= FIRST_CALL for number in self._incoming)
        if stream < FIRST_CALL or stream in self._incoming or calls >= MAX_CALLS:
            raise WireError(f"a call on stream {stream}, beside {calls} others")
        return self.accept(stream, sink)

    def put(self, stream: int, item: Any, size: int) -> None:
        """Queue a received item of a stream.

        Raises WireError if the agent exceeds the stream's window, or the stream was never opened.
        """
        if stream not in self._incoming:
            self._late_bytes -= size + ITEM_OVERHEAD_BYTES
            if self._late_bytes < 0:
                raise WireError(f"bytes on stream {stream}, which nobody has opened")
            return
        buffered = self._buffered_bytes.get(stream, 0) + size + ITEM_OVERHEAD_BYTES
        self._buffered_bytes[stream] = buffered
        if buffered > MAX_BUFFERED_BYTES:
            raise WireError(f"more bytes on stream {stream} than its window")
        self._incoming[stream].put_nowait(item)

    def acknowledge(self, stream: int, size: int) -> None:
        """Handle the agent's acknowledgment of sent data."""
        if stream in self._credits:
            self._credits[stream].earn(size)
        elif stream in self._on_taken:
            self._on_taken[stream](size)

    def add_credit(self, stream: int) -> None:
        """Limit the data that is sent on a stream to its window, until the stream ends."""
        self._credits[stream] = Credit(STREAM_WINDOW_BYTES)

    @contextlib.contextmanager
    def credit(self, stream: int, window_bytes: int) -> Iterator[Credit]:
        """Context with the flow-control window for our data on a stream."""
        credit = self._credits[stream] = Credit(window_bytes)
        try:
            yield credit
        finally:
            self._credits.pop(stream, None)

    async def write(self, stream: int, data: bytes) -> None:
        """Send bytes to the node. Raises ConnectionError if a tunnel has ended.

        For a tunnel it waits for the tunnel's window, for a terminal until the link's buffer has space.
        """
        if not data:
            self._frames.send_data(stream, b"")
        for start in range(0, len(data), DATA_CHUNK_BYTES):
            chunk = data[start : start + DATA_CHUNK_BYTES]
            if stream in self._credits:
                await self._credits[stream].spend(len(chunk))
            else:
                await self._wait_for_space(stream)
            self._frames.send_data(stream, chunk)

    async def _wait_for_space(self, stream: int) -> None:
        """Wait until the buffer has space for terminal input, or until the stream has ended."""
        self._frames.flush()  # Otherwise data added since the last flush would not be counted.
        while stream in self._incoming and self._frames.unsent_bytes() > MAX_TYPED_BYTES:
            await asyncio.sleep(BUFFER_CHECK_S)

    def close(self, stream: int) -> None:
        """End a stream from our side."""
        if stream in self._incoming:
            self._frames.send(wire.StreamEnd(stream=stream))
            self._incoming[stream].put_nowait(wire.StreamEnd(stream=stream))

    def end_all(self) -> None:
        """End all streams, because the connection has ended."""
        self.has_ended = True
        for stream, queue in self._incoming.items():
            queue.put_nowait(wire.StreamEnd(stream=stream, error=LINK_BROKE))
        for credit in self._credits.values():
            credit.break_off()

    async def _feed(self, stream: int, queue: asyncio.Queue[Any], sink: StreamSink) -> None:
        """Pass the items of a stream on in order, and acknowledge the bytes that the sink has taken."""
        try:
            while True:
                item = await queue.get()
                if isinstance(item, bytes):
                    await sink.data(item)
                    left = self._buffered_bytes.get(stream, 0) - len(item) - ITEM_OVERHEAD_BYTES
                    self._buffered_bytes[stream] = left
                    self._frames.send(wire.StreamAck(stream=stream, size=len(item)))
                elif isinstance(item, wire.StreamOpened):
                    await sink.opened(item.offset, item.size_bytes, item.path)
                else:
                    await sink.ended(item.error, item.code)
                    return
        finally:
            self._incoming.pop(stream, None)
            self._buffered_bytes.pop(stream, None)
            self._late_bytes += MAX_BUFFERED_BYTES
            self._on_taken.pop(stream, None)
            credit = self._credits.pop(stream, None)
            if credit is not None:
                credit.break_off()


class ChannelStream:
    """A NodeStream on a channel."""

    def __init__(self, streams: ChannelStreams, frames: FrameWriter, stream: int) -> None:
        self._streams = streams
        self._frames = frames
        self._stream = stream

    async def write(self, data: bytes) -> None:
        await self._streams.write(self._stream, data)

    def write_piece(self, piece: bytes) -> None:
        self._frames.send_data(self._stream, piece)

    async def resize(self, rows: int, cols: int) -> None:
        self._frames.send(wire.ResizePty(stream=self._stream, rows=rows, cols=cols))

    async def close(self) -> None:
        self._streams.close(self._stream)
