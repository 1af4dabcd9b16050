"""Reading a job's output file: by the agent itself, or by a child of its own (`main`) where the file's server may hang.

The child is asked for pieces over its standard input, and answers each with the file's size and what lies there.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import sys
from typing import BinaryIO, List, NamedTuple, Optional

READ_BYTES = 256 * 1024
ASK = struct.Struct("<q")
"""From where."""
ANSWER = struct.Struct("<qI")
"""The size, or one of those below, and how many bytes follow."""
NO_FILE, REFUSED = -1, -2


class LogError(Exception):
    """An output file that may not or cannot be read, in one sentence."""


def open_output(path: str, *, uid: int) -> Optional[int]:
    """A descriptor for reading, None if there is no such file. A root agent reads only files of the job's user."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LogError(f"cannot read {path}: {os.strerror(error.errno or errno.EIO)}") from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or (os.geteuid() == 0 and uid > 0 and status.st_uid != uid):
        os.close(descriptor)
        raise LogError(f"{path} is not an output file of this job's user")
    return descriptor


class Look(NamedTuple):
    """What one look at a file finds: its size, and what lies at the place that was asked for."""

    size: int
    data: bytes


class OwnFile:
    """An output file on a disk of this node, opened once it is there."""

    def __init__(self, path: str, uid: int) -> None:
        self._path = path
        self._uid = uid
        self._descriptor: Optional[int] = None

    def read(self, at: Optional[int]) -> Optional[Look]:
        """A piece from there on (None: none of it), from the start of a file that is shorter. None: there is no file. Raises
        LogError and OSError."""
        if self._descriptor is None:
            self._descriptor = open_output(self._path, uid=self._uid)
        if self._descriptor is None:
            return None
        size = os.fstat(self._descriptor).st_size
        if at is None:
            return Look(size, b"")
        return Look(size, os.pread(self._descriptor, READ_BYTES, at if at <= size else 0))

    async def look(self, at: Optional[int]) -> Optional[Look]:
        """What `read` finds."""
        return self.read(at)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)


def main(argv: List[str]) -> int:
    """`readfile PATH UID`: answers until its input ends."""
    path, uid = argv
    file = OwnFile(path, int(uid))
    asked = sys.stdin.buffer
    while len(words := asked.read(ASK.size)) == ASK.size:
        (at,) = ASK.unpack(words)
        _answer(sys.stdout.buffer, file, None if at < 0 else at)
    return 0


def _answer(out: BinaryIO, file: OwnFile, at: Optional[int]) -> None:
    try:
        found = file.read(at)
    except (LogError, OSError) as error:
        words = str(error).encode(errors="replace")[:READ_BYTES]
        out.write(ANSWER.pack(REFUSED, len(words)) + words)
    else:
        size, data = (NO_FILE, b"") if found is None else found
        out.write(ANSWER.pack(size, len(data)) + data)
    out.flush()
