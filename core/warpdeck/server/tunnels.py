"""Handlers of tunnels, and of the port forwards that use them.

A tunnel carries bytes both ways between a client and its job. Both halves of a tunnel have a window. Bytes
that the job has not taken are not acknowledged to the client, and vice versa. So a tunnel holds at most two
windows of memory and never delays its connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from warpdeck.ports.engine_streams import ByteStream, StreamEnd
from warpdeck.protocol import requests as ask
from warpdeck.protocol.job_rows import ForwardRow
from warpdeck.protocol.results import LogOpened
from warpdeck_agent.wire.frames import STREAM_WINDOW_BYTES

from .connection import ClientStream, Connection
from .forwards import KeptForward


class TunnelBytes(ClientStream):
    """The client's end of a tunnel: a ByteSink, and a task that sends the client's bytes to the job."""

    def __init__(self, connection: Connection, number: int, *, forward: KeptForward | None) -> None:
        super().__init__(connection, number)
        self._forward = forward
        if forward is not None:
            forward.connections += 1
        self._inbox: asyncio.Queue[bytes] = asyncio.Queue()
        self._held = 0
        self._stream: ByteStream | None = None
        self._pump: asyncio.Task[None] | None = None

    def join(self, stream: ByteStream) -> None:
        """Start passing on the client's bytes, including those already received."""
        self._stream = stream
        if not self.is_open:  # The client has ended it meanwhile.
            self._close()
            return
        self._pump = asyncio.get_running_loop().create_task(self._pass_on(stream))

    async def opened(self, log: LogOpened) -> None:
        self.connection.send_ok(self.number, {"node": log.node})

    async def data(self, chunk: bytes) -> None:
        if chunk:
            await self.send(chunk)
        else:
            self.connection.send_data(self.number, b"")

    def ended(self, end: StreamEnd) -> None:
        self.say_end(end.error, None)
        self._stop()

    async def incoming(self, data: bytes) -> None:
        self._held += len(data)
        if self._held > STREAM_WINDOW_BYTES:
            self.say_end("more bytes than the window", None)
            self._close()
            return
        self._inbox.put_nowait(data)

    async def _pass_on(self, stream: ByteStream) -> None:
        while True:
            data = await self._inbox.get()
            try:
                await stream.write(data)
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
        if self._stream is not None:
            self.closing = asyncio.get_running_loop().create_task(self._stream.close())

    def _stop(self) -> None:
        if self._pump is not None:
            self._pump.cancel()
        if self._forward is not None:
            self._forward.connections -= 1
            self._forward = None


async def open_tunnel(connection: Connection, message: ask.Tunnel) -> None:
    """Open a tunnel to a node on which the job runs. It waits for the job's start."""
    server, progress = connection.server, connection.progress_of(message.id)
    source = await server.engine.output.tunnel(connection.caller, message, progress)
    forward = server.forwards.own(connection.who, message.forward)
    stream = TunnelBytes(connection, message.id, forward=forward)
    try:
        stream.join(await source(stream))
    except BaseException:
        stream.end()
        raise


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


async def keep_forward(connection: Connection, message: ask.Forward) -> None:
    """List the forward until its client disconnects, its job ends, or somebody ends the forward."""
    server, progress = connection.server, connection.progress_of(message.id)
    job = await server.engine.output.forward(connection.caller, message, progress)
    stream = ForwardStream(connection, message.id)
    row = ForwardRow(
        number=0,
        job=job.label,
        user=job.user,
        node=job.node,
        port=message.port,
        local_port=message.local_port,
        host=message.host,
        purpose=message.purpose,
        page=message.page,
        since=server.clock(),
    )
    number = server.forwards.add(row, uid=connection.who.uid, end=stream.finish)
    try:
        connection.send_ok(message.id, {"number": number, "node": job.node})
        await _first_of(job.ended(), stream.over.wait())
        stream.say_end(stream.words, None)
    finally:
        server.forwards.drop(number)


async def _first_of(*waits: Coroutine[Any, Any, Any]) -> None:
    """Return when one of the waits has ended. The others are cancelled."""
    tasks = [asyncio.get_running_loop().create_task(each) for each in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
