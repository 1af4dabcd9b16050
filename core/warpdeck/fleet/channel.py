"""One connection to an agent over any transport: messages, streams with flow control, uploads and probes."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol

import asyncssh

from warpdeck.base.errors import RemoteError
from warpdeck.ports.ports import LINK_BROKE, SAMPLE_S, NodeAsk, PackedTree, StreamSink
from warpdeck_agent.wire import JSON, WireError, data_frame, json_frame, read_frame, split_data
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire import steps as stepwire
from warpdeck_agent.wire.frames import DATA_CHUNK_BYTES, STREAM_WINDOW_BYTES
from warpdeck_agent.wire.messages import encode
from warpdeck_agent.wire.outbox import Outbox
from warpdeck_agent.wire.steps import FIRST_CALL

from .inbound import decode
from .transport import Outgoing

HELLO_S = 20.0
"""Seconds that an agent may take to send Welcome. It may have to adopt thousands of jobs."""
PROBE_S = 10.0
CHECK_S = 30.0
"""Seconds that all health checks of a node may take, in addition to the site's own program."""
CURVES_S = 20.0
MOMENT_S = 2.0
"""Seconds to wait for one node's past state.

A user waits interactively, and all other nodes' answers wait, too.
"""
OPEN_S = 30.0
MAX_UPLOADS = 8
"""Maximum number of concurrent uploads. Each holds a window of its tree in memory."""
MAX_CALLS = 1024
"""Maximum number of calls of one node: twice as many as its agent allows processes to open."""
ITEM_BYTES = 100
"""Bytes of overhead for each kept item."""
MAX_UNTAKEN_BYTES = 8 * STREAM_WINDOW_BYTES
"""Maximum buffered bytes of one stream: a window of short lines, each with its overhead."""
TURN_BYTES = 64 * 1024
"""Bytes processed without yielding to the event loop.

This takes some five milliseconds if they are short messages.
"""
CALL_BYTES = 16 * 1024
"""Number of bytes for which a call counts toward TURN_BYTES, because starting one takes as long."""
MAX_UNSENT_BYTES = 64 * 1024 * 1024
"""An agent that leaves this many bytes unread is disconnected, as it disconnects us.

After it reconnects, it is sent the current state again.
"""
MAX_TYPED_BYTES = 8 * 1024 * 1024
"""Bytes that the agent may leave unread before terminal input waits.

So no user's typing can break the link.
"""
ROOM_S = 0.05
"""Seconds between checks whether there is space in the buffer again."""
AHEAD_BYTES = 256 * 1024
"""Bytes of messages that are read before the controller has processed the earlier ones.

This is a thousand reports, or one larger message.
"""

_Question = wire.AskHealth | wire.AskCurves | wire.AskMoment | stepwire.ReservePort
_Answer = wire.Health | wire.Curves | wire.Moment | stepwire.PortReserved


class Reader(Protocol):
    """Protocol of a reader that read_frame accepts."""

    async def readexactly(self, n: int) -> bytes: ...


class Writer(Protocol):
    """Protocol of the writing half of a connection."""

    def write(self, data: bytes) -> None: ...
    async def drain(self) -> None: ...
    def close(self) -> None: ...


class Channel:
    """Frames to and from one agent.

    `on_message` gets the messages for the controller, with their size. `heard` returns when the controller
    has processed all of them.
    """

    def __init__(
        self,
        name: str,
        reader: Reader,
        writer: Writer,
        outgoing: Outgoing,
        on_message: Callable[[Any, int], None],
        heard: Callable[[], Awaitable[None]],
    ) -> None:
        self._name = name
        self._reader: Any = reader
        self._writer = writer
        self._outgoing = outgoing
        self._cut = ""
        """Reason why we have ended the link."""
        self._out = Outbox(self._write)
        self._on_message = on_message
        self._heard = heard
        self._ahead_bytes = 0
        self._uploads = asyncio.Semaphore(MAX_UPLOADS)
        self._has_ended = False
        self._ids = itertools.count(1)
        self._takers: dict[int, Callable[[int], None]] = {}
        self._incoming: dict[int, asyncio.Queue[Any]] = {}
        self._untaken: dict[int, int] = {}
        """Number of bytes that were received on a stream and not passed on yet."""
        self._late_bytes = 0
        """Number of bytes that may still arrive on streams that were ended here.

        The agent does not know yet that these streams have ended.
        """
        self._credit: dict[int, Credit] = {}
        self._probes: dict[int, asyncio.Future[bool | None]] = {}
        self._asked: dict[int, asyncio.Future[_Answer]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def greet(self, controller_id: str) -> wire.Welcome:
        """Exchange Hello and Welcome. Raises RemoteError."""
        self.send(wire.Hello(controller_id=controller_id, sample_interval_s=SAMPLE_S))
        try:
            async with asyncio.timeout(HELLO_S):
                _, payload = await read_frame(self._reader)
            welcome = decode(payload)
        except (TimeoutError, asyncio.IncompleteReadError, OSError, asyncssh.Error, WireError) as error:
            raise RemoteError(self._name, f"the agent does not answer: {error or 'time-out'}") from error
        if not isinstance(welcome, wire.Welcome):
            raise RemoteError(self._name, getattr(welcome, "error", "") or "the agent sent invalid data")
        return welcome

    async def pump(self) -> None:
        """Process incoming frames until the connection ends. Raises RemoteError with the cause."""
        taken_bytes = 0
        try:
            while True:
                kind, payload = await read_frame(self._reader)
                taken_bytes += len(payload) + ITEM_BYTES
                if kind == JSON:
                    taken_bytes += await self._take(decode(payload), len(payload))
                else:
                    stream, data = split_data(payload)
                    self._put(stream, data, len(data))
                # A reader with buffered data returns without suspending, so yield explicitly.
                if taken_bytes > TURN_BYTES:
                    taken_bytes = 0
                    await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, OSError, asyncssh.Error, WireError) as error:
            raise RemoteError(self._name, self._cut or f"connection lost: {error}") from error
        finally:
            self._end_all()

    def send(self, message: Any) -> None:
        """Queue a message."""
        self._out.add(json_frame(encode(message)))

    def _write(self, data: bytes) -> None:
        if self._cut:
            return
        if self._outgoing.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self._cut = f"its agent has not read {MAX_UNSENT_BYTES >> 20} MiB of messages; it may be stopped"
            self._outgoing.abort()
            return
        with contextlib.suppress(OSError):  # The reader of the link reports that it broke.
            self._writer.write(data)

    def close(self) -> None:
        self._out.flush()
        self._writer.close()

    async def probe(self, path: str, name: str, *, uid: int) -> bool | None:
        """Return whether the user sees that entry in the folder on the node. Raises TimeoutError.

        None means that the folder's file server does not answer there.
        """
        number = next(self._ids)
        answer: asyncio.Future[bool | None] = asyncio.get_running_loop().create_future()
        self._probes[number] = answer
        self.send(wire.ProbePath(probe=number, path=path, name=name, uid=uid))
        try:
            async with asyncio.timeout(PROBE_S):
                return await answer
        finally:
            del self._probes[number]

    async def reserve_port(self, job_id: int, restarts: int) -> int:
        """Return a free port of the node, which is kept for the launch. Raises RemoteError."""
        said = await self._ask(stepwire.ReservePort(ask=0, job_id=job_id, restarts=restarts), PROBE_S)
        assert isinstance(said, stepwire.PortReserved)
        return said.port

    async def check_health(self, asked: wire.AskHealth) -> wire.Health:
        """Return the node's health after all checks have run again. Raises RemoteError."""
        said = await self._ask(asked, CHECK_S + asked.program_timeout_s)
        assert isinstance(said, wire.Health)
        return said

    async def curves(self, asked: wire.AskCurves) -> wire.Curves:
        """Return the node's measurements over time. Raises RemoteError."""
        said = await self._ask(asked, CURVES_S)
        assert isinstance(said, wire.Curves)
        return said

    async def moment(self, at_unix: float) -> wire.Moment:
        """Return the state of the node and its GPUs at a past time. Raises RemoteError."""
        said = await self._ask(wire.AskMoment(ask=0, at_unix=at_unix), MOMENT_S)
        assert isinstance(said, wire.Moment)
        return said

    async def _ask(self, question: _Question, timeout_s: float) -> _Answer:
        number = next(self._ids)
        answer: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        self.send(dataclasses.replace(question, ask=number))
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError as error:
            raise RemoteError(self._name, f"no answer for {timeout_s:.0f} s") from error
        finally:
            del self._asked[number]

    @contextlib.contextmanager
    def credit(self, stream: int, window_bytes: int = STREAM_WINDOW_BYTES) -> Iterator[Credit]:
        """Context with the flow-control window for our data on a stream."""
        credit = self._credit[stream] = Credit(window_bytes)
        try:
            yield credit
        finally:
            self._credit.pop(stream, None)

    async def upload(self, tree: PackedTree) -> None:
        """Send a packed tree within the window. At most MAX_UPLOADS run at the same time. Raises OSError."""
        async with self._uploads:
            if self._has_ended:
                raise ConnectionError(LINK_BROKE)
            await self._upload(tree)

    async def _upload(self, tree: PackedTree) -> None:
        stream = next(self._ids)
        self.send(wire.PutTree(tree=tree.tree, sha256=tree.sha256, size_bytes=tree.size_bytes, stream=stream))
        loop = asyncio.get_running_loop()
        with self.credit(stream) as credit, open(tree.path, "rb") as file:
            while chunk := await loop.run_in_executor(None, file.read, DATA_CHUNK_BYTES):
                await credit.spend(len(chunk))
                self._out.add(data_frame(stream, chunk))
        self.send(wire.StreamEnd(stream=stream))

    def open_stream(self, message: NodeAsk, sink: StreamSink) -> ChannelStream:
        """Open a log, terminal or tunnel.

        `sink` is called when the stream has opened, for its data, and when it ends.
        """
        stream = next(self._ids)
        if isinstance(message, wire.OpenTunnel):
            self._credit[stream] = Credit(STREAM_WINDOW_BYTES)
        self.send(dataclasses.replace(message, stream=stream))
        return self.accept_stream(stream, sink)

    def open_step(
        self, message: stepwire.OpenStep, sink: StreamSink, *, on_taken: Callable[[int], None]
    ) -> ChannelStream:
        """Open the streams of a step's tasks on the node.

        `on_taken` is called with the size of each input that they took.
        """
        stream = next(self._ids)
        self._takers[stream] = on_taken
        self.send(dataclasses.replace(message, stream=stream))
        return self.accept_stream(stream, sink)

    def accept_call(self, stream: int, sink: StreamSink) -> ChannelStream:
        """Accept a stream that the agent opened. Raises WireError if the agent may not open it."""
        calls = sum(number >= FIRST_CALL for number in self._incoming)
        if stream < FIRST_CALL or stream in self._incoming or calls >= MAX_CALLS:
            raise WireError(f"a call on stream {stream}, beside {calls} others")
        return self.accept_stream(stream, sink)

    def accept_stream(self, stream: int, sink: StreamSink) -> ChannelStream:
        """Deliver the data of an open stream to the sink."""
        queue: asyncio.Queue[Any] = asyncio.Queue()  # Bounded by _put.
        self._incoming[stream] = queue
        task = asyncio.get_running_loop().create_task(self._feed(stream, queue, sink))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return ChannelStream(self, stream)

    def write_piece(self, stream: int, piece: bytes) -> None:
        """Send a piece of a stream in one frame."""
        self._out.add(data_frame(stream, piece))

    async def write_stream(self, stream: int, data: bytes) -> None:
        """Send bytes to the node. Raises ConnectionError if a tunnel has ended.

        For a tunnel it waits for the tunnel's window, for a terminal until the link's buffer has space.
        """
        if not data:
            self._out.add(data_frame(stream, b""))
        for start in range(0, len(data), DATA_CHUNK_BYTES):
            chunk = data[start : start + DATA_CHUNK_BYTES]
            if stream in self._credit:
                await self._credit[stream].spend(len(chunk))
            else:
                await self._room(stream)
            self._out.add(data_frame(stream, chunk))

    async def _room(self, stream: int) -> None:
        """Wait until the buffer has space for terminal input, or until the stream has ended."""
        self._out.flush()  # Otherwise data added since the last flush would not be counted.
        while stream in self._incoming and self._outgoing.get_write_buffer_size() > MAX_TYPED_BYTES:
            await asyncio.sleep(ROOM_S)

    def close_stream(self, stream: int) -> None:
        """End a stream from our side."""
        if stream in self._incoming:
            self.send(wire.StreamEnd(stream=stream))
            self._incoming[stream].put_nowait(wire.StreamEnd(stream=stream))

    def _put(self, stream: int, item: Any, size: int) -> None:
        """Queue an item of a stream.

        Raises WireError if the agent exceeds the stream's window, or the stream was never opened.
        """
        if stream not in self._incoming:
            self._late_bytes -= size + ITEM_BYTES
            if self._late_bytes < 0:
                raise WireError(f"bytes on stream {stream}, which nobody has opened")
            return
        untaken = self._untaken[stream] = self._untaken.get(stream, 0) + size + ITEM_BYTES
        if untaken > MAX_UNTAKEN_BYTES:
            raise WireError(f"more bytes on stream {stream} than its window")
        self._incoming[stream].put_nowait(item)

    async def _feed(self, stream: int, queue: asyncio.Queue[Any], sink: StreamSink) -> None:
        """Pass the items of a stream on in order, and acknowledge the bytes that the sink has taken."""
        try:
            while True:
                item = await queue.get()
                if isinstance(item, bytes):
                    await sink.data(item)
                    self._untaken[stream] = self._untaken.get(stream, 0) - len(item) - ITEM_BYTES
                    self.send(wire.StreamAck(stream=stream, size=len(item)))
                elif isinstance(item, wire.StreamOpened):
                    await sink.opened(item.offset, item.size_bytes, item.path)
                else:
                    await sink.ended(item.error, item.code)
                    return
        finally:
            self._incoming.pop(stream, None)
            self._untaken.pop(stream, None)
            self._late_bytes += MAX_UNTAKEN_BYTES
            self._takers.pop(stream, None)
            credit = self._credit.pop(stream, None)
            if credit is not None:
                credit.break_off()

    async def _take(self, message: Any, size: int) -> int:
        """Process a message. Returns extra bytes to count for it toward TURN_BYTES."""
        match message:
            case wire.StreamOpened(stream=stream) | wire.StreamEnd(stream=stream):
                self._put(stream, message, 0)
            case wire.StreamAck(stream=stream, size=size):
                if stream in self._credit:
                    self._credit[stream].earn(size)
                elif stream in self._takers:
                    self._takers[stream](size)
            case wire.PathProbed(probe=number, found=found, hangs=hangs):
                if number in self._probes and not self._probes[number].done():
                    self._probes[number].set_result(None if hangs else found)
            case (
                wire.Health(ask=number)
                | wire.Curves(ask=number)
                | wire.Moment(ask=number)
                | stepwire.PortReserved(ask=number)
            ) if number:
                if number in self._asked and not self._asked[number].done():
                    self._asked[number].set_result(message)
            case stepwire.CallOpened():
                self._on_message(message, size)
                return CALL_BYTES
            case _:
                self._on_message(message, size)
                self._ahead_bytes += size + ITEM_BYTES
                if self._ahead_bytes > AHEAD_BYTES:
                    self._ahead_bytes = 0
                    await self._heard()
        return 0

    def _end_all(self) -> None:
        self._has_ended = True
        for stream, queue in self._incoming.items():
            queue.put_nowait(wire.StreamEnd(stream=stream, error=LINK_BROKE))
        for credit in self._credit.values():
            credit.break_off()
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(RemoteError(self._name, "connection lost"))


class ChannelStream:
    """A NodeStream on a channel."""

    def __init__(self, channel: Channel, stream: int) -> None:
        self._channel = channel
        self._stream = stream

    async def write(self, data: bytes) -> None:
        await self._channel.write_stream(self._stream, data)

    def write_piece(self, piece: bytes) -> None:
        self._channel.write_piece(self._stream, piece)

    async def resize(self, rows: int, cols: int) -> None:
        self._channel.send(wire.ResizePty(stream=self._stream, rows=rows, cols=cols))

    async def close(self) -> None:
        self._channel.close_stream(self._stream)


class Credit:
    """Flow-control window: the bytes of an upload, tunnel or call that may still be sent."""

    def __init__(self, window_bytes: int) -> None:
        self._left = window_bytes
        self._more = asyncio.Event()
        self._broken = False

    async def spend(self, size: int) -> None:
        while self._left < size:
            if self._broken:
                raise ConnectionError("connection lost")
            self._more.clear()
            await self._more.wait()
        self._left -= size

    def earn(self, size: int) -> None:
        self._left += size
        self._more.set()

    def break_off(self) -> None:
        self._broken = True
        self._more.set()
