"""Notification when files grow: inotify through ctypes, for one reader of several files.

Without inotify, the reader polls.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
from typing import Optional

IN_MODIFY = 0x2
IN_CLOEXEC, IN_NONBLOCK = 0o2000000, 0o4000
EVENTS_BYTES = 64 * 1024


class FileWatch:
    """Sets `grown` whenever one of its files was written to.

    `works` is False if the kernel provides no watch.
    """

    def __init__(self, grown: asyncio.Event) -> None:
        self._grown = grown
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor: Optional[int] = None
        self.works = True

    def add(self, path: str) -> None:
        """Watch one more file."""
        if self._descriptor is None:
            found = int(self._libc.inotify_init1(IN_CLOEXEC | IN_NONBLOCK))
            if found < 0:
                self.works = False
                return
            self._descriptor = found
            asyncio.get_running_loop().add_reader(found, self._read)
        if int(self._libc.inotify_add_watch(self._descriptor, os.fsencode(path), IN_MODIFY)) < 0:
            self.works = False

    def _read(self) -> None:
        assert self._descriptor is not None
        try:
            os.read(self._descriptor, EVENTS_BYTES)
        except BlockingIOError:
            return
        self._grown.set()

    def close(self) -> None:
        """Close the watch in a thread, because the kernel takes 15 ms to remove the watches."""
        if self._descriptor is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._descriptor)
            loop.run_in_executor(None, os.close, self._descriptor)
            self._descriptor = None


def punch_hole(descriptor: int, size_bytes: int) -> None:
    """Free the disk space of the file's first bytes; its length stays.

    No effect if the file system does not support it.
    """
    keep_size, punch = 1, 2
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong)
    libc.fallocate(descriptor, keep_size | punch, 0, size_bytes)
