"""A small blocking client of the controller's socket for the command line.

It imports only the standard library, because the command line starts often.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections import deque
from collections.abc import Callable, Container, Iterator

from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck_agent.client.access import connect_path
from warpdeck_agent.wire.frames import (
    DATA_CHUNK_BYTES,
    HEADER_BYTES,
    MAX_REQUEST_BYTES,
    WireError,
    data_frame,
    json_frame,
)

from .away import Starter, wait_until_back, was_killed
from .wire_connection import AGAIN_S as AGAIN_S
from .wire_connection import ANSWER_S as ANSWER_S
from .wire_connection import (
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
from .wire_connection import ENDED as ENDED
from .wire_connection import GONE as GONE
from .wire_connection import LOST as LOST
from .wire_connection import STEPS as STEPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket as socket
    from typing import Any, Self, TypeVar

    from .wire_connection import Event, NumberedEvent

    _Asked = TypeVar("_Asked")
    _Answer = TypeVar("_Answer")

INTERRUPT_S = 0.5
"""Maximum seconds of one wait. Python handles a Ctrl-C that comes just before a wait only after it."""
_SHORTEN = "shorten the script, or pass fewer variables with --export=NONE"


class SyncClient:
    """One connection to the controller. Its calls raise UserError with the controller's message."""

    def __init__(self, link: socket.socket, paths: Paths | None = None) -> None:
        self._link = link
        self._wire = WireConnection(paths.daemon if paths is not None else CONTROLLER)
        self._aside: deque[NumberedEvent] = deque()
        self._passed_on: set[int] = set()
        self._paths = paths
        self.welcome: dict[str, Any] = {}

    @classmethod
    def connect(cls, paths: Paths, *, start: bool = True) -> Self:
        """Connect to the controller of this home directory and start one if none runs. Raises UserError."""
        starter = Starter(paths, start=start)
        while True:
            try:
                return cls._connected(paths)
            except UserError as error:
                time.sleep(starter.after(error))

    @classmethod
    def _connected(cls, paths: Paths) -> Self:
        """Connect to a running controller. Raises UserError, with the code GONE if no controller answers."""
        try:
            return cls.over(connect_path(paths.socket), paths)
        except OSError as error:
            raise connection_error(error, paths) from error

    @classmethod
    def over(cls, link: socket.socket, paths: Paths | None = None) -> Self:
        """Return a client that uses an open connection, to the daemon of that home directory. Raises UserError."""
        link.settimeout(ANSWER_S)
        client = cls(link, paths)
        try:
            client._greet()
        except BaseException:
            client.close()
            raise
        return client

    @classmethod
    def greeted(cls, link: socket.socket, welcome: dict[str, Any], paths: Paths | None = None) -> Self:
        """Return a client that uses a connection which was already greeted.

        With `paths` the client may reconnect to the controller of that home directory.
        """
        link.settimeout(ANSWER_S)
        client = cls(link, paths)
        client.welcome = welcome
        return client

    @property
    def daemon(self) -> str:
        """The name of the process at the other end, for messages: "controller" or "gateway"."""
        return self._wire.daemon

    def close(self) -> None:
        self._link.close()

    def detach(self) -> socket.socket:
        """Return the greeted connection for a caller that handles frames itself.

        No request was sent on it yet.
        """
        return self._link

    def duplicate(self) -> socket.socket:
        """Return another handle of the same connection, for a separate client.

        Use it only while this client has no request in progress.
        """
        import _socket

        return _socket.socket(fileno=os.dup(self._link.fileno()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fileno(self) -> int:
        """Return the file descriptor of the connection, for select."""
        return self._link.fileno()

    def call(
        self, kind: str, *, progress: Callable[[str], None] | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Send one request and return its answer."""
        number = self.begin(kind, **fields)
        parts: list[dict[str, Any]] = []
        while True:
            event = self._event((number,), ANSWER_S)
            if event is None:
                raise no_answer(self._wire.daemon)
            _, word, value = event
            if word == "ok":
                return join_rows(parts, value)
            if word == "rows":
                parts.append(value)
            elif word == "progress" and progress is not None:
                progress(value)

    def create(self, kind: str, nonce: str = "", **fields: Any) -> dict[str, Any]:
        """Send a request that creates something and return its answer.

        The request is repeated while the controller restarts. Its nonce prevents a second creation.
        """
        return self.again_until(lambda made: made, lambda made: self.call(kind, nonce=made, **fields), nonce)[
            1
        ]

    def repeat(self, ask: Callable[[], _Asked]) -> _Asked:
        """Run `ask`, which must be safe to repeat, and run it again while the controller restarts.

        Raises UserError.
        """
        return self.again_until(lambda _: ask(), lambda asked: asked)[0]

    def again_until(
        self, ask: Callable[[str], _Asked], answer: Callable[[_Asked], _Answer], nonce: str = ""
    ) -> tuple[_Asked, _Answer]:
        """Send a request with a nonce and wait for its answer. Raises UserError.

        Both are repeated while the controller restarts.
        """
        nonce, until = nonce or os.urandom(16).hex(), 0.0
        while True:
            try:
                asked = ask(nonce)
                return asked, answer(asked)
            except UserError as error:
                if error.code != GONE or self._paths is None:
                    raise
                until = until or time.monotonic() + AGAIN_S
                self._come_back(self._paths, until)

    def _come_back(self, paths: Paths, until: float) -> None:
        """Replace the lost connection.

        Raises UserError with the code GONE if no connection succeeds before `until`.
        """
        self._link.close()
        patience_s = until - time.monotonic()
        fresh = wait_until_back(
            lambda: SyncClient.connect(paths, start=was_killed(paths)),
            self._say,
            patience_s=patience_s,
            daemon=paths.daemon,
        )
        fresh._wire.replaces(self._wire)
        self._link, self._wire, self._aside = fresh._link, fresh._wire, fresh._aside
        self._passed_on.clear()

    def _say(self, line: str) -> None:
        """Print a line for the waiting user."""
        sys.stderr.write(f"{line}\n")

    def stream(self, kind: str, **fields: Any) -> Iterator[Event]:
        """Send a request and yield its events until the stream ends. Data is acknowledged automatically."""
        number = self.begin(kind, **fields)
        while True:
            for event in self.events(number):
                yield event
                if event[0] == "end":
                    return

    def begin(self, kind: str, **fields: Any) -> int:
        """Send a request and return its number, which is also the number of its stream."""
        number = self.number()
        self._send(_request_frame({"t": kind, "id": number, **fields}))
        return number

    def number(self) -> int:
        """Return a new number for a further stream of the next request."""
        return self._wire.number()

    def events(self, number: int, *, timeout_s: float | None = None) -> Iterator[Event]:
        """Yield the next event of that request if one comes in time.

        Raises UserError if the event is an error.
        """
        event = self._event((number,), timeout_s)
        if event is not None:
            yield event[1:]

    def any_event(self, numbers: Container[int]) -> NumberedEvent:
        """Return the next event of these requests as (request id, message type, value).

        Raises UserError if the event is an error.
        """
        event = self._event(numbers, None)
        assert event is not None
        return event

    def has_buffered(self, number: int) -> bool:
        """Return whether an event of that request may already be buffered, where select cannot see it."""
        return self._wire.is_buffered or any(event[0] == number for event in self._aside)

    def _event(self, numbers: Container[int], timeout_s: float | None) -> NumberedEvent | None:
        """Return the oldest event of these requests, or None if none comes in time.

        Events of other requests are kept.
        """
        for position, event in enumerate(self._aside):
            if event[0] in numbers:
                del self._aside[position]
                return self._deliver(event)
        while (received := self._next(timeout_s)) is not None:
            if received[0] in numbers or (received[0] == 0 and received[1] == "error"):
                return self._deliver(received)
            self._aside.append(received)
        return None

    def _deliver(self, event: NumberedEvent) -> NumberedEvent:
        number, word, value = event
        if word == "error":
            raise user_error(value)
        if word == "data" and number not in self._passed_on:
            self.acknowledge(number, len(value))
        return event

    def pass_on(self, number: int) -> None:
        """Leave acknowledgments of this stream to its reader.

        The reader sends them after it has passed the data on.
        """
        self._passed_on.add(number)

    def acknowledge(self, number: int, size: int) -> None:
        """Acknowledge `size` bytes of the stream."""
        self._send(json_frame({"t": "ack", "stream": number, "size": size}))

    def send_data(self, number: int, data: bytes) -> None:
        """Send bytes, such as keyboard input, on a stream."""
        self._send(data_frame(number, data))

    def tell(self, kind: str, **fields: Any) -> None:
        """Send a message that has no answer, such as resize or close."""
        self._send(json_frame({"t": kind, **fields}))

    def upload(self, kind: str, path: str, **fields: Any) -> None:
        """Send a file as the request's stream, within the window that the controller grants."""
        number = self.begin(kind, **fields)
        room = 0
        with open(path, "rb") as file:
            while chunk := file.read(DATA_CHUNK_BYTES):
                while room < len(chunk):
                    for word, value in self.events(number):
                        room += value["size"] if word == "ack" else 0
                room -= len(chunk)
                self.send_data(number, chunk)
        self.tell("end", stream=number)
        while True:
            for word, _ in self.events(number):
                if word == "ok":
                    return

    def _greet(self) -> None:
        self._send(hello("cli"))
        event = self._next(ANSWER_S)
        if event is None:
            raise no_answer(self._wire.daemon)
        self.welcome = welcome_of(event, self._wire.daemon)

    def _send(self, frame: bytes) -> None:
        try:
            self._link.sendall(frame)
        except (OSError, TimeoutError) as error:
            if refusal := self._refusal():
                raise refusal from error
            raise gone(self._wire.daemon) from error

    def _refusal(self) -> UserError | None:
        """Return the error that the controller sent before it closed the connection, or None."""
        try:
            self._link.settimeout(0.5)
            self._wire.feed(self._link.recv(1 << 16))
        except (OSError, UserError):
            pass  # The frames received before are still decoded.
        while (event := self._wire.next_event()) is not None:
            if event[1] == "error":
                return user_error(event[2])
        return None

    def _next(self, timeout_s: float | None) -> NumberedEvent | None:
        """Receive and return the next event, or None if none comes in time."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while (event := self._wire.next_event()) is None:
            left_s = INTERRUPT_S if deadline is None else deadline - time.monotonic()
            if not self._data_arrives(min(INTERRUPT_S, max(0.0, left_s))):
                if left_s <= INTERRUPT_S and deadline is not None:
                    return None
                continue
            try:
                data = self._link.recv(1 << 18)
            except TimeoutError:
                continue
            except OSError:
                data = b""
            if not data:
                raise gone(self._wire.daemon)
            self._wire.feed(data)
        return event

    def _data_arrives(self, wait_s: float) -> bool:
        """Return whether data, or the end of the connection, arrives within this time."""
        waiting = select.poll()
        waiting.register(self._link, select.POLLIN)
        return bool(waiting.poll(wait_s * 1000))


def _request_frame(message: dict[str, Any]) -> bytes:
    """Return the frame of a request. Raises UserError if the controller would not accept it."""
    try:
        frame = json_frame(message)
        frame[HEADER_BYTES:].decode()
    except UnicodeDecodeError as error:
        hint = "rename the file or folder, or remove the argument"
        raise UserError("a name or an argument is not UTF-8 text", hint) from error
    except WireError as error:
        raise UserError(f"the request is too large: {error}", _SHORTEN) from error
    if len(frame) > MAX_REQUEST_BYTES:
        size = f"{len(frame) / 2**20:.1f} MiB, over the limit of {MAX_REQUEST_BYTES >> 20} MiB"
        raise UserError(f"the request is {size}", _SHORTEN)
    return frame
