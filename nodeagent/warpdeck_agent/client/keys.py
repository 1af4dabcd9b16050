"""The user's terminal while a task has a terminal of its own.

It sets raw mode and puts keys and sizes into frames (see `tasks.pty_task`).
"""

from __future__ import annotations

import fcntl
import os
import termios
import tty

TYPE_CHECKING = False
if TYPE_CHECKING:  # Not imported from typing: the import takes longer than the start of a step.
    from typing import Any, List, Optional, Tuple

SIZE, KEYS = 0, 1
USUAL = (24, 80)


class RawInput:
    """Standard input. If it is a terminal, it is in raw mode from `start` to `stop`."""

    def __init__(self) -> None:
        self._before: Optional[List[Any]] = None

    def start(self) -> None:
        if os.isatty(0):
            self._before = termios.tcgetattr(0)
            tty.setraw(0)

    def stop(self) -> None:
        if self._before is not None:
            termios.tcsetattr(0, termios.TCSADRAIN, self._before)
            self._before = None


def window() -> Tuple[int, int]:
    """Return the rows and columns of the user's terminal."""
    rows, cols = USUAL
    if os.isatty(0):
        rows, cols, _, _ = memoryview(fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8))).cast("H")
    return rows or USUAL[0], cols or USUAL[1]


def size_frame() -> bytes:
    """Return a frame with the size of the user's terminal."""
    return _header(SIZE, *window())


def keys_frame(data: bytes) -> bytes:
    """Return a frame with keys, fewer than 64 kB."""
    return _header(KEYS, len(data), 0) + data


def _header(kind: int, first: int, second: int) -> bytes:
    """Return a header: the kind, then rows and columns, or the number of bytes that follow."""
    return bytes((kind,)) + first.to_bytes(2, "big") + second.to_bytes(2, "big")
