"""Handlers of tunnels, and of the port forwards that use them.

A tunnel carries bytes both ways between a client and its job. Both halves of a tunnel have a window. Bytes
that the node has not taken are not acknowledged to the client, and vice versa. So a tunnel holds at most two
windows of memory and never delays its connection.
"""

from __future__ import annotations

import asyncio

from warpdeck.base.errors import RemoteError, UserError
from warpdeck.controller.launch.environment import job_environment
from warpdeck.controller.launch.node_aliases import address_variables
from warpdeck.model import Job, ShareStatus
from warpdeck.ports.ports import NodeStream
from warpdeck.protocol import requests as ask
from warpdeck.protocol.job_rows import ForwardRow
from warpdeck.server.connection import ClientStream, Connection
from warpdeck.server.end_subscriptions import wait_for
from warpdeck.server.forwards import KeptForward
from warpdeck.server.streams import has_begun, settle_link, share_on
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire.frames import STREAM_WINDOW_BYTES


class TunnelBytes(ClientStream):
    """A tunnel: a StreamSink for the fleet, and a task that sends the client's bytes to the node."""

    def __init__(
        self, connection: Connection, number: int, node: str, *, forward: KeptForward | None
    ) -> None:
        super().__init__(connection, number)
        self._node = node
        self._forward = forward
        if forward is not None:
            forward.connections += 1
        self._inbox: asyncio.Queue[bytes] = asyncio.Queue()
        self._held = 0
        self._node_stream: NodeStream | None = None
        self._pump: asyncio.Task[None] | None = None

    def join(self, node_stream: NodeStream) -> None:
        """Start passing on the client's bytes, including those already received."""
        self._node_stream = node_stream
        self._pump = asyncio.get_running_loop().create_task(self._pass_on(node_stream))

    async def opened(self, offset: int, size_bytes: int, path: str) -> None:
        self.connection.send({"t": "ok", "id": self.number, "result": {"node": self._node}})

    async def data(self, chunk: bytes) -> None:
        if chunk:
            await self.send(chunk)
        else:
            self.connection.send_data(self.number, b"")

    async def ended(self, error: str, code: str = "") -> None:
        self.say_end(error, None)
        self._stop()

    async def incoming(self, data: bytes) -> None:
        self._held += len(data)
        if self._held > STREAM_WINDOW_BYTES:
            self.say_end("more bytes than the window", None)
            self._close()
            return
        self._inbox.put_nowait(data)

    async def _pass_on(self, node_stream: NodeStream) -> None:
        while True:
            data = await self._inbox.get()
            try:
                await node_stream.write(data)
            except ConnectionError:  # `ended` reports this to the client.
                return
            if not data:
                return
            self._held -= len(data)
            self.connection.send({"t": "ack", "stream": self.number, "size": len(data)})

    def end(self, *, finished: bool = False) -> None:
        super().end()
        self._close()

    def _close(self) -> None:
        self._stop()
        if self._node_stream is not None:
            stream = self._node_stream
            self.closing = asyncio.get_running_loop().create_task(stream.close())

    def _stop(self) -> None:
        if self._pump is not None:
            self._pump.cancel()
        if self._forward is not None:
            self._forward.connections -= 1
            self._forward = None


async def open_tunnel(connection: Connection, message: ask.Tunnel, job: Job) -> None:
    """Open a tunnel to a node on which the job runs. It waits for the job's start."""
    if (message.port is None) == (not message.argv):
        raise UserError("a tunnel needs either a port or a command", "give one of them")
    job, share = await _running_share(connection, job, node=message.node, number=message.id)
    forward = connection.server.forwards.own(connection.who, message.forward)
    stream = TunnelBytes(connection, message.id, share.node, forward=forward)
    controller = connection.server.controller
    asked = wire.OpenTunnel(
        stream=0,
        job_id=job.id,
        restarts=job.restarts,
        port=message.port or 0,
        argv=list(message.argv),
        env=_environment(connection, job, share) if message.argv else {},
    )
    try:
        stream.join(await controller.fleet.open_stream(share.node, asked, stream))
    except RemoteError:
        stream.end()
        raise


def _environment(connection: Connection, job: Job, share: ShareStatus) -> dict[str, str]:
    assert job.allocation is not None
    names, controller = job.allocation.node_names(), connection.server.controller
    made = job_environment(job, names.index(share.node), submit_host=controller.submit_host)
    return made | address_variables(names, controller.state.nodes)


async def _running_share(
    connection: Connection, job: Job, *, node: str, number: int
) -> tuple[Job, ShareStatus]:
    """Wait until the job runs, and return it with its part on the node. Raises UserError."""
    if job.is_folded_array:
        first = f"{job.array_job_id}_{job.pending_tasks[0][0]}"
        raise UserError(f"job {job.label()} is an array", f"name a task: {first}")
    job = await wait_for(connection, job, has_begun, tell=number)
    if job.is_finished:
        raise UserError(
            f"job {job.label()} has ended ({job.state})", f"see its output: warpdeck logs {job.label()}"
        )
    share = share_on(job, node)
    await settle_link(connection, share.node)
    return job, share


class ForwardStream(ClientStream):
    """A client's registration of a forward, which lasts as long as the stream."""

    def __init__(self, connection: Connection, number: int) -> None:
        super().__init__(connection, number)
        self.words = ""
        self.over = asyncio.Event()

    def finish(self, words: str) -> None:
        """Mark the forward as ended, for the reason in `words`."""
        self.words = words
        self.over.set()

    def end(self, *, finished: bool = False) -> None:
        super().end()
        self.finish("")


async def keep_forward(connection: Connection, message: ask.Forward, job: Job) -> None:
    """List the forward until its client disconnects, its job ends, or somebody ends the forward."""
    job, share = await _running_share(connection, job, node=message.node, number=message.id)
    server = connection.server
    stream = ForwardStream(connection, message.id)
    row = ForwardRow(
        number=0,
        job=job.label(),
        user=job.user,
        node=share.node,
        port=message.port,
        local_port=message.local_port,
        host=message.host,
        purpose=message.purpose,
        page=message.page,
        since=server.controller.clock(),
    )
    number = server.forwards.add(row, uid=connection.who.uid, end=stream.finish)
    try:
        connection.send({"t": "ok", "id": message.id, "result": {"number": number, "node": share.node}})
        loop = asyncio.get_running_loop()
        ends = [loop.create_task(_until_let_go(connection, job)), loop.create_task(stream.over.wait())]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in ends:
                task.cancel()
        stream.say_end(stream.words, None)
    finally:
        server.forwards.drop(number)


async def _until_let_go(connection: Connection, job: Job) -> None:
    """Wait until this start of the job has ended."""
    await wait_for(connection, job, lambda now: now.is_finished or now.restarts != job.restarts)
