"""From inside a job to the controller: through the agent's socket, with the job's token (see warpdeck_agent.attach.job_access)."""

from __future__ import annotations

import _socket as socket  # all that the module of that name adds is 7 ms
import os
import sys
import time

from warpdeck_agent.wire.frames import FrameDecoder, json_frame, parse_json

TYPE_CHECKING = False
if TYPE_CHECKING:  # not typing's own: an srun takes longer to import it than a step to begin
    from typing import Any, Callable, Dict, Mapping, Optional

VERSION = 1
"""The version of the controller's own protocol."""
ANSWER_S = 60.0
RETRY_S = 1.0
"""Between attempts while the controller, or the agent, is away."""


class Away(Exception):
    """Nobody answers now; somebody will."""


SAID = "said"
"""The code of an error whose message is Slurm's own lines."""


class Refused(Exception):
    """It was said why not."""

    def __init__(
        self,
        message: str,
        hint: str = "",
        exit_code: int = 1,
        *,
        file: str = "",
        writes: str = "",
        said: bool = False,
    ) -> None:
        super().__init__(message)
        self.file = file
        """A file whose text is asked for."""
        self.writes = writes
        """A file or folder of which is asked whether it can be written."""
        self.said = said
        """Whether the message is all that is to be said, prefixes and all."""
        self.message = message
        self.hint = hint
        self.exit_code = exit_code


class Link:
    """A connection to the controller that has been greeted: frames both ways."""

    def __init__(self, sock: socket.socket, decoder: Optional[FrameDecoder] = None) -> None:
        self.socket = sock
        self.decoder = decoder or FrameDecoder()
        self._frames: Any = []

    def expect(self) -> Dict[str, Any]:
        """The next message. Raises Away, Refused."""
        while not self._frames:
            try:
                data = self.socket.recv(1 << 16)
            except OSError as error:
                raise Away(str(error)) from error
            if not data:
                raise Away("the connection was closed")
            self._frames = list(self.decoder.feed(data))
        message = parse_json(self._frames.pop(0)[1])
        if message["t"] == "error":
            if message.get("code") == "away":
                raise Away(str(message["message"]))
            raise Refused(
                str(message["message"]), str(message.get("hint", "")), int(message.get("exit_code", 1))
            )
        return message


def connect(environ: Mapping[str, str]) -> Link:
    """A greeted connection. Raises Away, Refused."""
    path = environ.get("WARPDECK_ACCESS", "")
    try:
        sock = connect_path(path)
    except OSError as error:
        raise Away(f"the agent does not answer: {error.strerror}") from error
    sock.settimeout(ANSWER_S)
    link = Link(sock)
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
        raise Away(str(error)) from error
    return link


def patiently(connect: Callable[[], Link], name: str) -> Link:
    """A link, waiting for whoever is away and saying so once."""
    told = False
    while True:
        try:
            return connect()
        except Away as away:
            if not told:
                sys.stderr.write(f"{name}: waiting: {away}\n")
                told = True
            time.sleep(RETRY_S)


def greeting(sock: socket.socket) -> Link:
    """The controller's own socket, greeted; its answer is still to come, before all others. Raises Away."""
    sock.settimeout(ANSWER_S)
    try:
        sock.sendall(json_frame({"t": "hello", "version": VERSION, "client": "cli"}))
    except OSError as error:
        raise Away(str(error)) from error
    return Link(sock)


def greeted(sock: socket.socket) -> Link:
    """The same, answered. Raises Away, Refused."""
    link = greeting(sock)
    link.expect()
    return link


def connect_path(path: str) -> socket.socket:
    """However long the path is: a socket's own name has room for a hundred letters. Raises OSError."""
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
