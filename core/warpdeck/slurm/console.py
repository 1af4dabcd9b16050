"""What a command sees of the world. A command started by a user's shell and one that a job's process asked for from its node
differ in nothing else; so no command looks at os.environ, the current folder or sys.stdout itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TextIO

from warpdeck.api.sync import SyncClient


@dataclass(frozen=True, kw_only=True)
class Console:
    """The caller's side of one command. `user` is who asks, as the kernel says; `connect` opens the controller's socket as
    them (UserError if there is none); relative paths are meant from `folder`."""

    env: Mapping[str, str]
    folder: str
    user: str
    stdin: TextIO
    out: TextIO
    err: TextIO
    connect: Callable[[], SyncClient]
    columns: int = 0
    """The terminal's width; 0 where the output is none."""


class CommandError(Exception):
    """Printed as `COMMAND: error: MESSAGE`, as Slurm's commands do; `exit_code` is theirs too."""

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
