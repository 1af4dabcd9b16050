"""Sources of bytes on nodes: one log, terminal or tunnel, and the output of all nodes of a job."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from warpdeck.controller.state.state import State
from warpdeck.engines.shared.job_waits import JobWaits
from warpdeck.model import ExitStatus, Job, JobState, NodeName
from warpdeck.ports.engine_streams import ByteSink, ByteStream, StreamEnd
from warpdeck.ports.ports import LINK_BROKE, Fleet, NodeStream, StreamRequest
from warpdeck.protocol.requests import LOST
from warpdeck.protocol.results import LogOpened
from warpdeck_agent.wire.opening import FELL_BEHIND


@dataclass(frozen=True, kw_only=True)
class NodeStreams:
    """Opens streams of jobs on their nodes."""

    state: State
    fleet: Fleet
    waits: JobWaits

    async def open(
        self, job: Job, node: NodeName, message: StreamRequest, sink: ByteSink, *, follow: bool = False
    ) -> ByteStream:
        """Open a stream between the client and a node. Raises RemoteError.

        With `follow` its end is reported with the end of the job, which comes a moment later.
        """
        relay = NodeRelay(self, job, sink, node=node, follow=follow)
        relay.join(await self.fleet.open_stream(node, message, relay))
        return relay

    async def open_all(
        self, job: Job, messages: Sequence[tuple[NodeName, StreamRequest]], sink: ByteSink
    ) -> ByteStream:
        """Open one stream for the output of all nodes of a job. Raises RemoteError."""
        relay = OutputRelay(self, job, sink, nodes=len(messages))
        try:
            for node, message in messages:
                await self.waits.link(node)
                if not sink.is_open:
                    break
                relay.join(await self.fleet.open_stream(node, message, relay))
        except BaseException:
            await relay.close()
            raise
        return relay

    def exit_of(self, job: Job) -> ExitStatus | None:
        """Return the job's current exit status, or None if it has none."""
        return self.state.jobs.get(job.id, job).exit

    async def end_of(self, job: Job) -> StreamEnd:
        """Wait for the end of the job and return the end of its stream."""
        now = await self.waits.until(job, lambda each: each.is_finished or each.state is JobState.PENDING)
        return StreamEnd(exit=self.exit_of(now))


class OutputRelay:
    """Passes the output of all nodes of a job to a client.

    It is the StreamSink of the fleet and the ByteStream of the client.
    """

    def __init__(
        self, streams: NodeStreams, job: Job, sink: ByteSink, *, nodes: int, follow: bool = True
    ) -> None:
        self._streams = streams
        self._job = job
        self._sink = sink
        self._left = nodes
        self._follow = follow
        self._nodes: list[NodeStream] = []
        self._waiting: asyncio.Task[None] | None = None

    def join(self, stream: NodeStream) -> None:
        """Add the open stream of one more node."""
        self._nodes.append(stream)

    async def opened(self, offset: int, size_bytes: int, path: str) -> None:
        """Do nothing, because the client was already answered."""

    async def data(self, chunk: bytes) -> None:
        await self._sink.data(chunk)

    async def ended(self, error: str, code: str = "") -> None:
        """Handle the end of one node's stream.

        If the job is followed, the end of the last stream is reported with the job's own end.
        """
        if not self._sink.is_open:
            return
        self._left -= 1
        if error or not self._follow:
            self._sink.ended(StreamEnd(error, self.code_of(error, code), self._streams.exit_of(self._job)))
        elif not self._left:
            self._waiting = asyncio.get_running_loop().create_task(self._end_with_job())

    def code_of(self, error: str, code: str) -> str:
        """Return the code for the client of an error with which a node's stream ended."""
        return ""

    async def _end_with_job(self) -> None:
        self._sink.ended(await self._streams.end_of(self._job))

    async def write(self, data: bytes) -> None:
        """Do nothing, because the job has no input."""

    async def resize(self, rows: int, cols: int) -> None:
        """Do nothing, because the job has no terminal."""

    async def close(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
        for stream in self._nodes:
            await stream.close()


class NodeRelay(OutputRelay):
    """Passes bytes both ways between a client and one node."""

    def __init__(
        self, streams: NodeStreams, job: Job, sink: ByteSink, *, node: NodeName, follow: bool
    ) -> None:
        super().__init__(streams, job, sink, nodes=1, follow=follow)
        self._node = node

    async def opened(self, offset: int, size_bytes: int, path: str) -> None:
        await self._sink.opened(LogOpened(offset=offset, size_bytes=size_bytes, path=path, node=self._node))

    def code_of(self, error: str, code: str) -> str:
        return LOST if error == LINK_BROKE or code == FELL_BEHIND else ""

    async def write(self, data: bytes) -> None:
        for stream in self._nodes:
            await stream.write(data)

    async def resize(self, rows: int, cols: int) -> None:
        for stream in self._nodes:
            await stream.resize(rows, cols)
