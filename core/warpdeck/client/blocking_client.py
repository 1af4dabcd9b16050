"""A small blocking client of the controller's socket for the command line.

It imports only the standard library, because the command line starts often.
"""

from __future__ import annotations

import itertools
import os
import select
import sys
import time
from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence

from warpdeck.base.errors import RESTART, UserError
from warpdeck.base.paths import Paths
from warpdeck_agent.client.access import connect_path
from warpdeck_agent.wire.frames import (
    DATA_CHUNK_BYTES,
    HEADER_BYTES,
    JSON,
    MAX_REQUEST_BYTES,
    FrameDecoder,
    WireError,
    data_frame,
    json_frame,
    parse_json,
    split_data,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket as socket
    from typing import Any, Self, TypeVar

    _Asked = TypeVar("_Asked")
    _Answer = TypeVar("_Answer")
    Event = tuple[str, Any]
    """("progress", line), ("rows", part), ("ok", result), ("data", bytes), ("end", message), ("delta", message)"""

VERSION = 1
"""Same as protocol.API_VERSION. It is repeated here because importing that module imports msgspec."""
ANSWER_S = 120.0
"""Seconds to wait for an answer before the controller counts as stuck."""

AGAIN_S = 120.0
"""Seconds during which a request is repeated while the controller is away."""
AGAIN_EVERY_S = 0.2
TOLD_AFTER_S = 1.0
"""Seconds of waiting before the user is told that the client waits for the controller."""
GONE = "gone"
"""Code of the UserError for a lost connection."""
LOST = "lost"
"""Same as protocol.LOST."""
ENDED = "ended"
"""Same as protocol.ENDED."""
_SHORTEN = "shorten the script, or pass less of the environment: --export=NONE"
_VALUE_OF = {"ok": "result", "progress": "line", "rows": "part"}


class SyncClient:
    """One connection to the controller. Its calls raise UserError with the controller's message."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._decoder = FrameDecoder()
        self._frames: deque[tuple[int, bytes]] = deque()
        self._aside: deque[tuple[int, str, Any]] = deque()
        self._ids = itertools.count(1)
        self._passed_on: set[int] = set()
        self._paths: Paths | None = None
        self.welcome: dict[str, Any] = {}

    @classmethod
    def connect(cls, paths: Paths, *, start: bool = True) -> Self:
        """Connect to the controller of this home directory and start one if none runs. Raises UserError."""
        until = time.monotonic() + AGAIN_S
        while True:
            try:
                return cls._connected(paths)
            except UserError as error:
                if error.code != GONE or not start or time.monotonic() > until:
                    raise
            from warpdeck.base.controller_daemon import ensure_running

            if not ensure_running(paths):
                time.sleep(AGAIN_EVERY_S)

    @classmethod
    def _connected(cls, paths: Paths) -> Self:
        """Connect to a running controller. Raises UserError, with the code GONE if no controller answers."""
        try:
            client = cls.over(connect_path(paths.socket))
        except PermissionError as error:
            raise UserError(
                f"the controller in {paths.home} is not yours", "set WARPDECK_HOME to your own"
            ) from error
        except OSError as error:
            raise UserError("no controller is running", "start it with `warpdeck up`", code=GONE) from error
        client._paths = paths
        return client

    @classmethod
    def over(cls, link: socket.socket) -> Self:
        """Return a client that uses an open connection. Raises UserError."""
        link.settimeout(ANSWER_S)
        client = cls(link)
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
        client = cls(link)
        client._paths = paths
        client.welcome = welcome
        return client

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
                raise _no_answer()
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
        told_at = time.monotonic() + TOLD_AFTER_S
        while True:
            try:
                fresh = SyncClient.over(connect_path(paths.socket))
            except (OSError, UserError) as error:
                if isinstance(error, UserError) and error.code != GONE:
                    raise
                if time.monotonic() > until:
                    raise _gone() from error
                if time.monotonic() > told_at:
                    self._say("waiting for the controller")
                    told_at = until + 1
                time.sleep(AGAIN_EVERY_S)
            else:
                self._link, self._decoder = fresh._link, fresh._decoder
                self._frames, self._aside = fresh._frames, fresh._aside
                self._passed_on.clear()
                return

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
        number = next(self._ids)
        self._send(_request_frame({"t": kind, "id": number, **fields}))
        return number

    def number(self) -> int:
        """Return a new number for a further stream of the next request."""
        return next(self._ids)

    def events(self, number: int, *, timeout_s: float | None = None) -> Iterator[Event]:
        """Yield the next event of that request if one comes in time.

        Raises UserError if the event is an error.
        """
        event = self._event((number,), timeout_s)
        if event is not None:
            yield event[1:]

    def any_event(self, numbers: Container[int]) -> tuple[int, str, Any]:
        """Return the next event of these requests as (request id, message type, value).

        Raises UserError if the event is an error.
        """
        event = self._event(numbers, None)
        assert event is not None
        return event

    def has_buffered(self, number: int) -> bool:
        """Return whether an event of that request may already be buffered, where select cannot see it."""
        return bool(self._frames) or any(event[0] == number for event in self._aside)

    def _event(self, numbers: Container[int], timeout_s: float | None) -> tuple[int, str, Any] | None:
        """Return the oldest event of these requests, or None if none comes in time.

        Events of other requests are kept.
        """
        for position, event in enumerate(self._aside):
            if event[0] in numbers:
                del self._aside[position]
                return self._deliver(event)
        while (frame := self._next(timeout_s)) is not None:
            event = _sort(frame)
            if event[0] in numbers or (event[0] == 0 and event[1] == "error"):
                return self._deliver(event)
            self._aside.append(event)
        return None

    def _deliver(self, event: tuple[int, str, Any]) -> tuple[int, str, Any]:
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
        self._send(json_frame({"t": "hello", "version": VERSION, "client": "cli"}))
        frame = self._next(ANSWER_S)
        if frame is None:
            raise _no_answer()
        self.welcome = _parse(frame[1])
        if self.welcome["t"] == "error":
            raise user_error(self.welcome)

    def _send(self, frame: bytes) -> None:
        try:
            self._link.sendall(frame)
        except (OSError, TimeoutError) as error:
            frames = self._drain()
            for kind, payload in frames:
                if kind == JSON and _parse(payload)["t"] == "error":
                    raise user_error(_parse(payload)) from error
            raise _gone() from error

    def _drain(self) -> list[tuple[int, bytes]]:
        found = list(self._frames)
        try:
            self._link.settimeout(0.5)
            found += list(self._decoder.feed(self._link.recv(1 << 16)))
        except (OSError, WireError):
            return found
        return found

    def _next(self, timeout_s: float | None) -> tuple[int, bytes] | None:
        while not self._frames:
            if timeout_s is not None and not select.select([self._link], [], [], timeout_s)[0]:
                return None
            try:
                data = self._link.recv(1 << 18)
            except TimeoutError:
                continue
            except OSError:
                data = b""
            if not data:
                raise _gone()
            try:
                self._frames.extend(self._decoder.feed(data))
            except WireError as error:
                raise _strange(error) from error
        return self._frames.popleft()


def _request_frame(message: dict[str, Any]) -> bytes:
    """Return the frame of a request. Raises UserError if the controller would not accept it."""
    try:
        frame = json_frame(message)
        frame[HEADER_BYTES:].decode()
    except UnicodeDecodeError as error:
        hint = "rename the file or folder, or leave the argument out"
        raise UserError("a name or an argument is not UTF-8 text", hint) from error
    except WireError as error:
        raise UserError(f"the request is too large: {error}", _SHORTEN) from error
    if len(frame) > MAX_REQUEST_BYTES:
        size = f"{len(frame) / 2**20:.1f} MiB, over the limit of {MAX_REQUEST_BYTES >> 20} MiB"
        raise UserError(f"the request is {size}", _SHORTEN)
    return frame


def _sort(frame: tuple[int, bytes]) -> tuple[int, str, Any]:
    """Return a frame's request id, message type and value."""
    kind, payload = frame
    if kind != JSON:
        stream, data = split_data(payload)
        return stream, "data", data
    message = _parse(payload)
    word = message["t"]
    return message.get("stream", message.get("id", 0)), word, message.get(_VALUE_OF.get(word, ""), message)


def _parse(payload: bytes) -> dict[str, Any]:
    try:
        return parse_json(payload)
    except WireError as error:
        raise _strange(error) from error


def _gone() -> UserError:
    return UserError(
        "connection to the controller lost", "try again, or check it with `warpdeck status`", code=GONE
    )


def _no_answer() -> UserError:
    return UserError("no answer from the controller", "see its log; `warpdeck status` prints the path")


def _strange(error: WireError) -> UserError:
    return UserError(f"unexpected message from the controller: {error}", f"if its version differs, {RESTART}")


def join_rows(parts: Sequence[dict[str, Any]], result: dict[str, Any]) -> dict[str, Any]:
    """Return an answer with the rows of its earlier pages prepended."""
    joined = dict(result)
    for part in reversed(parts):
        for key, rows in part.items():
            joined[key] = [*rows, *joined[key]]
    return joined


def user_error(message: dict[str, Any]) -> UserError:
    """Return the UserError that an error message describes."""
    return UserError(
        str(message.get("message", "")),
        str(message.get("hint", "")),
        exit_code=int(message.get("exit_code", 1)),
        code=str(message.get("code", "")),
        details={str(key): str(value) for key, value in (message.get("details") or {}).items()},
    )


STEPS = "steps"
"""Code of the error that tells srun to use a job step, which is needed for several tasks."""
