"""One connection to an agent, whatever carries it: messages, streams with flow control, uploads, probes."""

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
"""How long an agent may take to say Welcome: it may be adopting thousands of jobs."""
PROBE_S = 10.0
CHECK_S = 30.0
"""How long all checks of a node may take, beside the site's own program."""
CURVES_S = 20.0
MOMENT_S = 2.0
"""Of one node, while somebody who moves through time looks on: the others wait for it."""
OPEN_S = 30.0
MAX_UPLOADS = 8
"""At once: each holds a window of its tree in memory."""
MAX_CALLS = 1024
"""Of one node: twice as many as its agent lets processes begin."""
ITEM_BYTES = 100
"""What keeping one takes beside its bytes."""
MAX_UNTAKEN_BYTES = 8 * STREAM_WINDOW_BYTES
"""On one stream: a window of short lines, each with what keeping it takes."""
TURN_BYTES = 64 * 1024
"""Taken in one turn of the loop, though more has come: some five milliseconds where all of it is short messages."""
CALL_BYTES = 16 * 1024
"""As so many counts a call there, which takes as long to begin."""
MAX_UNSENT_BYTES = 64 * 1024 * 1024
"""An agent that has left so much unread is cut, as it cuts us; it is told anew what holds then."""
MAX_TYPED_BYTES = 8 * 1024 * 1024
"""What is typed into a terminal waits while the agent has left so much unread, so that no user's keys have the link cut."""
ROOM_S = 0.05
"""How often it is looked whether there is room."""
AHEAD_BYTES = 256 * 1024
"""Messages that are read ahead of what the controller has dealt with: a thousand reports, or one that is larger."""

_Question = wire.AskHealth | wire.AskCurves | wire.AskMoment | stepwire.ReservePort
_Answer = wire.Health | wire.Curves | wire.Moment | stepwire.PortReserved


class Reader(Protocol):
    """What read_frame needs."""

    async def readexactly(self, n: int) -> bytes: ...


class Writer(Protocol):
    """The writing half."""

    def write(self, data: bytes) -> None: ...
    async def drain(self) -> None: ...
    def close(self) -> None: ...


class Channel:
    """Frames in and out of one agent. `on_message` gets what concerns the controller, with its size; `heard` returns when all
    of it was dealt with."""

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
        """Why we have ended the link."""
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
        """Bytes that have come on a stream and were not passed on yet."""
        self._late_bytes = 0
        """What may still come on streams that have ended here, before the agent knows."""
        self._credit: dict[int, Credit] = {}
        self._probes: dict[int, asyncio.Future[bool | None]] = {}
        self._asked: dict[int, asyncio.Future[_Answer]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def greet(self, controller_id: str) -> wire.Welcome:
        """Hello and Welcome. Raises RemoteError."""
        self.send(wire.Hello(controller_id=controller_id, sample_interval_s=SAMPLE_S))
        try:
            async with asyncio.timeout(HELLO_S):
                _, payload = await read_frame(self._reader)
            welcome = decode(payload)
        except (TimeoutError, asyncio.IncompleteReadError, OSError, asyncssh.Error, WireError) as error:
            raise RemoteError(self._name, f"the agent does not answer: {error or 'time-out'}") from error
        if not isinstance(welcome, wire.Welcome):
            raise RemoteError(self._name, getattr(welcome, "error", "") or "the agent said something strange")
        return welcome

    async def pump(self) -> None:
        """Takes what comes until the connection ends. Raises RemoteError with the cause."""
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
                if taken_bytes > TURN_BYTES:  # a reader that has more gives it without a pause
                    taken_bytes = 0
                    await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, OSError, asyncssh.Error, WireError) as error:
            raise RemoteError(self._name, self._cut or f"the link broke: {error}") from error
        finally:
            self._end_all()

    def send(self, message: Any) -> None:
        """Queues a message."""
        self._out.add(json_frame(encode(message)))

    def _write(self, data: bytes) -> None:
        if self._cut:
            return
        if self._outgoing.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self._cut = f"its agent has left {MAX_UNSENT_BYTES >> 20} MiB of messages unread: is it stopped?"
            self._outgoing.abort()
            return
        with contextlib.suppress(OSError):  # whoever reads the link learns that it broke
            self._writer.write(data)

    def close(self) -> None:
        self._out.flush()
        self._writer.close()

    async def probe(self, path: str, name: str, *, uid: int) -> bool | None:
        """Whether the user sees that entry in the folder on the node; None: its server does not answer there. Raises TimeoutError."""
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
        """A free port of the node, kept for the launch. Raises RemoteError."""
        said = await self._ask(stepwire.ReservePort(ask=0, job_id=job_id, restarts=restarts), PROBE_S)
        assert isinstance(said, stepwire.PortReserved)
        return said.port

    async def check_health(self, asked: wire.AskHealth) -> wire.Health:
        """The node's word after a new look at everything. Raises RemoteError."""
        said = await self._ask(asked, CHECK_S + asked.program_timeout_s)
        assert isinstance(said, wire.Health)
        return said

    async def curves(self, asked: wire.AskCurves) -> wire.Curves:
        """What the node has measured over time. Raises RemoteError."""
        said = await self._ask(asked, CURVES_S)
        assert isinstance(said, wire.Curves)
        return said

    async def moment(self, at_unix: float) -> wire.Moment:
        """What the node and its GPUs were like then. Raises RemoteError."""
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
            raise RemoteError(self._name, f"it gave no answer for {timeout_s:.0f} s") from error
        finally:
            del self._asked[number]

    @contextlib.contextmanager
    def credit(self, stream: int, window_bytes: int = STREAM_WINDOW_BYTES) -> Iterator[Credit]:
        """The window of what we send on a stream."""
        credit = self._credit[stream] = Credit(window_bytes)
        try:
            yield credit
        finally:
            self._credit.pop(stream, None)

    async def upload(self, tree: PackedTree) -> None:
        """Sends a packed tree, with the window's patience, once fewer than MAX_UPLOADS are under way. Raises OSError."""
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
        """Opens a log, terminal or tunnel; the sink gets opened, data and ended."""
        stream = next(self._ids)
        if isinstance(message, wire.OpenTunnel):
            self._credit[stream] = Credit(STREAM_WINDOW_BYTES)
        self.send(dataclasses.replace(message, stream=stream))
        return self.accept_stream(stream, sink)

    def open_step(
        self, message: stepwire.OpenStep, sink: StreamSink, *, on_taken: Callable[[int], None]
    ) -> ChannelStream:
        """Opens the streams of a step's tasks."""
        stream = next(self._ids)
        self._takers[stream] = on_taken
        self.send(dataclasses.replace(message, stream=stream))
        return self.accept_stream(stream, sink)

    def accept_call(self, stream: int, sink: StreamSink) -> ChannelStream:
        """A stream that the agent began. Raises WireError for one that it may not begin."""
        calls = sum(number >= FIRST_CALL for number in self._incoming)
        if stream < FIRST_CALL or stream in self._incoming or calls >= MAX_CALLS:
            raise WireError(f"a call on stream {stream}, beside {calls} others")
        return self.accept_stream(stream, sink)

    def accept_stream(self, stream: int, sink: StreamSink) -> ChannelStream:
        """A stream that is open: its bytes go to the sink."""
        queue: asyncio.Queue[Any] = asyncio.Queue()  # bounded by _put
        self._incoming[stream] = queue
        task = asyncio.get_running_loop().create_task(self._feed(stream, queue, sink))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return ChannelStream(self, stream)

    def write_piece(self, stream: int, piece: bytes) -> None:
        """In one frame."""
        self._out.add(data_frame(stream, piece))

    async def write_stream(self, stream: int, data: bytes) -> None:
        """Bytes towards the node; into a tunnel with the window's patience, into a terminal with that of the link. Raises
        ConnectionError when a tunnel has ended."""
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
        """Returns when there is room for what is typed on a stream, or nobody for it."""
        self._out.flush()  # else what this turn has added would not be counted
        while stream in self._incoming and self._outgoing.get_write_buffer_size() > MAX_TYPED_BYTES:
            await asyncio.sleep(ROOM_S)

    def close_stream(self, stream: int) -> None:
        """Our side wants no more."""
        if stream in self._incoming:
            self.send(wire.StreamEnd(stream=stream))
            self._incoming[stream].put_nowait(wire.StreamEnd(stream=stream))

    def _put(self, stream: int, item: Any, size: int) -> None:
        """Something on a stream. Raises WireError where the agent sends on and on what nobody has taken."""
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
        """Passes a stream on in order; acknowledges what the sink has taken."""
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
                    await sink.ended(item.error)
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
        """Returns for how many bytes more than its own it counts in a turn of the loop."""
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
                answer.set_exception(RemoteError(self._name, "the link broke"))


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
    """How much of an upload, or into a tunnel or a call, may still be sent."""

    def __init__(self, window_bytes: int) -> None:
        self._left = window_bytes
        self._more = asyncio.Event()
        self._broken = False

    async def spend(self, size: int) -> None:
        while self._left < size:
            if self._broken:
                raise ConnectionError("the link broke")
            self._more.clear()
            await self._more.wait()
        self._left -= size

    def earn(self, size: int) -> None:
        self._left += size
        self._more.set()

    def break_off(self) -> None:
        self._broken = True
        self._more.set()
