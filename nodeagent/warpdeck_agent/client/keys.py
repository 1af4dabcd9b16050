"""The user's terminal, while a task has one of its own: raw, its keys and its size in frames (see the agent's ptytask)."""

from __future__ import annotations

import fcntl
import os
import termios
import tty

TYPE_CHECKING = False
if TYPE_CHECKING:  # not typing's own: an srun takes longer to import it than a step to begin
    from typing import Any, List, Optional

SIZE, KEYS = 0, 1
USUAL = (24, 80)


class Keyboard:
    """Standard input: raw from `start` to `stop` where it is a terminal."""

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


def size_frame() -> bytes:
    """The size of the user's terminal."""
    rows, cols = USUAL
    if os.isatty(0):
        rows, cols, _, _ = memoryview(fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8))).cast("H")
    return _header(SIZE, rows or USUAL[0], cols or USUAL[1])


def keys_frame(data: bytes) -> bytes:
    """Keys, fewer than 64 kB at once."""
    return _header(KEYS, len(data), 0) + data


def _header(kind: int, first: int, second: int) -> bytes:
    """The kind, then rows and columns, or how many bytes follow."""
    return bytes((kind,)) + first.to_bytes(2, "big") + second.to_bytes(2, "big")
