"""A line on the terminal while something takes time."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

AFTER_S = 1.0
"""Time after which a user wonders whether anything happens."""
AGAIN_S = 0.2
"""Seconds between two updates of a line that changes."""
ERASE_LINE = b"\r\x1b[K"


class progress:  # noqa: N801 (reads as a statement)
    """Context that shows a line on the terminal if it takes longer than AFTER_S, and erases the line at its end.

    Nothing is shown if standard error is no terminal. Use it in the main thread, around code that prints nothing itself. A
    progress inside another one shows no line of its own.

    `after_s` replaces AFTER_S. `more` returns text that follows the line and changes meanwhile. It is called every
    AGAIN_S seconds.
    """

    def __init__(
        self, line: str, *, after_s: float | None = None, more: Callable[[], str] | None = None
    ) -> None:
        self._line = line.encode()
        self._after_s = AFTER_S if after_s is None else after_s
        self._more = more
        self._shown = False
        self._on = False

    def __enter__(self) -> None:
        if not self._line or not sys.stderr.isatty():
            return
        import signal  # this import takes longer than the rest of the module

        if signal.getsignal(signal.SIGALRM) is signal.SIG_DFL:
            self._on = True
            signal.signal(signal.SIGALRM, self._show)
            if not self._after_s:
                self._show(0, None)
            signal.setitimer(signal.ITIMER_REAL, self._after_s or AGAIN_S, AGAIN_S if self._more else 0.0)

    def __exit__(self, *_: object) -> None:
        if self._on:
            import signal

            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            if self._shown:
                os.write(sys.stderr.fileno(), ERASE_LINE)  # sys.stderr replaces control characters

    def _show(self, _: int, __: FrameType | None) -> None:
        before = ERASE_LINE if self._shown else b""
        self._shown = True
        more = self._more().encode() if self._more is not None else b""
        os.write(sys.stderr.fileno(), before + self._line + more)
