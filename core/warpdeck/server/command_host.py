"""The worker process in which Slurm's commands run for users' shells and for processes of jobs."""

from __future__ import annotations

import socket
import subprocess
import sys

from warpdeck.base.errors import UserError
from warpdeck.base.fair_semaphore import FairSemaphore

MAX_COMMANDS = 64
MAX_COMMANDS_OF_USER = 16
"""Maximum numbers of active commands, overall and per user. A further command waits."""
BUSY = "away"
"""Error code that makes the caller try again."""


class CommandHost:
    """The worker process. It is started when first needed, and again if it was killed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self.turns = FairSemaphore(MAX_COMMANDS, MAX_COMMANDS_OF_USER)

    def begin(self) -> tuple[socket.socket, socket.socket]:
        """Start a new command that waits for its request.

        Returns two sockets: one leads to the command for its caller's data, the other carries the command's
        API requests.
        """
        controls, accesses = socket.socketpair(), socket.socketpair()
        channel = self._ready()
        try:
            socket.send_fds(channel, [b"c"], [controls[1].fileno(), accesses[1].fileno()])
        except OSError as error:
            self.close()
            for each in (controls[0], accesses[0]):
                each.close()
            raise UserError("commands cannot be started now", "try again", code=BUSY) from error
        finally:
            controls[1].close()
            accesses[1].close()
        return controls[0], accesses[0]

    def _ready(self) -> socket.socket:
        if self._channel is not None and self._process is not None and self._process.poll() is None:
            return self._channel
        self.close()
        ours, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "warpdeck.slurm.runtime.worker"],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        theirs.close()
        self._channel = ours
        return ours

    def close(self) -> None:
        """End the worker. Running commands continue until their sockets close."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
