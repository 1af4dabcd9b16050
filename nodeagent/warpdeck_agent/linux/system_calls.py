"""System calls for which Python has no function: the birth time of a file, and adopting orphaned processes."""

from __future__ import annotations

import ctypes
import os

_BTIME = 0x800
_AT_FDCWD, _NOFOLLOW = -100, 0x100
_SIZE, _BORN = 256, 80
"""The size of struct statx, and the offset of the birth time's seconds in it; nanoseconds follow."""
_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def born_unix(path: str) -> float:
    """Return the birth time of a file in unix seconds.

    Returns 0 if the file system or the kernel does not keep it, or the file does not exist.
    """
    call = getattr(_libc, "statx", None)
    if call is None:
        return 0.0
    found = ctypes.create_string_buffer(_SIZE)
    if call(_AT_FDCWD, os.fsencode(path), _NOFOLLOW, _BTIME, found):
        return 0.0
    if not ctypes.c_uint32.from_buffer(found).value & _BTIME:
        return 0.0
    seconds = ctypes.c_int64.from_buffer(found, _BORN).value
    return seconds + ctypes.c_uint32.from_buffer(found, _BORN + 8).value / 1e9


def adopt_orphans() -> None:
    """Make this process a subreaper, which becomes the parent of its orphaned descendants."""
    _libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
