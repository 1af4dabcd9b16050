"""A small blocking client of the controller's socket, for the command line: standard library only, because it starts often."""

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
if TYPE_CHECKING:  # not typing's own: a verb takes longer to import it than the controller to answer
    import _socket as socket
    from typing import Any, Self, TypeVar

    _Asked = TypeVar("_Asked")
    _Answer = TypeVar("_Answer")
    Event = tuple[str, Any]
    """("progress", line), ("rows", part), ("ok", result), ("data", bytes), ("end", message), ("delta", message)"""

VERSION = 1
"""protocol.API_VERSION; repeated because importing that costs msgspec."""
ANSWER_S = 120.0
"""How long an answer may take before the controller is called stuck."""

AGAIN_S = 120.0
"""How long a request that creates something is sent again while the controller is away."""
AGAIN_EVERY_S = 0.2
TOLD_AFTER_S = 1.0
"""So long nothing is said of waiting."""
GONE = "gone"
"""The code of the UserError that tells of a lost connection."""
LOST = "lost"
"""protocol.LOST"""
ENDED = "ended"
"""protocol.ENDED"""
_SHORTEN = "shorten the script, or pass less of the environment: --export=NONE"
_VALUE_OF = {"ok": "result", "progress": "line", "rows": "part"}


class SyncClient:
    """One connection. Calls raise UserError with what the controller said."""

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
        """Connects to the home's controller, starting one if none runs. Raises UserError."""
        until = time.monotonic() + AGAIN_S
        while True:
            try:
                return cls._connected(paths)
            except UserError as error:
                if error.code != GONE or not start or time.monotonic() > until:
                    raise
            from warpdeck.base.controller_daemon import ensure_running

            if not ensure_running(paths):
                time.sleep(
                    AGAIN_EVERY_S
                )  # it was killed while it greeted us, and somebody else has started it since

    @classmethod
    def _connected(cls, paths: Paths) -> Self:
        """Raises UserError, with the code GONE where no controller answers."""
        try:
            client = cls.over(connect_path(paths.socket))
        except PermissionError as error:
            raise UserError(
                f"the controller in {paths.home} is not yours", "set WARPDECK_HOME to your own"
            ) from error
        except OSError as error:
            raise UserError("no controller runs", "start it: warpdeck up", code=GONE) from error
        client._paths = paths
        return client

    @classmethod
    def over(cls, link: socket.socket) -> Self:
        """A client on a connection that is there. Raises UserError."""
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
        """A client on a connection that was greeted already. `paths`: of the home to whose controller it may come back."""
        link.settimeout(ANSWER_S)
        client = cls(link)
        client._paths = paths
        client.welcome = welcome
        return client

    def close(self) -> None:
        self._link.close()

    def detach(self) -> socket.socket:
        """The greeted connection itself, for who speaks frames; nothing was asked on it yet."""
        return self._link

    def duplicate(self) -> socket.socket:
        """Another handle of the same connection: for a client of its own, while nothing is asked on this one."""
        import _socket

        return _socket.socket(fileno=os.dup(self._link.fileno()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fileno(self) -> int:
        """For select."""
        return self._link.fileno()

    def call(
        self, kind: str, *, progress: Callable[[str], None] | None = None, **fields: Any
    ) -> dict[str, Any]:
        """One request, one answer."""
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
        """A request that creates something. It is sent again, and creates nothing twice, while the controller is started anew."""
        return self.again_until(lambda made: made, lambda made: self.call(kind, nonce=made, **fields), nonce)[
            1
        ]

    def repeat(self, ask: Callable[[], _Asked]) -> _Asked:
        """Does what may be done twice, and again while the controller is started anew. Raises UserError."""
        return self.again_until(lambda _: ask(), lambda asked: asked)[0]

    def again_until(
        self, ask: Callable[[str], _Asked], answer: Callable[[_Asked], _Answer], nonce: str = ""
    ) -> tuple[_Asked, _Answer]:
        """Asks with a nonce, and waits for the answer; both again while the controller is started anew. Raises UserError."""
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
        """A connection in place of the one that was lost. Raises UserError with the code GONE when none was made by then."""
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
        """For whoever waits."""
        sys.stderr.write(f"{line}\n")

    def stream(self, kind: str, **fields: Any) -> Iterator[Event]:
        """Sends a request and yields what comes of it until the stream ends; acknowledges data itself."""
        number = self.begin(kind, **fields)
        while True:
            for event in self.events(number):
                yield event
                if event[0] == "end":
                    return

    def begin(self, kind: str, **fields: Any) -> int:
        """Sends a request; its number is also its stream's."""
        number = next(self._ids)
        self._send(_request_frame({"t": kind, "id": number, **fields}))
        return number

    def number(self) -> int:
        """One for a further stream of the next request."""
        return next(self._ids)

    def events(self, number: int, *, timeout_s: float | None = None) -> Iterator[Event]:
        """The next event of that request, if one comes in time. Raises UserError for its error."""
        event = self._event((number,), timeout_s)
        if event is not None:
            yield event[1:]

    def any_event(self, numbers: Container[int]) -> tuple[int, str, Any]:
        """The next event of any of these requests, as (request, word, value). Raises UserError for its error."""
        event = self._event(numbers, None)
        assert event is not None
        return event

    def has_buffered(self, number: int) -> bool:
        """Whether something for that request may have been read already, where select cannot see it."""
        return bool(self._frames) or any(event[0] == number for event in self._aside)

    def _event(self, numbers: Container[int], timeout_s: float | None) -> tuple[int, str, Any] | None:
        """The oldest event of these requests; what others get meanwhile is set aside. None: nothing came in time."""
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
        """The reader of this stream acknowledges by itself what it has passed on."""
        self._passed_on.add(number)

    def acknowledge(self, number: int, size: int) -> None:
        """So many bytes of the stream were taken."""
        self._send(json_frame({"t": "ack", "stream": number, "size": size}))

    def send_data(self, number: int, data: bytes) -> None:
        """Bytes on a stream: keyboard input."""
        self._send(data_frame(number, data))

    def tell(self, kind: str, **fields: Any) -> None:
        """A message without an answer: resize, close."""
        self._send(json_frame({"t": kind, **fields}))

    def upload(self, kind: str, path: str, **fields: Any) -> None:
        """Sends a file as the request's stream, within the window that the controller grants."""
        number = self.begin(kind, **fields)
        room = 0  # the first ack grants the window
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
            # It may have said why before it hung up.
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
    """The frame of a request. Raises UserError for one that the controller would not take."""
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
    """(request, word, value) of a frame."""
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
    return UserError("the controller went away", "try again; `warpdeck status` tells how it is", code=GONE)


def _no_answer() -> UserError:
    return UserError("the controller gave no answer", "see its log: warpdeck status")


def _strange(error: WireError) -> UserError:
    return UserError(
        f"the controller said something strange: {error}", f"if it is of another version, {RESTART}"
    )


def join_rows(parts: Sequence[dict[str, Any]], result: dict[str, Any]) -> dict[str, Any]:
    """An answer whose first rows came as pages before it."""
    joined = dict(result)
    for part in reversed(parts):
        for key, rows in part.items():
            joined[key] = [*rows, *joined[key]]
    return joined


def user_error(message: dict[str, Any]) -> UserError:
    """The error that an error message carries."""
    return UserError(
        str(message.get("message", "")),
        str(message.get("hint", "")),
        exit_code=int(message.get("exit_code", 1)),
        code=str(message.get("code", "")),
        details={str(key): str(value) for key, value in (message.get("details") or {}).items()},
    )


STEPS = "steps"
"""The code of the error that sends to srun what only a step can be: several tasks."""
