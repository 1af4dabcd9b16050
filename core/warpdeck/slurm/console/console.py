"""What a command sees of the world. A command started by a user's shell and one that a job's process asked for from its node
differ in nothing else; so no command looks at os.environ, the current folder, a file or sys.stdout itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TextIO

from warpdeck.base.paths import Paths
from warpdeck.client.blocking_client import SyncClient


class Console:
    """The caller's side of one command. `user` is who asks, as the kernel says; `host` is where; `connect` opens the
    controller's socket as them (UserError if there is none); relative paths are meant from `folder`.

    Not a dataclass: the import of dataclasses costs every command 6 ms.
    """

    def __init__(
        self,
        *,
        env: Mapping[str, str],
        folder: str,
        user: str,
        host: str,
        stdin: TextIO,
        out: TextIO,
        err: TextIO,
        connect: Callable[[], SyncClient],
        read_file: Callable[[str, int], bytes],
        paths: Paths | None = None,
        columns: int = 0,
        linger: Callable[[], None] = lambda: None,
        record: Callable[[int, str], None] | None = None,
        again: Callable[[], SyncClient] | None = None,
        awaits: Callable[[int], None] = lambda _: None,
        awaited: int = 0,
        nonce: str = "",
    ) -> None:
        self.env = env
        self.folder = folder
        self.user = user
        self.host = host
        self.stdin = stdin
        self.out = out
        self.err = err
        self.connect = connect
        self.read_file = read_file
        """So many bytes of a file of the caller's, or all if it holds less; "-" is what comes on standard input.
        Raises OSError."""
        self.paths = paths
        """Where the user's own things are; None for a caller who is another process: nothing is written for it here, and
        what only this machine's processes can tell is not asked."""
        self.columns = columns
        """The terminal's width; 0 where the output is none."""
        self.linger = linger
        """Says that the command lasts from here on and works little: it looks again and again, or waits for somebody."""
        self.record = record
        """Has the code in a folder recorded for a job that was just submitted; returns before that is done. Where it cannot be,
        the job's history tells. None for a process of a job, whose jobs run its own code."""
        self.again = again or connect
        """Connects once more to a controller that went away, and starts none. Raises UserError, CutOff."""
        self.awaits = awaits
        """Tells that from here on only the end of this job is waited for."""
        self.nonce = nonce
        """Of the request of a command that creates something; "": each makes its own."""
        self.awaited = awaited
        """The job that was submitted before its command was cut off: its end is all that is asked for. 0: nothing was."""

    def print_lines(self, lines: Iterable[str], *, between: str = "\n", end: str = "\n") -> None:
        """Print lines that hold values of users. On a terminal a line feed inside one is shown as "?", so that no value looks
        like a line of the answer; what writes to the terminal does so with the other control characters.
        """
        if self.columns:
            lines = [line.replace("\n", "?") for line in lines]
        self.out.write(between.join(lines) + end)


class CutOff(Exception):
    """The controller went away from a command that only waits: whoever asked for it asks the next one."""


class CommandError(Exception):
    """Printed as `COMMAND: error: MESSAGE`, line by line, as Slurm's commands do, or `bare` of that; `exit_code` is theirs too.

    `is_answer`: it was asked for, and goes to the standard output as it is.
    """

    def __init__(
        self, message: str, *, exit_code: int = 1, bare: bool = False, is_answer: bool = False
    ) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
        self.bare = bare or is_answer
        self.is_answer = is_answer
