"""One client's connection to the socket.

It reads requests, answers them, and owns the client's streams and subscriptions.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import msgspec

from warpdeck._version import __version__
from warpdeck.base.errors import RESTART, UNCERTAIN, RemoteError, StoreError, UserError
from warpdeck.ports.caller import Caller, Principal, is_administrator
from warpdeck.ports.engine import Progress
from warpdeck.protocol import requests
from warpdeck_agent.wire import JSON, WireError, data_frame, split_data
from warpdeck_agent.wire.frames import (
    DATA_CHUNK_BYTES,
    HEADER_BYTES,
    MAX_REQUEST_BYTES,
    STREAM_WINDOW_BYTES,
    pack,
    parse_header,
)

from .quotas import check_streams
from .request_kinds import PAGED, STREAMS
from .services import Services

log = logging.getLogger("warpdeck.api")

HELLO_S = 10.0
STALL_S = 30.0
"""Seconds allowed for the next piece of a message that has begun. A slower client is disconnected."""
PIECE_BYTES = 16 * 1024
"""Size of a piece; even a slow link delivers this much within STALL_S."""
LEAVE_S = 10.0
"""Seconds that a client may take to read the rest of its answers after it closed its side.

It counts as connected during this time and is disconnected afterwards.
"""
MAX_REQUESTS_AT_ONCE = 64
"""Maximum number of one client's requests in progress. Further requests wait in its socket."""
MAX_LONG_ANSWERS = 4
"""Maximum number of one client's requests in progress that are answered in pages.

Each holds its list of rows until the client has read all.
"""
MAX_STREAMS = 64
"""Maximum number of one client's streams.

Streams may last forever, so a further one is refused and does not wait.
"""
OUTBOX_BYTES = 256 * 1024
"""Bytes of answers, plus one page, that a client may leave unread. Beyond this its next requests wait unprocessed.

All clients of one user together hold at most some hundred MiB.
"""

_DECODER = msgspec.json.Decoder(requests.ClientMessage)
_ENCODER = msgspec.json.Encoder()


class Connection:
    """A client's connection.

    `handle` returns the result of a request, or None if the request has opened a stream, and raises UserError.
    """

    def __init__(
        self,
        server: Services,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        caller: Caller,
        handle: Handler,
        *,
        beside: bool = False,
    ) -> None:
        self.server = server
        self._caller = caller
        self.beside = beside
        """Whether this is a second connection of a connected client, which needs no greeting."""
        self._reader = reader
        self._writer = writer
        self._writer.transport.set_write_buffer_limits(high=OUTBOX_BYTES)
        self._handle_request = handle
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._opening: set[int] = set()
        self._slots = asyncio.Semaphore(MAX_REQUESTS_AT_ONCE)
        self._page = asyncio.Lock()
        self._long_answers = asyncio.Semaphore(MAX_LONG_ANSWERS)
        self._unanswered: dict[int, Any] = {}
        """Requests by id that have no answer yet, and no entry in the audit log."""
        self._counted: set[asyncio.Task[None] | None] = set()
        """Tasks whose requests currently count toward the user's limit of concurrent requests."""
        self.streams: dict[int, ClientStream] = {}

    @property
    def caller(self) -> Caller:
        """The client, with its present rights. A process of a job has the rights of an ordinary user."""
        caller = self._caller
        if caller.process is not None:
            return caller
        who = self.server.engine.site.with_rights(caller.who)
        return caller if who is caller.who else msgspec.structs.replace(caller, who=who)

    @property
    def who(self) -> Principal:
        """The user of the client. Access to other users' jobs depends on this user's `admin` alone."""
        return self._caller.who

    async def run(self) -> None:
        """Serve the client until it disconnects or sends a malformed message."""
        try:
            if not self.beside and not await self._greet():
                return
            while not self._writer.is_closing():
                message = await self._read()
                if message is not None:
                    await self.drain()
                    await self._begin(message)
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError):
            return
        except WireError as error:
            said = f"this {self.server.paths.daemon} (warpdeck {__version__}) received an unexpected message: {error}"
            self.server.audit.malformed(self.caller, said)
            self.send_error(0, UserError(said, f"if the client's version differs, {RESTART}"))
        finally:
            self.close()

    async def _greet(self) -> bool:
        """Return whether the client speaks our protocol version.

        Raises WireError if its first message is not Hello.
        """
        async with asyncio.timeout(HELLO_S):
            hello = await self._read()
        if not isinstance(hello, requests.Hello):
            raise WireError("the first message must be hello")
        if hello.version != requests.API_VERSION:
            self.send_error(0, _other_version(hello.version, self.server.paths.daemon))
            return False
        self.send(self.welcome())
        return True

    def refuse(self, error: UserError) -> None:
        """Send an error and close the connection."""
        self.server.audit.refused_connection(self.caller, error)
        self.send_error(0, error)
        self._writer.close()

    def close(self) -> None:
        """End all streams and requests of this client and close the connection."""
        for stream in list(self.streams.values()):
            stream.end()
        for task in list(self._tasks.values()):
            task.cancel()
        self._writer.close()

    def send(self, message: dict[str, Any]) -> None:
        """Send one message, unless the connection is closing."""
        if not self._writer.is_closing():
            self._writer.write(pack(JSON, _ENCODER.encode(message)))

    def send_ok(self, number: int, result: Any) -> None:
        """Answer a request, or say that its stream is open. A change is recorded before."""
        self._record(number, result)
        self.send({"t": "ok", "id": number, "result": result})

    def _record(self, number: int, answer: object) -> None:
        message = self._unanswered.pop(number, None)
        if message is not None:
            self.server.audit.answered(self.caller, message, answer)

    def send_error(self, number: int, error: UserError) -> None:
        self._record(number, error)
        self.send(
            {
                "t": "error",
                "id": number,
                "message": error.message,
                "hint": error.hint,
                "code": error.code,
                "exit_code": error.exit_code,
                "details": error.details,
            }
        )

    def send_data(self, stream: int, data: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(data_frame(stream, data))

    @contextlib.asynccontextmanager
    async def page(self) -> AsyncIterator[None]:
        """Context in which a caller may build one page of a long answer.

        A client gets one page at a time, after it has read the earlier ones; access is shared fairly among
        users. While a request waits for its client to read, it does not count toward the user's limit of
        concurrent requests. Otherwise clients that stop reading would block the user's other clients.
        """
        task, of_user = asyncio.current_task(), self.server.quotas.requests(self.who.uid)
        counts = task in self._counted
        if counts:
            self._counted.discard(task)
            of_user.release()
        async with self._page:
            await self.drain()
            if counts:
                await of_user.acquire()
                self._counted.add(task)
            async with self.server.pages.slot(self.who.uid):
                yield

    @property
    def open_streams(self) -> int:
        """Number of streams that are open or being opened."""
        return len(self._opening | self.streams.keys())

    @property
    def subscriptions(self) -> int:
        """Number of subscriptions among the open streams."""
        return sum(stream.is_subscription for stream in self.streams.values())

    @property
    def unread_bytes(self) -> int:
        """Number of bytes sent that the client has not read yet."""
        return self._writer.transport.get_write_buffer_size()

    async def drain(self) -> None:
        """Wait until the client has read enough of its answers."""
        await self._writer.drain()

    async def progress(self, number: int, line: str) -> None:
        self.send({"t": "progress", "id": number, "line": line})

    def progress_of(self, number: int) -> Progress:
        """Return a function that sends lines of progress of this request."""
        return partial(self.progress, number)

    def welcome(self) -> dict[str, Any]:
        """Return the greeting: the identity of the controller, and the user that it sees at the other end."""
        return {
            "t": "welcome",
            "version": requests.API_VERSION,
            "warpdeck": __version__,
            "controller": self.server.engine.site.identity,
            "impossible": {
                action: reason for action, reason in self.server.engine.site.capabilities().items() if reason
            },
            "user": self.who.user,
            "uid": self.who.uid,
            "admin": is_administrator(self.caller.who),
            "level": self.caller.who.level,
        }

    async def _read(self) -> Any:
        """Return the next message. Stream data is delivered to its stream instead, and None is returned."""
        size_bytes, kind = parse_header(await self._reader.readexactly(HEADER_BYTES), MAX_REQUEST_BYTES)
        async with self.server.quotas.incoming(self.who.uid, size_bytes):
            payload = await self._payload(size_bytes)
        if kind != JSON:
            stream, data = split_data(payload)
            if stream in self.streams:
                await self.streams[stream].incoming(data)
            return None
        try:
            return _DECODER.decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise WireError(f"a request that is not understood: {error}") from error

    async def _payload(self, size_bytes: int) -> bytes:
        """Return the rest of a message. Raises WireError if its bytes stop arriving."""
        pieces = []
        for at in range(0, size_bytes, PIECE_BYTES):
            try:
                async with asyncio.timeout(STALL_S):
                    pieces.append(await self._reader.readexactly(min(PIECE_BYTES, size_bytes - at)))
            except TimeoutError as error:
                said = f"the rest of a message of {size_bytes:,} bytes did not come within {STALL_S:.0f} s"
                raise WireError(said) from error
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def _begin(self, message: Any) -> None:
        match message:
            case (
                requests.Ack()
                | requests.Resize()
                | requests.StepOrder()
                | requests.AwaitMore()
                | requests.FileRead()
            ):
                if message.stream in self.streams:
                    await _to_stream(self.streams[message.stream], message)
            case requests.Close(stream=stream) | requests.End(stream=stream):
                self._end_stream(stream, finished=isinstance(message, requests.End))
            case requests.Hello():
                raise WireError("hello was already sent")
            case _ if message.id in self._tasks or message.id in self.streams:
                raise WireError(f"the request id {message.id} is in use")
            case _ if isinstance(message, STREAMS):
                self._begin_stream(message)
            case _:
                await self._slots.acquire()
                self._start(message, lambda _: self._slots.release())

    def _begin_stream(self, message: Any) -> None:
        try:
            if self.open_streams >= MAX_STREAMS:
                raise UserError(f"{MAX_STREAMS} streams are already open", "close some of them")
            check_streams(
                self.server.of_user(self.who.uid), subscribes=isinstance(message, requests.Subscribe)
            )
        except UserError as error:
            self._unanswered[message.id] = message
            self.send_error(message.id, error)
            return
        self._opening.add(message.id)
        self._start(message, lambda _: self._opening.discard(message.id))

    def _start(self, message: Any, done: Callable[[asyncio.Task[None]], None]) -> None:
        task = asyncio.get_running_loop().create_task(self._answer(message))
        self._tasks[message.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(message.id))
        task.add_done_callback(done)

    def _end_stream(self, number: int, *, finished: bool) -> None:
        stream = self.streams.get(number)
        if stream is not None:
            stream.end(finished=finished)
        elif number in self._tasks:
            self._tasks[number].cancel()

    async def _answer(self, message: Any) -> None:
        await self.server.loop_time.metered(self.who.uid, self._work(message))

    async def _work(self, message: Any) -> None:
        self._unanswered[message.id] = message
        try:
            while self.unread_bytes > OUTBOX_BYTES:
                await self.drain()
            begun = asyncio.get_running_loop().time()
            result = await self._handle(message)
            if result is not None:
                self.send_ok(message.id, result)
                took_s = asyncio.get_running_loop().time() - begun
                kind = str(message.__struct_config__.tag)
                self.server.engine.site.count_request(kind, self.who.user, took_s)
        except UserError as error:
            self.send_error(message.id, error)
        except (RemoteError, StoreError) as error:
            self.send_error(
                message.id, UserError(str(error), f"try again; see the {self.server.paths.daemon}'s log")
            )
        except WireError as error:
            failed = UserError(f"cannot send the answer: {error}", "request less data", code=UNCERTAIN)
            self.send_error(message.id, failed)
        except ConnectionError:
            log.info("a client of %s left before it had read its answers", self.who.user)
        except Exception:
            log.exception("a bug in %s", type(message).__name__)
            hint = f"the request may still have taken effect; see {self.server.paths.log}"
            failed = UserError(f"an error inside the {self.server.paths.daemon}", hint, code=UNCERTAIN)
            self.send_error(message.id, failed)
        except asyncio.CancelledError:
            self._record(message.id, None)
            raise
        finally:
            self._unanswered.pop(message.id, None)

    async def _handle(self, message: Any) -> Any:
        """Return the answer to a message.

        A request counts toward the user's limit meanwhile; a stream counts separately.
        """
        if isinstance(message, STREAMS):
            return await self._handle_request(self, message)
        if isinstance(message, PAGED):
            async with self._long_answers:
                return await self._handle_counted(message)
        return await self._handle_counted(message)

    async def _handle_counted(self, message: Any) -> Any:
        task, of_user = asyncio.current_task(), self.server.quotas.requests(self.who.uid)
        await of_user.acquire()
        self._counted.add(task)
        try:
            return await self._handle_request(self, message)
        finally:
            if task in self._counted:
                self._counted.discard(task)
                of_user.release()

    async def closed(self) -> None:
        """Return when the client has received all data, or after LEAVE_S; then the rest is dropped."""
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await self._writer.wait_closed()
        self._writer.transport.abort()


def _other_version(version: int, daemon: str) -> UserError:
    return UserError(
        f"this {daemon} (warpdeck {__version__}) speaks protocol {requests.API_VERSION}, the client {version}",
        RESTART,
    )


Handler = Callable[[Connection, Any], Awaitable[Any]]
"""Returns the result of a request, or None if the request has opened a stream. Raises UserError."""


class ClientStream:
    """A byte stream with one client and its flow-control window.

    Subclasses in streams.py interpret the bytes.
    """

    is_subscription = False

    def __init__(self, connection: Connection, number: int) -> None:
        self.connection = connection
        self.number = number
        self._window = STREAM_WINDOW_BYTES
        self._room = asyncio.Event()
        connection.streams[number] = self

    @property
    def is_open(self) -> bool:
        """Whether neither side has ended the stream."""
        return self.connection.streams.get(self.number) is self

    async def send(self, data: bytes) -> None:
        """Send bytes to the client and wait for its acknowledgments.

        A client that stops reading sends no acknowledgment and therefore receives no further data.
        """
        for start in range(0, len(data), DATA_CHUNK_BYTES):
            chunk = data[start : start + DATA_CHUNK_BYTES]
            while self._window <= 0 and self.is_open:
                self._room.clear()
                await self._room.wait()
            if not self.is_open:
                return
            self._window -= len(chunk)
            self.connection.send_data(self.number, chunk)
        await self.connection.drain()

    def acknowledge(self, size: int) -> None:
        self._window += size
        self._room.set()

    def say_end(self, error: str, ended: dict[str, int] | None, *, code: str = "") -> None:
        """Send the last message of the stream."""
        if self.connection.streams.pop(self.number, None) is not None:
            self.connection.send(
                {"t": "end", "stream": self.number, "error": error, "code": code, "exit": ended}
            )

    async def incoming(self, data: bytes) -> None:
        """Handle bytes from the client."""

    async def resize(self, rows: int, cols: int) -> None:
        """Handle a new size of the client's terminal."""

    async def order(self, order: requests.StepOrder) -> None:
        """Handle an order from srun for its running step."""

    def more(self, message: requests.AwaitMore) -> None:
        """Add further submissions to wait for."""

    async def file(self, message: requests.FileRead) -> None:
        """Handle the result of reading a file on the caller's side for a command."""

    def end(self, *, finished: bool = False) -> None:
        """End the stream at the client's request. `finished` marks an upload as complete."""
        if self.is_open:
            del self.connection.streams[self.number]
        self._room.set()


async def _to_stream(stream: ClientStream, message: Any) -> None:
    """Pass a message about an open stream to it."""
    match message:
        case requests.Ack():
            stream.acknowledge(message.size)
        case requests.Resize():
            await stream.resize(message.rows, message.cols)
        case requests.StepOrder():
            await stream.order(message)
        case requests.AwaitMore():
            stream.more(message)
        case requests.FileRead():
            await stream.file(message)
