"""One connection to an agent over any transport: messages, streams with flow control, uploads and probes."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any, Generic, Protocol, TypeVar

from warpdeck.base.errors import RemoteError
from warpdeck.ports.ports import LINK_BROKE, SAMPLE_S, PackedTree, StreamRequest, StreamSink
from warpdeck_agent.wire import JSON, WireError, read_frame, split_data
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire import steps as stepwire
from warpdeck_agent.wire.frames import DATA_CHUNK_BYTES, STREAM_WINDOW_BYTES
from warpdeck_agent.wire.past_launches import MAX_ASKED

from .channel_streams import ITEM_OVERHEAD_BYTES, ChannelStream, ChannelStreams, Credit
from .frame_writer import FrameWriter, Writer
from .inbound import decode
from .transport import Outgoing

T = TypeVar("T")

HELLO_S = 20.0
"""Seconds that an agent may take to send Welcome. It may have to adopt thousands of jobs."""
PROBE_S = 10.0
CHECK_S = 30.0
"""Seconds that all health checks of a node may take, in addition to the site's own program."""
CURVES_S = 20.0
EVIDENCE_S = 60.0
"""The agent limits the time for the stacks itself. The node may be busy."""
PAST_STATE_S = 2.0
"""Seconds to wait for one node's past state.

A user waits interactively, and all other nodes' answers wait, too.
"""
MAX_UPLOADS = 8
"""Maximum number of concurrent uploads. Each holds a window of its tree in memory."""
YIELD_BYTES = 64 * 1024
"""Bytes processed without yielding to the event loop.

This takes some five milliseconds if they are short messages.
"""
CALL_BYTES = 16 * 1024
"""Number of bytes for which a call counts toward YIELD_BYTES, because starting one takes as long."""
MAX_UNPROCESSED_BYTES = 256 * 1024
"""Bytes of messages that are read before the controller has processed the earlier ones.

This is a thousand reports, or one larger message.
"""

_Question = (
    wire.AskHealth
    | wire.AskCurves
    | wire.AskMoment
    | wire.AskEvidence
    | wire.AskLaunches
    | stepwire.ReservePort
)
_Answer = wire.Health | wire.Curves | wire.Moment | wire.Evidence | wire.KnownLaunches | stepwire.PortReserved


class Superseded(RemoteError):
    """The agent obeys another start of the controller."""

    def __init__(self, node: str, refused: wire.Refused) -> None:
        super().__init__(node, refused.error or "its agent obeys another controller")
        self.refused = refused


class FrameReader(Protocol):
    """Protocol of a reader that read_frame accepts."""

    async def readexactly(self, n: int) -> bytes: ...


class PendingAnswers(Generic[T]):
    """Requests that wait for an answer of the agent, by number."""

    def __init__(self) -> None:
        self._futures: dict[int, asyncio.Future[T]] = {}

    async def wait(self, number: int, timeout_s: float) -> T:
        """Return the answer to the request. Raises TimeoutError, or the error given to `fail_all`."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._futures[number] = answer
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        finally:
            del self._futures[number]

    def resolve(self, number: int, answer: T) -> None:
        """Deliver an answer. If no request waits for it any more, it is ignored."""
        if number in self._futures and not self._futures[number].done():
            self._futures[number].set_result(answer)

    def fail_all(self, error: Exception) -> None:
        """Raise the error in all waiting requests."""
        for answer in self._futures.values():
            if not answer.done():
                answer.set_exception(error)


class Channel:
    """Frames to and from one agent.

    `on_message` gets the messages for the controller, with their size. `wait_processed` returns when the
    controller has processed all of them.
    """

    def __init__(
        self,
        name: str,
        reader: FrameReader,
        writer: Writer,
        outgoing: Outgoing,
        on_message: Callable[[Any, int], None],
        wait_processed: Callable[[], Awaitable[None]],
    ) -> None:
        self._name = name
        self._reader: Any = reader
        self._frames = FrameWriter(writer, outgoing)
        self._streams = ChannelStreams(self._frames)
        self._on_message = on_message
        self._wait_processed = wait_processed
        self._unprocessed_bytes = 0
        self._uploads = asyncio.Semaphore(MAX_UPLOADS)
        self._ids = itertools.count(1)
        self._probes = PendingAnswers[bool | None]()
        self._answers = PendingAnswers[_Answer]()

    async def greet(
        self, controller_id: str, start: wire.ControllerStart, *, wants_past: bool = False
    ) -> wire.Welcome:
        """Exchange Hello and Welcome. Raises RemoteError, or Superseded if the agent obeys another start."""
        hello = wire.Hello(
            controller_id=controller_id, sample_interval_s=SAMPLE_S, start=start, wants_past=wants_past
        )
        self.send(hello)
        try:
            async with asyncio.timeout(HELLO_S):
                _, payload = await read_frame(self._reader)
            welcome = decode(payload)
        except (TimeoutError, asyncio.IncompleteReadError, OSError, WireError) as error:
            raise RemoteError(self._name, f"the agent does not answer: {error or 'time-out'}") from error
        if isinstance(welcome, wire.Refused):
            raise Superseded(self._name, welcome)
        if not isinstance(welcome, wire.Welcome):
            raise RemoteError(self._name, getattr(welcome, "error", "") or "the agent sent invalid data")
        return welcome

    async def process_frames(self) -> None:
        """Process incoming frames until the connection ends. Raises RemoteError with the cause."""
        processed_bytes = 0
        try:
            while True:
                kind, payload = await read_frame(self._reader)
                processed_bytes += len(payload) + ITEM_OVERHEAD_BYTES
                if kind == JSON:
                    processed_bytes += await self._process(decode(payload), len(payload))
                else:
                    stream, data = split_data(payload)
                    self._streams.put(stream, data, len(data))
                # A reader with buffered data returns without suspending, so yield explicitly.
                if processed_bytes > YIELD_BYTES:
                    processed_bytes = 0
                    await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, OSError, WireError) as error:
            raise RemoteError(self._name, self._frames.abort_reason or f"connection lost: {error}") from error
        finally:
            self._streams.end_all()
            self._answers.fail_all(RemoteError(self._name, "connection lost"))

    def send(self, message: Any) -> None:
        """Queue a message."""
        self._frames.send(message)

    def close(self) -> None:
        self._frames.close()

    async def probe(self, path: str, name: str, *, uid: int) -> bool | None:
        """Return whether the user sees that entry in the folder on the node. Raises TimeoutError.

        None means that the folder's file server does not answer there.
        """
        number = next(self._ids)
        self.send(wire.ProbePath(probe=number, path=path, name=name, uid=uid))
        return await self._probes.wait(number, PROBE_S)

    async def reserve_port(self, job_id: int, restarts: int) -> int:
        """Return a free port of the node, which is kept for the launch. Raises RemoteError."""
        answer = await self._request(stepwire.ReservePort(ask=0, job_id=job_id, restarts=restarts), PROBE_S)
        assert isinstance(answer, stepwire.PortReserved)
        return answer.port

    async def check_health(self, request: wire.AskHealth) -> wire.Health:
        """Return the node's health after all checks have run again. Raises RemoteError."""
        answer = await self._request(request, CHECK_S + request.program_timeout_s)
        assert isinstance(answer, wire.Health)
        return answer

    async def curves(self, request: wire.AskCurves) -> wire.Curves:
        """Return the node's measurements over time. Raises RemoteError."""
        answer = await self._request(request, CURVES_S)
        assert isinstance(answer, wire.Curves)
        return answer

    async def past_state(self, at_unix: float) -> wire.Moment:
        """Return the state of the node and its GPUs at a past time. Raises RemoteError."""
        answer = await self._request(wire.AskMoment(ask=0, at_unix=at_unix), PAST_STATE_S)
        assert isinstance(answer, wire.Moment)
        return answer

    async def evidence(self, request: wire.AskEvidence) -> wire.Evidence:
        """Return what the ranks of a launch are doing on the node. Raises RemoteError."""
        answer = await self._request(request, EVIDENCE_S)
        assert isinstance(answer, wire.Evidence)
        return answer

    async def known_launches(self, launches: list[list[int]]) -> list[wire.KnownLaunch]:
        """Return the agent's records of these launches ([job_id, restarts]). Raises RemoteError."""
        found: list[wire.KnownLaunch] = []
        for at in range(0, len(launches), MAX_ASKED):
            request = wire.AskLaunches(ask=0, launches=launches[at : at + MAX_ASKED])
            answer = await self._request(request, CURVES_S)
            assert isinstance(answer, wire.KnownLaunches)
            found += answer.found
        return found

    async def _request(self, question: _Question, timeout_s: float) -> _Answer:
        number = next(self._ids)
        self.send(dataclasses.replace(question, ask=number))
        try:
            return await self._answers.wait(number, timeout_s)
        except TimeoutError as error:
            raise RemoteError(self._name, f"no answer for {timeout_s:.0f} s") from error

    def credit(self, stream: int, window_bytes: int = STREAM_WINDOW_BYTES) -> AbstractContextManager[Credit]:
        """Context with the flow-control window for our data on a stream."""
        return self._streams.credit(stream, window_bytes)

    async def upload(self, tree: PackedTree) -> None:
        """Send a packed tree within the window. At most MAX_UPLOADS run at the same time. Raises OSError."""
        async with self._uploads:
            if self._streams.has_ended:
                raise ConnectionError(LINK_BROKE)
            await self._upload(tree)

    async def _upload(self, tree: PackedTree) -> None:
        stream = next(self._ids)
        self.send(wire.PutTree(tree=tree.tree, sha256=tree.sha256, size_bytes=tree.size_bytes, stream=stream))
        loop = asyncio.get_running_loop()
        with self.credit(stream) as credit, open(tree.path, "rb") as file:
            while chunk := await loop.run_in_executor(None, file.read, DATA_CHUNK_BYTES):
                await credit.spend(len(chunk))
                self._frames.send_data(stream, chunk)
        self.send(wire.StreamEnd(stream=stream))

    def open_stream(self, message: StreamRequest, sink: StreamSink) -> ChannelStream:
        """Open a log, terminal or tunnel.

        `sink` is called when the stream has opened, for its data, and when it ends.
        """
        stream = next(self._ids)
        if isinstance(message, wire.OpenTunnel):
            self._streams.add_credit(stream)
        self.send(dataclasses.replace(message, stream=stream))
        return self._streams.accept(stream, sink)

    def open_step(
        self, message: stepwire.OpenStep, sink: StreamSink, *, on_taken: Callable[[int], None]
    ) -> ChannelStream:
        """Open the streams of a step's tasks on the node.

        `on_taken` is called with the size of each piece of input that the tasks have taken.
        """
        stream = next(self._ids)
        self.send(dataclasses.replace(message, stream=stream))
        return self._streams.accept(stream, sink, on_taken=on_taken)

    def accept_call(self, stream: int, sink: StreamSink) -> ChannelStream:
        """Accept a stream that the agent opened. Raises WireError if the agent may not open it."""
        return self._streams.accept_call(stream, sink)

    def accept_stream(self, stream: int, sink: StreamSink) -> ChannelStream:
        """Deliver the data of an open stream to the sink."""
        return self._streams.accept(stream, sink)

    def write_piece(self, stream: int, piece: bytes) -> None:
        """Send a piece of a stream in one frame."""
        self._frames.send_data(stream, piece)

    def close_stream(self, stream: int) -> None:
        """End a stream from our side."""
        self._streams.close(stream)

    async def _process(self, message: Any, size: int) -> int:
        """Process a message. Returns extra bytes to count for it toward YIELD_BYTES."""
        match message:
            case wire.StreamOpened(stream=stream) | wire.StreamEnd(stream=stream):
                self._streams.put(stream, message, 0)
            case wire.StreamAck(stream=stream, size=size):
                self._streams.acknowledge(stream, size)
            case wire.PathProbed(probe=number, found=found, hangs=hangs):
                self._probes.resolve(number, None if hangs else found)
            case (
                wire.Health(ask=number)
                | wire.Curves(ask=number)
                | wire.Moment(ask=number)
                | wire.Evidence(ask=number)
                | wire.KnownLaunches(ask=number)
                | stepwire.PortReserved(ask=number)
            ) if number:
                self._answers.resolve(number, message)
            case stepwire.CallOpened():
                self._on_message(message, size)
                return CALL_BYTES
            case _:
                self._on_message(message, size)
                self._unprocessed_bytes += size + ITEM_OVERHEAD_BYTES
                if self._unprocessed_bytes > MAX_UNPROCESSED_BYTES:
                    self._unprocessed_bytes = 0
                    await self._wait_processed()
        return 0
