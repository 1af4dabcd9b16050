"""Redraws the screen in front after updates, neither more often than its refresh rate nor at too high a cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

DRAW_SHARE = 0.05
"""Largest share of one CPU core that redrawing after updates may take, however long the queue is."""


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
        self.is_planned = False
        """Whether a redraw will happen after a delay."""
        self._took_s = self._drawn_at = 0.0

    def redraw(self) -> None:
        """Redraw now."""
        self.is_planned = False
        began = time.process_time()
        self._draw()
        self._took_s = time.process_time() - began
        self._drawn_at = time.monotonic()

    def redraw_later(self) -> None:
        """Redraw after an update: now if enough time has passed since the last redraw, otherwise then."""
        if self.is_planned:
            return
        wait_s = self._drawn_at + max(self._least_s(), self._took_s / DRAW_SHARE) - time.monotonic()
        if wait_s <= 0:
            self.redraw()
        else:
            self.is_planned = True
            self._set_timer(wait_s, self.redraw)

    def hurry(self) -> None:
        """Let the next update be drawn at once."""
        self._drawn_at = 0.0
