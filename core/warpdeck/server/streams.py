"""Handlers of the requests that open a stream of bytes: uploads, logs, terminals and the output of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from warpdeck.base.errors import RemoteError, UserError
from warpdeck.model import ExitStatus
from warpdeck.ports.caller import Caller
from warpdeck.ports.engine import Progress, TreeUpload
from warpdeck.ports.engine_streams import ByteSource, ByteStream, StreamEnd
from warpdeck.protocol import requests as ask
from warpdeck.protocol.results import LogOpened
from warpdeck_agent.wire.frames import STREAM_WINDOW_BYTES

from .connection import ClientStream, Connection, Handler

_Asked = TypeVar("_Asked", ask.Log, ask.Attach)


class TreeStream(ClientStream):
    """An upload of a packed tree."""

    def __init__(self, connection: Connection, number: int, receiving: TreeUpload) -> None:
        super().__init__(connection, number)
        self._receiving = receiving
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def incoming(self, data: bytes) -> None:
        try:
            self._receiving.write(data)
        except UserError as error:
            self._fail(error)
            return
        self.connection.send({"t": "ack", "stream": self.number, "size": len(data)})

    def end(self, *, finished: bool = False) -> None:
        super().end()
        if self.done.done():
            return
        try:
            if not finished:
                raise UserError("the upload was interrupted", "submit again")
            self._receiving.finish()
            self.done.set_result(None)
        except UserError as error:
            self._fail(error)

    def _fail(self, error: UserError) -> None:
        self._receiving.abandon()
        if not self.done.done():
            self.done.set_exception(error)


async def receive_tree(connection: Connection, message: ask.PutTree) -> None:
    """Receive an upload and answer when the tree is stored."""
    receiving = await connection.server.engine.submissions.receive_tree(connection.caller, message)
    stream = TreeStream(connection, message.id, receiving)
    connection.send({"t": "ack", "stream": message.id, "size": STREAM_WINDOW_BYTES})
    await stream.done
    connection.send_ok(message.id, {})


class JobBytes(ClientStream):
    """The client's end of a log, of a terminal or of the output of a run. It is a ByteSink of the engine."""

    def __init__(self, connection: Connection, number: int) -> None:
        super().__init__(connection, number)
        self._stream: ByteStream | None = None

    async def start(self, source: ByteSource) -> None:
        """Start the stream. Raises UserError or RemoteError."""
        self._stream = await source(self)
        if not self.is_open:  # The client has ended it meanwhile.
            await self._stream.close()

    async def opened(self, log: LogOpened) -> None:
        self.connection.send_ok(self.number, log)

    async def data(self, chunk: bytes) -> None:
        await self.send(chunk)

    def ended(self, end: StreamEnd) -> None:
        self.say_end(end.error, exit_fields(end.exit), code=end.code)

    async def incoming(self, data: bytes) -> None:
        if self._stream is not None:
            await self._stream.write(data)

    async def resize(self, rows: int, cols: int) -> None:
        if self._stream is not None:
            await self._stream.resize(rows, cols)

    def end(self, *, finished: bool = False) -> None:
        super().end()
        if self._stream is not None:
            self.closing = asyncio.get_running_loop().create_task(self._stream.close())


def exit_fields(status: ExitStatus | None) -> dict[str, int] | None:
    """Return an exit status as the end of a stream carries it."""
    return None if status is None else {"code": status.code, "signal": status.signal}


def from_source(
    find: Callable[[Caller, _Asked, Progress], Awaitable[ByteSource]],
) -> Handler:
    """Return a handler that streams the source that a method of the engine finds."""

    async def answer(connection: Connection, message: _Asked) -> None:
        source = await find(connection.caller, message, connection.progress_of(message.id))
        stream = JobBytes(connection, message.id)
        try:
            await stream.start(source)
        except BaseException:
            stream.end()
            raise

    return answer


async def run(connection: Connection, message: ask.Run) -> None:
    """Submit the job of a command and stream its output until it ends. Raises UserError.

    Standard output is the request's own stream. The client names another stream for standard error.
    """
    if message.errors == message.id or message.errors in connection.streams:
        raise UserError(f"the stream {message.errors} is in use", "name another for standard error")
    started = await connection.server.engine.sessions.run(connection.caller, message)
    connection.send_ok(message.id, started.opened)
    streams = [JobBytes(connection, number) for number in (message.id, message.errors)]
    try:
        sources = await started.outputs(connection.progress_of(message.id))
        for stream, source in zip(streams, sources, strict=True):
            await stream.start(source)
    except RemoteError as error:
        for stream in streams:
            stream.say_end(str(error), None)
    except BaseException:
        for stream in streams:
            stream.end()
        raise
