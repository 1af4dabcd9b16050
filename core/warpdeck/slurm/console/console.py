"""Environment in which a Slurm-compatible command runs.

A command runs either in a user's shell or for a job's process on a node. The two cases differ only in their
Console. So no command uses os.environ, the current directory, files or sys.stdout directly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TextIO

from warpdeck.base.paths import Paths
from warpdeck.client.blocking_client import SyncClient


class StandardStreams:
    """Standard streams of the caller. `columns` is the width of the terminal; 0 if the output is no terminal."""

    def __init__(self, stdin: TextIO, out: TextIO, err: TextIO, *, columns: int = 0) -> None:
        self.stdin = stdin
        self.out = out
        self.err = err
        self.columns = columns


class ControllerAccess:
    """The connection of a command to its controller.

    `connect` opens the controller's socket as the calling user; it raises UserError if there is none.
    """

    def __init__(
        self,
        connect: Callable[[], SyncClient],
        *,
        reconnect: Callable[[], SyncClient] | None = None,
        mark_idle: Callable[[], None] = lambda: None,
        wait_for_job: Callable[[int], None] = lambda _: None,
        awaited_job: int = 0,
        nonce: str = "",
    ) -> None:
        self.connect = connect
        self.reconnect = reconnect or connect
        """Connects again to a controller that went away, without starting one. Raises UserError or CutOff."""
        self.mark_idle = mark_idle
        """Declares that the command lasts long and works little from here on.

        Examples are a repeated listing and a prompt.
        """
        self.wait_for_job = wait_for_job
        """Declares that from here on the command only waits for the end of this job."""
        self.awaited_job = awaited_job
        """Job that was submitted before its command was cut off, or 0.

        The repeated command then only waits for the end of this job.
        """
        self.nonce = nonce
        """Nonce for the request of a command that creates an object. "": each command makes its own."""


class Console:
    """The caller's side of one command.

    `user` is the calling user as the kernel reports it, and `host` is the caller's host. Relative paths start
    at `folder`.

    This is not a dataclass, because importing dataclasses takes every command 6 ms.
    """

    def __init__(
        self,
        *,
        streams: StandardStreams,
        controller: ControllerAccess,
        env: Mapping[str, str],
        folder: str,
        user: str,
        host: str,
        read_file: Callable[[str, int], bytes],
        paths: Paths | None = None,
        record: Callable[[int, str], None] | None = None,
    ) -> None:
        self.streams = streams
        self.controller = controller
        self.env = env
        self.folder = folder
        self.user = user
        self.host = host
        self.read_file = read_file
        """Reads at most a number of bytes from a file of the caller; "-" is standard input.

        Raises OSError.
        """
        self.paths = paths
        """Paths of the user's own files.

        None if the caller is a process of a job. In that case nothing is written for the caller here, and the
        processes of this machine are not examined.
        """
        self.record = record
        """Starts to record the code in a directory for a job that was just submitted.

        It returns before the recording is done. If the code cannot be recorded, the job's history says so.
        None for a process of a job, because its jobs run the code of that job.
        """

    def print_lines(self, lines: Iterable[str], *, between: str = "\n", end: str = "\n") -> None:
        """Print lines that contain users' values.

        On a terminal, a line feed inside a line is shown as "?", so that no value looks like a line of
        output. Other control characters are replaced by the code that writes to the terminal.
        """
        if self.streams.columns:
            lines = [line.replace("\n", "?") for line in lines]
        self.streams.out.write(between.join(lines) + end)


class CutOff(Exception):
    """The controller went away during a command that only waits.

    The caller runs the command again when a controller is available.
    """


class CommandError(Exception):
    """An error of a command.

    It is printed as `COMMAND: error: MESSAGE`, line by line, as Slurm's commands do; `bare` omits the prefix.
    `exit_code` is Slurm's, too. With `is_answer` the message was requested by the user and goes to standard
    output as it is.
    """

    def __init__(
        self, message: str, *, exit_code: int = 1, bare: bool = False, is_answer: bool = False
    ) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
        self.bare = bare or is_answer
        self.is_answer = is_answer
