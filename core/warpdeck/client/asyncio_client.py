"""The asyncio client of the controller's socket, with typed answers. The app uses it, and any program may.

    async with await AsyncioClient.connect(default_paths()) as client:
        found = await client.ask(requests.Jobs())
        for row in found.jobs:
            print(row.label, row.state)

`ask` sends any request of the protocol and returns the result that its class declares.

One connection carries everything. Requests may overlap, and each stream (a log, the subscription) has its own
inbox. One reader task sorts frames into the inboxes. A log's inbox is bounded by the protocol's window. The
subscription's inbox is bounded because deltas that were not taken yet are merged. So a slow reader of one
stream delays no other stream.

This client sends no request twice. Use blocking_client.SyncClient.create for requests that create something: it repeats
the request if the answer was lost.

Every call raises UserError, either with the controller's message or with the code GONE if the connection is
lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import AsyncGenerator, Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

from warpdeck.base.errors import RESTART, UserError
from warpdeck.base.paths import Paths
from warpdeck.protocol import requests
from warpdeck.protocol.request_base import Message, RequestMessage, result_type
from warpdeck.protocol.results import Delta, LogOpened, Welcome
from warpdeck_agent.wire.frames import JSON, pack

from .away import Starter
from .inbox import Inbox, Merged
from .wire_connection import (
    ANSWER_S,
    CONTROLLER,
    WireConnection,
    connection_error,
    gone,
    hello,
    join_rows,
    no_answer,
    user_error,
    welcome_of,
)
from .wire_connection import GONE as GONE
from .wire_connection import LOST as LOST

if TYPE_CHECKING:
    from .wire_connection import Event

T = TypeVar("T")
TOPICS = ("jobs", "nodes")
READ_BYTES = 256 * 1024
Progress = Callable[[str], None]


class AsyncioClient:
    """A connection to the controller.

    Create it with `connect`; end it with `close` or use it in `async with`.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, daemon: str = CONTROLLER
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._wire = WireConnection(daemon)
        self._inboxes: dict[int, Inbox] = {}
        self._gone: UserError | None = None
        self._pump: asyncio.Task[None] | None = None
        self.welcome = Welcome()

    @classmethod
    async def connect(cls, paths: Paths, *, start: bool = True, name: str = "client") -> AsyncioClient:
        """Connect to the controller of this home directory. Raises UserError.

        If no controller runs and `start` is true, one is started.
        """
        starter = Starter(paths, start=start)
        while True:
            try:
                return await cls._connected(paths, name)
            except UserError as error:
                wait_s = await asyncio.to_thread(starter.after, error)
            await asyncio.sleep(wait_s)

    @classmethod
    async def _connected(cls, paths: Paths, name: str) -> AsyncioClient:
        """Connect to a running controller. Raises UserError, with the code GONE if no controller answers."""
        from warpdeck.base.controller_daemon import connect_socket

        try:
            link = connect_socket(paths)
        except OSError as error:
            raise connection_error(error, paths) from error
        client = cls(*await asyncio.open_unix_connection(sock=link), daemon=paths.daemon)
        try:
            async with asyncio.timeout(ANSWER_S):
                await client._greet(name)
        except BaseException:
            await client.close()
            raise
        return client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def lost(self) -> bool:
        """Whether the connection has ended. From then on every call fails."""
        return self._gone is not None

    async def close(self) -> None:
        """End the connection. Every call that still waits for an answer fails with the code GONE."""
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.wait([self._pump])
        self._fail(gone(self._wire.daemon))
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    # ---- requests

    async def ask(self, request: RequestMessage[T], *, progress: Progress | None = None) -> T:
        """Send one request and return its result with all pages joined. Raises UserError.

        `progress` is called for each line that the controller sends before the answer.
        """
        number, inbox = await self.begin(request, Inbox())
        parts: list[dict[str, Any]] = []
        try:
            while True:
                word, value = await _in_time(inbox)
                if word == "ok":
                    return _convert(join_rows(parts, value), result_type(type(request)))
                if word == "rows":
                    parts.append(value)
                elif word == "progress" and progress is not None:
                    progress(str(value))
        except TimeoutError as error:
            raise no_answer(self._wire.daemon) from error
        finally:
            self._inboxes.pop(number, None)

    # ---- streams

    async def subscribe(
        self, *, finished_s: float = 3600.0, user: str | None = None, topics: Sequence[str] = TOPICS
    ) -> AsyncGenerator[Delta, None]:
        """Yield all rows, then changes as they happen.

        Changes are merged until the caller asks for the next delta.

        Close the iterator to end the subscription.
        """
        wanted = requests.Subscribe(finished_s=finished_s, user=user, topics=tuple(topics))
        number, inbox = await self.begin(wanted, Merged())
        try:
            while True:
                word, value = await inbox.get()
                if word == "delta":
                    yield _convert(value, Delta)
        finally:
            await self.forget(number)

    def log(
        self,
        job: str,
        *,
        channel: str = "out",
        offset: int = 0,
        follow: bool = False,
        node: str = "",
        progress: Progress | None = None,
    ) -> LogReader:
        """Return a job's output as a stream that can follow the file as it grows.

        Example: `async with client.log("12", follow=True) as log: async for chunk in log: ...`
        """
        wanted = requests.Log(job=job, channel=channel, offset=offset, follow=follow, node=node)
        return LogReader(self, wanted, progress)

    # ---- the connection

    async def _greet(self, name: str) -> None:
        try:
            self._writer.write(hello(name))
            await self._writer.drain()
            while (event := self._wire.next_event()) is None:
                await self._receive()
        except OSError as error:
            raise gone(self._wire.daemon) from error
        self.welcome = _convert(welcome_of(event, self._wire.daemon), Welcome)
        self._pump = asyncio.get_running_loop().create_task(self._read())

    async def _receive(self) -> None:
        """Receive some bytes. Raises UserError if the connection has ended."""
        data = await self._reader.read(READ_BYTES)
        if not data:
            raise gone(self._wire.daemon)
        self._wire.feed(data)

    async def _read(self) -> None:
        """Sort events into inboxes until the connection ends."""
        try:
            while True:
                while (event := self._wire.next_event()) is not None:
                    number, word, value = event
                    if word == "error" and number == 0:
                        raise user_error(value)
                    if number in self._inboxes:  # Otherwise the caller has abandoned the request.
                        self._inboxes[number].put((word, value))
                await self._receive()
        except OSError:
            self._fail(gone(self._wire.daemon))
        except UserError as error:
            self._fail(error)

    def _fail(self, error: UserError) -> None:
        self._gone = self._gone or error
        for inbox in self._inboxes.values():
            inbox.fail(self._gone)

    async def begin(self, message: Message, inbox: Inbox) -> tuple[int, Inbox]:
        """Send a request. Its answers go to `inbox` until `forget` is called. Raises UserError."""
        if self._gone is not None:
            raise self._gone
        number = self._wire.number()
        self._inboxes[number] = inbox
        try:
            await self.send(msgspec.structs.replace(message, id=number))
        except BaseException:
            del self._inboxes[number]
            raise
        return number, inbox

    async def forget(self, number: int) -> None:
        """End that request or stream from the client's side."""
        self._inboxes.pop(number, None)
        if self._gone is None:
            await self.send(requests.Close(stream=number))

    async def send(self, message: Message) -> None:
        """Send a message without registering an inbox for an answer. Raises UserError."""
        try:
            self._writer.write(pack(JSON, msgspec.json.encode(message)))
            await self._writer.drain()
        except OSError as error:
            raise gone(self._wire.daemon) from error

    def acknowledge(self, number: int, size: int) -> None:
        """Acknowledge `size` bytes of the stream, unless the connection has ended."""
        if not self._writer.is_closing():
            self._writer.write(pack(JSON, msgspec.json.encode(requests.Ack(stream=number, size=size))))


class LogReader:
    """A log that is being read.

    The iterator acknowledges a chunk when the caller asks for the next one. So a slow reader slows only this
    log.
    """

    def __init__(self, client: AsyncioClient, message: requests.Log, progress: Progress | None) -> None:
        self._client = client
        self._message = message
        self._progress = progress
        self._number = 0
        self._inbox = Inbox()
        self.opened = LogOpened()
        self.on_opened: Callable[[LogOpened], None] | None = None
        """Called as soon as the log's length is known.

        An empty log yields no chunk, so this is its only signal.
        """
        self.exit: tuple[int, int] | None = None
        """(exit code, signal) of the job, set when the stream ended together with the job."""

    async def __aenter__(self) -> LogReader:
        self._number, self._inbox = await self._client.begin(self._message, self._inbox)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(UserError):
            await self._client.forget(self._number)

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        """Yield the chunks of the log. Raises UserError if the log cannot be read to its end."""
        while True:
            word, value = await self._inbox.get()
            if word == "data":
                yield value
                self._client.acknowledge(self._number, len(value))
            elif word == "ok":
                self.opened = _convert(value, LogOpened)
                if self.on_opened is not None:
                    self.on_opened(self.opened)
            elif word == "progress" and self._progress is not None:
                self._progress(str(value))
            elif word == "end":
                self._end(value)
                return

    def _end(self, item: dict[str, Any]) -> None:
        if item.get("error"):
            raise UserError(str(item["error"]), "open the log again", code=str(item.get("code", "")))
        ended = item.get("exit")
        if ended:
            self.exit = (int(ended["code"]), int(ended["signal"]))


async def _in_time(inbox: Inbox) -> Event:
    """Return the next event of an inbox. Raises TimeoutError after ANSWER_S.

    A canceled timer stays in the event loop until its time. It is therefore made in an empty context.
    Otherwise it would keep alive all objects that the caller's context holds, such as a screen that was
    closed.
    """
    async with asyncio.timeout(None) as limit:
        contextvars.Context().run(limit.reschedule, asyncio.get_running_loop().time() + ANSWER_S)
        return await inbox.get()


def _convert(value: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise UserError(f"unexpected answer: {error}", f"if its version differs, {RESTART}") from error
