"""Reads a job's output file: the agent's own (`OwnFile`), or a file named by the user.

A file named by the user is read by a child process (`main`) that runs as the user. So only the user's rights
count, and a hanging file server delays nothing else (see `user_files`). The child gets requests over its
standard input, and answers each with the file's size and a piece of the file.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
import struct
import sys
from typing import BinaryIO, List, NamedTuple, Optional

READ_BYTES = 256 * 1024
ASK = struct.Struct("<q")
"""A request: the offset."""
ANSWER = struct.Struct("<qI")
"""An answer: the size, or one of the codes below, and the number of bytes that follow."""
NO_FILE, REFUSED = -1, -2


class LogError(Exception):
    """Output of a job that cannot be read, described in one sentence.

    `code` is the code with which the stream of the output ends.
    """

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code


def open_output(path: str, *, flags: int = 0) -> Optional[int]:
    """Return a descriptor for reading, None if the file does not exist.

    Raises LogError, also for anything but a plain file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | flags)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LogError(f"cannot read {path}: {os.strerror(error.errno or errno.EIO)}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise LogError(f"{path} is not a regular file")
    return descriptor


class FilePiece(NamedTuple):
    """The result of one read of a file: its size, and the data at the requested offset."""

    size: int
    data: bytes


class OwnFile:
    """An output file in the agent's own folder. It is opened as soon as it exists."""

    flags = os.O_NOFOLLOW

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor: Optional[int] = None

    def read(self, at: Optional[int]) -> Optional[FilePiece]:
        """Return the size and a piece at `at`, or None if the file does not exist.

        With `at` None, no data is read. If the file is shorter than `at`, the piece is from its start. Raises
        LogError and OSError.
        """
        if self._descriptor is None:
            self._descriptor = open_output(self._path, flags=self.flags)
        if self._descriptor is None:
            return None
        size = os.fstat(self._descriptor).st_size
        if at is None:
            return FilePiece(size, b"")
        return FilePiece(size, os.pread(self._descriptor, READ_BYTES, at if at <= size else 0))

    async def read_at(self, at: Optional[int]) -> Optional[FilePiece]:
        """Return the result of `read`."""
        return self.read(at)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)


class UserNamedFile(OwnFile):
    """An output file that the user has named. This process runs as the user, so links are followed."""

    flags = 0


def become(uid: int) -> None:
    """Switch to the user with all groups; a uid without an account gets none.

    No effect if we are not root. Raises OSError.
    """
    if os.geteuid() != 0 or uid == 0:
        return
    if uid < 0:
        raise PermissionError(errno.EPERM, "the owner of the file was not given")
    try:
        found = pwd.getpwuid(uid)
        os.initgroups(found.pw_name, found.pw_gid)
        os.setgid(found.pw_gid)
    except KeyError:
        os.setgroups([])
        os.setgid(uid)
    os.setuid(uid)


def main(argv: List[str]) -> int:
    """Run `readfile PATH UID`: answer requests until the input ends."""
    path, uid = argv
    become(int(uid))
    file = UserNamedFile(path)
    requests = sys.stdin.buffer
    while len(data := requests.read(ASK.size)) == ASK.size:
        (at,) = ASK.unpack(data)
        _answer(sys.stdout.buffer, file, None if at < 0 else at)
    return 0


def _answer(out: BinaryIO, file: OwnFile, at: Optional[int]) -> None:
    try:
        found = file.read(at)
    except (LogError, OSError) as error:
        data = str(error).encode(errors="replace")[:READ_BYTES]
        out.write(ANSWER.pack(REFUSED, len(data)) + data)
    else:
        size, data = (NO_FILE, b"") if found is None else found
        out.write(ANSWER.pack(size, len(data)) + data)
    out.flush()
