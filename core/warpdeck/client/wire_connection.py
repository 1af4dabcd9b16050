"""The client's end of a connection to the controller, without I/O: the blocking client and the asyncio client share it.

It imports only the standard library, because the command line starts often.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence

from warpdeck.base.errors import RESTART, UNCERTAIN, UserError
from warpdeck.base.paths import SLURM
from warpdeck.base.standby_files import is_standby, serving_elsewhere
from warpdeck_agent.client.access import VERSION
from warpdeck_agent.wire.frames import JSON, FrameDecoder, WireError, json_frame, parse_json, split_data

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from warpdeck.base.paths import Paths

    Event = tuple[str, Any]
    """("progress", line), ("rows", part), ("ok", result), ("data", bytes), ("end", message), ("delta", message)"""
    NumberedEvent = tuple[int, str, Any]
    """The number of the request or stream, followed by an Event."""

ANSWER_S = 120.0
"""Seconds to wait for an answer before the controller counts as stuck.

The slowest request adds a node over SSH.
"""
AGAIN_S = 120.0
"""Seconds during which a request is repeated while the controller is away."""
AGAIN_EVERY_S = 0.2
CONTROLLER = "controller"
"""The process at the other end of a connection, unless the home says that it is a gateway (see `Paths.daemon`)."""
GONE = "gone"
"""Code of the UserError for a lost connection."""
LOST = "lost"
"""Same as protocol.LOST."""
ENDED = "ended"
"""Same as protocol.ENDED."""
STEPS = "steps"
"""Code of the error that tells srun to use a job step, which is needed for several tasks."""
_VALUE_OF = {"ok": "result", "progress": "line", "rows": "part"}


class WireConnection:
    """State of one connection: the numbers of its requests, and the frames received so far.

    The owner sends and receives the bytes. `daemon` is the process at the other end, for messages: "controller" or
    "gateway".
    """

    def __init__(self, daemon: str = CONTROLLER) -> None:
        self.daemon = daemon
        self._decoder = FrameDecoder()
        self._frames: deque[tuple[int, bytes]] = deque()
        self._numbers = itertools.count(1)

    def number(self) -> int:
        """Return a new number for a request or for a further stream of one."""
        return next(self._numbers)

    def replaces(self, old: WireConnection) -> None:
        """Number requests from where the lost connection `old` stopped, so that no number is used twice."""
        self._numbers = old._numbers

    def feed(self, data: bytes) -> None:
        """Add received bytes. Raises UserError if they are no frames."""
        try:
            self._frames.extend(self._decoder.feed(data))
        except WireError as error:
            raise unexpected(error, self.daemon) from error

    @property
    def is_buffered(self) -> bool:
        """Whether `next_event` has an event."""
        return bool(self._frames)

    def next_event(self) -> NumberedEvent | None:
        """Return the oldest event that was received, or None. Raises UserError if it cannot be decoded."""
        if not self._frames:
            return None
        kind, payload = self._frames.popleft()
        try:
            if kind != JSON:
                stream, data = split_data(payload)
                return stream, "data", data
            message = parse_json(payload)
        except WireError as error:
            raise unexpected(error, self.daemon) from error
        number, word = message.get("stream", message.get("id", 0)), message["t"]
        return number, word, message.get(_VALUE_OF.get(word, ""), message)


def hello(client: str) -> bytes:
    """Return the frame with which the client called `client` greets the controller."""
    return json_frame({"t": "hello", "version": VERSION, "client": client})


def welcome_of(event: NumberedEvent, daemon: str) -> dict[str, Any]:
    """Return the daemon's greeting from its first message. Raises UserError if it refuses the client."""
    _, word, value = event
    if word == "error":
        raise user_error(value)
    if word != "welcome":
        raise unexpected(WireError(f"{word!r} instead of a greeting"), daemon)
    greeting: dict[str, Any] = value
    return greeting


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


def connection_error(error: OSError, paths: Paths) -> UserError:
    """Return the reason why no connection could be made. Its code is GONE if no controller answers."""
    if isinstance(error, PermissionError):
        return UserError(
            f"the {paths.daemon} in {paths.home} belongs to another user",
            f"unset WARPDECK_HOME to use your own {paths.daemon}",
        )
    if elsewhere := serving_elsewhere(paths):
        if is_standby(paths):
            elsewhere.code = GONE  # A client on the standby waits for the controller, or for a takeover.
        return elsewhere
    choice = f" --engine {SLURM}" if paths.engine == SLURM else ""
    return UserError(f"no {paths.daemon} is running", f"start it with `warpdeck up{choice}`", code=GONE)


def gone(daemon: str) -> UserError:
    """Return the error for a connection that ended."""
    return UserError(
        f"connection to the {daemon} lost", "try again, or check it with `warpdeck status`", code=GONE
    )


def no_answer(daemon: str) -> UserError:
    """Return the error for a daemon that did not answer in time. The request may have been carried out."""
    return UserError(
        f"no answer from the {daemon}", "check its log; `warpdeck status` prints the path", code=UNCERTAIN
    )


def unexpected(error: WireError, daemon: str) -> UserError:
    """Return the error for a message that the daemon should not have sent."""
    return UserError(f"unexpected message from the {daemon}: {error}", f"if its version differs, {RESTART}")
