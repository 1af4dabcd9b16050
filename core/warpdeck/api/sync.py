"""A small blocking client of the controller's socket, for the command line: standard library only, because it starts often."""

from __future__ import annotations

import itertools
import select
import socket
from collections import deque
from collections.abc import Callable, Container, Iterator
from typing import Any

from warpdeck.errors import UserError
from warpdeck.paths import Paths
from warpdeck_agent.wire.frames import (
    DATA_CHUNK_BYTES,
    JSON,
    FrameDecoder,
    WireError,
    data_frame,
    json_frame,
    parse_json,
    split_data,
)

VERSION = 1
"""protocol.API_VERSION; repeated because importing that costs msgspec."""
ANSWER_S = 120.0
"""How long an answer may take before the controller is called stuck."""

Event = tuple[str, Any]
"""("progress", line), ("ok", result), ("data", bytes), ("end", message), ("delta", message)"""


class SyncClient:
    """One connection. Calls raise UserError with what the controller said."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._decoder = FrameDecoder()
        self._frames: deque[tuple[int, bytes]] = deque()
        self._ids = itertools.count(1)
        self.welcome: dict[str, Any] = {}

    @classmethod
    def connect(cls, paths: Paths, *, start: bool = True) -> SyncClient:
        """Connects to the home's controller, starting one if none runs. Raises UserError."""
        from warpdeck.controller.daemon import connect_socket, ensure_running

        try:
            link = connect_socket(paths)
        except PermissionError as error:
            raise UserError(
                f"the controller in {paths.home} is not yours", "set WARPDECK_HOME to your own"
            ) from error
        except OSError as error:
            if not start:
                raise UserError("no controller runs", "start it: warpdeck up") from error
            ensure_running(paths)
            link = connect_socket(paths)
        link.settimeout(ANSWER_S)
        client = cls(link)
        client._greet()
        return client

    def close(self) -> None:
        self._link.close()

    def fileno(self) -> int:
        """For select."""
        return self._link.fileno()

    def call(
        self, kind: str, *, progress: Callable[[str], None] | None = None, **fields: Any
    ) -> dict[str, Any]:
        """One request, one answer."""
        for what, value in self.stream(kind, **fields):
            if what == "ok":
                return dict(value)
            if what == "progress" and progress is not None:
                progress(value)
        raise UserError("the controller gave no answer", "see its log: warpdeck status")

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
        self._send(json_frame({"t": kind, "id": number, **fields}))
        return number

    def events(self, number: int, *, timeout_s: float | None = None) -> Iterator[Event]:
        """The next event of that request, if one comes in time. Raises UserError for its error."""
        frame = self._next(timeout_s)
        if frame is None:
            return
        kind, payload = frame
        if kind != JSON:
            stream, data = split_data(payload)
            if stream == number:
                self._send(json_frame({"t": "ack", "stream": stream, "size": len(data)}))
                yield "data", data
            return
        message = parse_json(payload)
        if message["t"] == "error" and message.get("id") in (0, number):
            raise user_error(message)
        if message.get("id") == number or message.get("stream") == number:
            word = message["t"]
            yield word, message.get({"ok": "result", "progress": "line"}.get(word, ""), message)

    def any_event(self, numbers: Container[int]) -> tuple[int, str, Any]:
        """The next event of any of these requests, as (request, word, value)."""
        while True:
            frame = self._next(None)
            assert frame is not None
            kind, payload = frame
            if kind != JSON:
                stream, data = split_data(payload)
                self._send(json_frame({"t": "ack", "stream": stream, "size": len(data)}))
                return stream, "data", data
            message = parse_json(payload)
            number = message.get("stream", message.get("id", 0))
            if message["t"] == "error":
                raise user_error(message)
            if number in numbers:
                return number, message["t"], message

    def has_buffered(self) -> bool:
        """Whether a frame has been read already that select cannot see."""
        return bool(self._frames)

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
        frame = self._next(None)
        assert frame is not None
        self.welcome = parse_json(frame[1])
        if self.welcome["t"] == "error":
            raise user_error(self.welcome)

    def _send(self, frame: bytes) -> None:
        try:
            self._link.sendall(frame)
        except (OSError, TimeoutError) as error:
            # It may have said why before it hung up.
            frames = self._drain()
            for kind, payload in frames:
                if kind == JSON and parse_json(payload)["t"] == "error":
                    raise user_error(parse_json(payload)) from error
            raise UserError(
                "the controller went away", "try again; `warpdeck status` tells how it is"
            ) from error

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
                raise UserError("the controller went away", "try again; `warpdeck status` tells how it is")
            try:
                self._frames.extend(self._decoder.feed(data))
            except WireError as error:
                raise UserError(
                    f"the controller said something strange: {error}", "is it of this version?"
                ) from error
        return self._frames.popleft()


def user_error(message: dict[str, Any]) -> UserError:
    """The error that an error message carries."""
    return UserError(
        str(message.get("message", "")),
        str(message.get("hint", "")),
        exit_code=int(message.get("exit_code", 1)),
        code=str(message.get("code", "")),
        details={str(key): str(value) for key, value in (message.get("details") or {}).items()},
    )
