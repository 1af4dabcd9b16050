"""A short table with another frame below it, which uses the height that the table leaves."""

from __future__ import annotations

from textual.containers import Vertical

from .frames import Frame

LEAST_BELOW = 8
"""Least number of lines of the lower frame, its edges included. If the table leaves less, it gets all lines."""
LEAST_ROWS = 3
"""Least height of the table in rows. With it, an additional row seldom moves the frames."""
EDGES = 2


class Stack(Vertical):
    """The frame of the table above the lower frame, which is hidden while it has no content or no space."""

    def __init__(self, table: Frame, below: Frame) -> None:
        super().__init__(table, below)
        self._table, self._below = table, below
        below.display = False

    def fit(self, *, rows: int, headers: int, wants_below: bool) -> bool:
        """Divide the height for a table of this many rows below some header lines.

        Return whether the lower frame is shown.
        """
        height = max(LEAST_ROWS, rows) + headers + EDGES
        has_below = wants_below and self.size.height - height >= LEAST_BELOW
        if has_below != self._below.display:
            self._below.display = has_below
        wanted = f"{height}" if has_below else "1fr"
        if str(self._table.styles.height) != wanted:
            self._table.styles.height = wanted
        return has_below
