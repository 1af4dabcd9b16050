"""Redraws the screen in front after updates, neither more often than its refresh rate nor at too high a cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

DRAW_SHARE = 0.05
"""Largest share of one CPU core that redrawing after updates may take, however long the queue is."""

EARLY_S = 0.01
"""Seconds by which a timer may fire too early."""


class SetTimer(Protocol):
    """Function that calls `callback` after a delay in seconds."""

    def __call__(self, delay: float, callback: Callable[[], None], /) -> object: ...


class Refresher:
    """`draw` draws the screen in front; `least_s` returns the least number of seconds between two redraws."""

    def __init__(
        self, draw: Callable[[], None], *, set_timer: SetTimer, least_s: Callable[[], float]
    ) -> None:
        self._draw = draw
        self._set_timer = set_timer
        self._least_s = least_s
        self._due: float | None = None
        """Time of the planned redraw (monotonic), or None."""
        self._took_s = self._drawn_at = 0.0

    @property
    def is_planned(self) -> bool:
        """Whether a redraw will happen after a delay."""
        return self._due is not None

    def redraw(self) -> None:
        """Redraw now."""
        self._due = None
        began = time.process_time()
        self._draw()
        self._took_s = time.process_time() - began
        self._drawn_at = time.monotonic()

    def redraw_later(self, *, within_s: float = 0.0) -> None:
        """Redraw after an update: now if enough time has passed since the last redraw, otherwise then.

        An update that need not be seen at once waits until `within_s` seconds after the last redraw.
        """
        now = time.monotonic()
        due = self._drawn_at + max(self._least_s(), self._took_s / DRAW_SHARE, within_s)
        if self._due is not None and self._due <= due:
            return
        if due <= now:
            self.redraw()
        else:
            self._due = due
            self._set_timer(due - now, self._fire)

    def _fire(self) -> None:
        """Redraw if a redraw is due. The timer of a plan that was replaced by an earlier one does nothing."""
        if self._due is not None and time.monotonic() >= self._due - EARLY_S:
            self.redraw()

    def hurry(self) -> None:
        """Let the next update be drawn at once."""
        self._drawn_at = 0.0
