"""Reads an output file that a job writes on another machine.

The file lies on a shared file system. inotify does not notice changes that other machines make, so the size is compared
again and again. The file is opened anew each time, because NFS only then asks its server for the present size. A user may
also replace or truncate the file.
"""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from dataclasses import dataclass

PIECE_BYTES = 256 * 1024


class NotAFile(OSError):
    """The path leads to something that has no bytes to read again, such as a pipe or a device."""

    def __init__(self) -> None:
        super().__init__(0, "it is not a regular file")


@dataclass
class _Opened:
    descriptor: int
    identity: tuple[int, int]
    """Device and inode."""
    size: int


class LogFile:
    """The file at a path. `at` is the position of the next byte. Reading happens in threads, because NFS may hang."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.at = 0
        self._opened: _Opened | None = None
        self._in_thread = threading.Lock()
        """Is held while a thread uses the descriptor. A cancelled reader leaves its thread running."""

    @property
    def was_found(self) -> bool:
        """Whether there was a file at the path."""
        return self._opened is not None

    async def size(self) -> int:
        """Open the file and return its present size. Raises OSError."""
        return await asyncio.to_thread(self._size)

    async def piece(self) -> bytes:
        """Return the next bytes, b"" if there are none now. Raises OSError.

        If the file was replaced, the rest of the old file comes first, and then the new file from its beginning.
        """
        return await asyncio.to_thread(self._piece)

    async def close(self) -> None:
        """Close the file."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        with self._in_thread:
            if self._opened is not None:
                os.close(self._opened.descriptor)
            self._opened = None

    def _size(self) -> int:
        with self._in_thread:
            self._take(_open(self.path))
            assert self._opened is not None
            return self._opened.size

    def _piece(self) -> bytes:
        with self._in_thread:
            return self._next()

    def _next(self) -> bytes:
        if data := self._read():
            return data
        try:
            fresh = _open(self.path)
        except FileNotFoundError:
            return b""  # It may come back: programs that rotate their logs rename the old file first.
        if self._opened is not None and fresh.identity == self._opened.identity:
            self.at = self.at if self.at <= fresh.size else 0
        elif self._opened is not None:
            self.at = 0
        self._take(fresh)
        return self._read()

    def _read(self) -> bytes:
        return os.pread(self._opened.descriptor, PIECE_BYTES, self.at) if self._opened is not None else b""

    def _take(self, fresh: _Opened) -> None:
        if self._opened is not None:
            os.close(self._opened.descriptor)
        self._opened = fresh


def _open(path: str) -> _Opened:
    try:
        return _open_once(path)
    except FileNotFoundError:
        # NFS may remember for a minute that a name does not exist, but opening a folder asks the server.
        os.close(os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        return _open_once(path)


def _open_once(path: str) -> _Opened:
    # Without O_NONBLOCK, opening a pipe would wait for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise NotAFile
    except BaseException:
        os.close(descriptor)
        raise
    return _Opened(descriptor, (found.st_dev, found.st_ino), found.st_size)
