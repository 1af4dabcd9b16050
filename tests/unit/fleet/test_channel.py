"""An agent that violates the windows of its streams or opens forbidden ones loses only its connection."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support.waiting import WAIT_S, eventually_async

from warpdeck.base.errors import RemoteError
from warpdeck.fleet.channel import MAX_UNPROCESSED_BYTES, Channel
from warpdeck.fleet.channel_streams import MAX_BUFFERED_BYTES, MAX_CALLS, MAX_TYPED_BYTES
from warpdeck.fleet.frame_writer import MAX_UNSENT_BYTES
from warpdeck_agent.wire import data_frame, json_frame
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire.frames import DATA_CHUNK_BYTES, STREAM_WINDOW_BYTES
from warpdeck_agent.wire.steps import FIRST_CALL

REPORT = wire.JobReport(job_id=7, restarts=0, phase="running")


class Sink:
    """Accepts data only when the test allows it."""

    def __init__(self) -> None:
        self.taken = 0
        self.may_take = asyncio.Event()
        self.end: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def opened(self, offset: int, size_bytes: int, path: str) -> None:
        return None

    async def data(self, chunk: bytes) -> None:
        await self.may_take.wait()
        self.taken += len(chunk)

    async def ended(self, error: str, code: str = "") -> None:
        self.end.set_result(error)


class Ends:
    """A channel, and the agent's end of it.

    `received` holds the messages for the controller, which processes them only when the test allows it.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, agent: Any) -> None:
        self.received: list[Any] = []
        self.may_process = asyncio.Event()
        self.is_waiting = False

        async def processed() -> None:
            self.is_waiting = True
            await self.may_process.wait()

        self.channel = Channel(
            "n",
            reader,
            writer,
            writer.transport,
            lambda message, size: self.received.append(message),
            processed,
        )
        self.agent = agent
        self.pump = asyncio.get_running_loop().create_task(self.channel.process_frames())

    async def lost(self) -> str:
        """Return the reason why the connection ended."""
        with pytest.raises(RemoteError) as caught:
            await asyncio.wait_for(self.pump, WAIT_S)
        return caught.value.cause


@pytest.fixture
async def ends() -> AsyncIterator[Ends]:
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    agent_reader, agent = await asyncio.open_connection(sock=theirs)
    drained = asyncio.get_running_loop().create_task(agent_reader.read())
    made = Ends(reader, writer, agent)
    yield made
    made.pump.cancel()
    writer.close()
    agent.close()
    await asyncio.wait([made.pump, drained])


async def test_data_beyond_the_window_of_a_stream_ends_the_connection(ends: Ends) -> None:
    sink = Sink()
    ends.channel.accept_stream(3, sink)
    for _ in range(MAX_BUFFERED_BYTES // DATA_CHUNK_BYTES + 1):
        ends.agent.write(data_frame(3, bytes(DATA_CHUNK_BYTES)))
    assert "more bytes on stream 3 than its window" in await ends.lost()
    sink.may_take.set()


@pytest.mark.parametrize("piece", [DATA_CHUNK_BYTES, 30])
async def test_a_full_window_may_consist_of_pieces_of_any_size(ends: Ends, piece: int) -> None:
    sink = Sink()
    ends.channel.accept_stream(3, sink)
    window = STREAM_WINDOW_BYTES // piece * piece
    for sent in range(1, 4):
        for _ in range(window // piece):
            ends.agent.write(data_frame(3, bytes(piece)))
        await ends.agent.drain()
        sink.may_take.set()
        await eventually_async(lambda so_far=sent: sink.taken == so_far * window, what="all of it is taken")
    ends.agent.write(json_frame(wire.encode(wire.StreamEnd(stream=3))))
    assert await asyncio.wait_for(sink.end, WAIT_S) == ""


async def test_messages_on_a_stream_count_against_its_window(ends: Ends) -> None:
    sink = Sink()
    ends.channel.accept_stream(3, sink)
    ends.agent.write(data_frame(3, b"x"))
    opened = json_frame(wire.encode(wire.StreamOpened(stream=3)))
    for _ in range(MAX_BUFFERED_BYTES // 100):
        ends.agent.write(opened)
    assert "than its window" in await ends.lost()
    sink.may_take.set()


async def test_calls_use_the_agents_stream_numbers_and_are_limited(ends: Ends) -> None:
    sinks: list[Any] = [Sink() for _ in range(MAX_CALLS + 1)]
    ends.channel.accept_stream(3, sinks[0])
    for stream in (3, 4):
        with pytest.raises(Exception, match=f"a call on stream {stream}"):
            ends.channel.accept_call(stream, sinks[1])
    for number in range(MAX_CALLS):
        ends.channel.accept_call(FIRST_CALL + number, sinks[1 + number])
    with pytest.raises(Exception, match="beside 1024 others"):
        ends.channel.accept_call(FIRST_CALL + MAX_CALLS, Sink())


async def test_data_on_unopened_streams_ends_the_connection(ends: Ends) -> None:
    """Data that was in flight when a stream ended here is ignored."""
    sink = Sink()
    sink.may_take.set()
    stream = ends.channel.accept_stream(3, sink)
    await stream.close()
    assert await asyncio.wait_for(sink.end, WAIT_S) == ""
    for _ in range(STREAM_WINDOW_BYTES // 30):
        ends.agent.write(data_frame(3, bytes(30)))
    ends.agent.write(json_frame(wire.encode(REPORT)))
    await eventually_async(lambda: ends.received, what="the link goes on")
    for _ in range(MAX_BUFFERED_BYTES // DATA_CHUNK_BYTES):
        ends.agent.write(data_frame(3, bytes(DATA_CHUNK_BYTES)))
    assert "stream 3, which nobody has opened" in await ends.lost()


async def test_reading_pauses_until_received_messages_are_processed(ends: Ends) -> None:
    report = json_frame(wire.encode(REPORT))
    most = MAX_UNPROCESSED_BYTES // len(report)
    ends.agent.write(report * (2 * most))
    await eventually_async(lambda: ends.is_waiting, what="the channel waits")
    read = len(ends.received)
    assert 0 < read < most
    for _ in range(100):  # iterations of the event loop, in which a reader that does not wait would continue
        await asyncio.sleep(0)
    assert len(ends.received) == read
    ends.may_process.set()
    await eventually_async(lambda: len(ends.received) == 2 * most, what="then all of it is read")


async def test_an_agent_that_never_reads_is_disconnected_and_its_buffer_is_freed() -> None:
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    ends = Ends(reader, writer, theirs)
    piece = bytes(DATA_CHUNK_BYTES)
    most = 0
    for _ in range(2 * MAX_UNSENT_BYTES // DATA_CHUNK_BYTES):
        ends.channel.write_piece(3, piece)
        await asyncio.sleep(0)
        most = max(most, writer.transport.get_write_buffer_size())
    assert "has not read 64 MiB of messages" in await ends.lost()
    assert MAX_UNSENT_BYTES < most < MAX_UNSENT_BYTES + 2 * DATA_CHUNK_BYTES
    assert writer.transport.get_write_buffer_size() == 0
    theirs.close()


async def test_typed_input_waits_for_a_slow_agent_and_keeps_the_connection() -> None:
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    ends = Ends(reader, writer, theirs)
    sink = Sink()
    typed = ends.channel.open_stream(wire.OpenPty(stream=0, job_id=7, restarts=0, rows=1, cols=1), sink)
    typing = asyncio.get_running_loop().create_task(typed.write(bytes(2 * MAX_UNSENT_BYTES)))
    transport = writer.transport
    await eventually_async(
        lambda: transport.get_write_buffer_size() > MAX_TYPED_BYTES, what="the link is full"
    )
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(asyncio.shield(typing), 0.3)
    assert transport.get_write_buffer_size() <= MAX_TYPED_BYTES + 2 * DATA_CHUNK_BYTES
    assert not ends.pump.done()
    theirs.close()
    assert await ends.lost()
    await asyncio.wait_for(typing, WAIT_S)
    assert await sink.end
    writer.close()
