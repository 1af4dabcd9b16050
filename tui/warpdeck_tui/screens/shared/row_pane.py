"""The pane beside a table of the site, which shows the row under the cursor and the jobs that belong to it."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import cast

from textual.widgets import Static

from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.deck import Deck
from warpdeck_tui.viewmodels import Cell, Line
from warpdeck_tui.viewmodels.site.row_details import job_lines, jobs_of, row_details, row_title
from warpdeck_tui.widgets.cells import Gauge
from warpdeck_tui.widgets.columns import Column

from .frames import Frame
from .painting import Folded, paint

JOBS_S = 2.0
"""Least number of seconds between two searches for the jobs of a row, because each goes through all jobs."""


class RowPane(Frame):
    """The pane."""

    def __init__(self) -> None:
        super().__init__(Static("", id="row-facts", markup=False), id="row")
        self._drawn: object = None
        self._jobs_of = ("", "")
        self._jobs_at = 0.0
        self._job_lines: list[Line] = []

    def show_row(
        self,
        table: str,
        key: str,
        columns: Sequence[Column],
        cells: Sequence[Cell | Gauge],
        *,
        words: str,
        jobs: Collection[JobRow],
    ) -> None:
        """Show the row with this key of a table. `words` describe it, and `jobs` are all jobs."""
        styles = cast(Deck, self.app).palette
        lines = [*row_details(columns, cells, words=words), *self._jobs(table, key, jobs)]
        drawn = (table, key, lines, id(styles))
        if drawn != self._drawn:
            self._drawn = drawn
            self.show_title(paint([(Cell(row_title(table, key, cells), "title"),)], styles))
            self.query_one("#row-facts", Static).update(Folded(lines, styles), layout=False)

    def _jobs(self, table: str, key: str, jobs: Collection[JobRow]) -> list[Line]:
        now = time.time()
        if self._jobs_of != (table, key) or not 0 <= now - self._jobs_at < JOBS_S:
            chosen = jobs_of(table, key, jobs) if key else None
            self._jobs_of, self._jobs_at = (table, key), now
            self._job_lines = [] if chosen is None else job_lines(chosen, now=now)
        return self._job_lines
