"""Passes bytes both ways between a client and a stream of a running job."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from warpdeck.fleet.channel_streams import ChannelStream
from warpdeck.ports.engine_streams import ByteSink, StreamEnd
from warpdeck.ports.ports import LINK_BROKE
from warpdeck.protocol.requests import LOST
from warpdeck.protocol.results import LogOpened
from warpdeck_agent.wire.opening import FELL_BEHIND

from .job_link import JobLink

HowItEnded = Callable[[str, str], Awaitable[StreamEnd]]
"""Returns the end of the client's stream for the error and the code with which the stream of the job ended."""


class JobRelay:
    """The StreamSink of a job's stream, and the ByteStream of the client."""

    def __init__(self, sink: ByteSink, node: str, how_it_ended: HowItEnded) -> None:
        self._sink = sink
        self._node = node
        self._how_it_ended = how_it_ended
        self._link: JobLink | None = None
        self._stream: ChannelStream | None = None

    def join(self, link: JobLink, stream: ChannelStream) -> None:
        """Set the stream of the job. It is called before the stream's first message arrives."""
        self._link, self._stream = link, stream

    async def opened(self, offset: int, size_bytes: int, path: str) -> None:
        await self._sink.opened(LogOpened(offset=offset, size_bytes=size_bytes, path=path, node=self._node))

    async def data(self, chunk: bytes) -> None:
        if self._sink.is_open:
            await self._sink.data(chunk)

    async def ended(self, error: str, code: str = "") -> None:
        if self._link is not None:
            self._link.release()
        if self._sink.is_open:
            end = await self._how_it_ended(error, code)
            if self._sink.is_open:
                self._sink.ended(end)

    async def write(self, data: bytes) -> None:
        if self._stream is not None:
            await self._stream.write(data)

    async def resize(self, rows: int, cols: int) -> None:
        if self._stream is not None:
            await self._stream.resize(rows, cols)

    async def close(self) -> None:
        if self._stream is not None:
            await self._stream.close()


def code_of(error: str, code: str) -> str:
    """Return the code that the client gets with the end of a stream: LOST if it should connect again, else ""."""
    return LOST if error == LINK_BROKE or code == FELL_BEHIND else ""
