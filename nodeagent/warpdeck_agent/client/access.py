"""Connects a process inside a job to the controller.

It uses the agent's socket and the job's token (see `warpdeck_agent.attach.job_access`).
"""

from __future__ import annotations

import _socket as socket  # importing the module socket instead would take 7 ms
import os
import sys
import time

from warpdeck_agent.wire.frames import FrameDecoder, json_frame, parse_json

TYPE_CHECKING = False
if TYPE_CHECKING:  # Not imported from typing: the import takes longer than the start of a step.
    from typing import Any, Callable, Dict, Mapping, Optional

VERSION = 1
"""The version of the controller's own protocol."""
ANSWER_S = 60.0
RETRY_S = 1.0
"""Interval in seconds between attempts while the controller or the agent cannot be reached."""


class Unreachable(Exception):
    """The controller or the agent does not answer now. It is worth trying again later."""


SAID = "said"
"""The code of an error with Slurm's own lines as its message."""


class CommandRefused(Exception):
    """The controller or this program refuses the command. `hint` says what the user can do."""

    def __init__(
        self,
        message: str,
        hint: str = "",
        exit_code: int = 1,
        *,
        file: str = "",
        writes: str = "",
        is_complete: bool = False,
    ) -> None:
        super().__init__(message)
        self.file = file
        """A file that the controller needs to read before it can decide; "" for none."""
        self.writes = writes
        """A file or folder that the command must be able to write, as the controller asks; "" for none."""
        self.is_complete = is_complete
        """Whether the message is printed unchanged, because it already has its prefixes."""
        self.message = message
        self.hint = hint
        self.exit_code = exit_code


class ControllerLink:
    """A connection to the controller after the handshake, with frames in both directions."""

    def __init__(self, sock: socket.socket, decoder: Optional[FrameDecoder] = None) -> None:
        self.socket = sock
        self.decoder = decoder or FrameDecoder()
        self._frames: Any = []

    def expect(self) -> Dict[str, Any]:
        """Return the next message. Raises Unreachable or CommandRefused."""
        while not self._frames:
            try:
                data = self.socket.recv(1 << 16)
            except OSError as error:
                raise Unreachable(str(error)) from error
            if not data:
                raise Unreachable("the connection was closed")
            self._frames = list(self.decoder.feed(data))
        message = parse_json(self._frames.pop(0)[1])
        if message["t"] == "error":
            if message.get("code") == "away":
                raise Unreachable(str(message["message"]))
            raise CommandRefused(
                str(message["message"]), str(message.get("hint", "")), int(message.get("exit_code", 1))
            )
        return message


def connect(environ: Mapping[str, str]) -> ControllerLink:
    """Connect to the controller and do the handshake. Raises Unreachable or CommandRefused."""
    path = environ.get("WARPDECK_ACCESS", "")
    try:
        sock = connect_path(path)
    except OSError as error:
        raise Unreachable(f"the agent does not answer: {error.strerror}") from error
    sock.settimeout(ANSWER_S)
    link = ControllerLink(sock)
    proof = {
        "t": "access",
        "job": environ.get("WARPDECK_JOB", ""),
        "token": environ.get("WARPDECK_TOKEN", ""),
    }
    try:
        sock.sendall(json_frame(proof) + json_frame({"t": "hello", "version": VERSION, "client": "job"}))
        link.expect()
        link.expect()
    except OSError as error:
        raise Unreachable(str(error)) from error
    return link


def wait_for_link(connect: Callable[[], ControllerLink], name: str) -> ControllerLink:
    """Return a link. While the controller or the agent cannot be reached, wait, and print the reason once."""
    is_reported = False
    while True:
        try:
            return connect()
        except Unreachable as error:
            if not is_reported:
                sys.stderr.write(f"{name}: waiting: {error}\n")
                is_reported = True
            time.sleep(RETRY_S)


def send_hello(sock: socket.socket) -> ControllerLink:
    """Send the hello on a connection to the controller's own socket, and return the link.

    The first message on the link is the answer to the hello. Raises Unreachable.
    """
    sock.settimeout(ANSWER_S)
    try:
        sock.sendall(json_frame({"t": "hello", "version": VERSION, "client": "cli"}))
    except OSError as error:
        raise Unreachable(str(error)) from error
    return ControllerLink(sock)


def handshake(sock: socket.socket) -> ControllerLink:
    """Do the whole handshake on a connection to the controller's own socket. Raises Unreachable or CommandRefused."""
    link = send_hello(sock)
    link.expect()
    return link


def connect_path(path: str) -> socket.socket:
    """Connect to the socket at this path. The path may be longer than the hundred bytes that an address holds.

    Raises OSError.
    """
    folder, name = os.path.split(path)
    descriptor = os.open(folder or "/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.connect(f"/proc/self/fd/{descriptor}/{name}")
    except OSError:
        sock.close()
        raise
    finally:
        os.close(descriptor)
    return sock
