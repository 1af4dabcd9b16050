"""The frames about the row under the cursor of a table of the site: its facts and nodes beside the table, and its jobs.

The jobs are below a short table. If a long table needs the whole height, they follow the facts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, cast

from textual.widgets import Static

from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.node_rows import NodeRow
from warpdeck_tui.deck import Deck
from warpdeck_tui.viewmodels import Cell, Line
from warpdeck_tui.viewmodels.jobs.preview import About, preview_lines
from warpdeck_tui.viewmodels.site.row_details import (
    TABLES_OF_JOBS,
    job_lines,
    jobs_of,
    jobs_title,
    node_lines,
    row_details,
    row_title,
)
from warpdeck_tui.widgets.cells import Gauge
from warpdeck_tui.widgets.columns import Column

from .frames import Frame
from .painting import Folded, paint

JOBS_S = 2.0
"""Least number of seconds between two searches for the jobs of a row, because each goes through all jobs."""
PADDING = 1


class TableRow(NamedTuple):
    """A row of a table of the site: its key, its cells, a description, and its nodes."""

    table: str
    key: str
    columns: Sequence[Column]
    cells: Sequence[Cell | Gauge]
    words: str
    nodes: Sequence[NodeRow]


class JobsOfRow:
    """The unfinished jobs of the last row that was asked for."""

    def __init__(self) -> None:
        self._row = ("", "")
        self._at = 0.0
        self._jobs: list[JobRow] | None = None

    def of(self, row: TableRow, jobs: Iterable[JobRow]) -> list[JobRow] | None:
        """Return the jobs of the row, or None if the rows of this table have no jobs."""
        now = time.time()
        if self._row != (row.table, row.key) or not 0 <= now - self._at < JOBS_S:
            found = jobs_of(row.table, row.key, jobs) if row.key else None
            self._row, self._at = (row.table, row.key), now
            of_one_job = row.table in TABLES_OF_JOBS
            self._jobs = None if found is None else [job for job in found if of_one_job or job.end is None]
        return self._jobs


class _Pane(Frame):
    """A frame with lines for its width. They are painted again only if they have changed."""

    def __init__(self, *, id: str) -> None:
        self._text = Static("", markup=False, classes="row-facts")
        super().__init__(self._text, id=id)
        self._title = ""
        self._lines: Callable[[int], list[Line]] = lambda width: []
        self._drawn: object = None

    def put(self, title: str, lines: Callable[[int], list[Line]]) -> None:
        """Show a title and the lines, which are created for a width."""
        self._title, self._lines = title, lines
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        width = self.size.width - PADDING
        if width <= 0 or not self.display:
            return
        styles = cast(Deck, self.app).palette
        lines = self._lines(width)
        drawn = (self._title, lines, id(styles))
        if drawn != self._drawn:
            self._drawn = drawn
            self.show_title(paint([(Cell(self._title, "title"),)], styles))
            self._text.update(Folded(lines, styles), layout=False)


class RowJobs(_Pane):
    """The jobs of the row, below the table."""

    def __init__(self) -> None:
        super().__init__(id="row-jobs")

    def show_jobs(self, row: TableRow, jobs: Sequence[JobRow]) -> None:
        now = time.time()
        title = f"{row_title(row.table, row.key, row.cells)}: {jobs_title(jobs)}"
        self.put(title, lambda width: job_lines(jobs, now=now, width=width))


class RowPane(_Pane):
    """The facts and the nodes of the row, beside the table."""

    def __init__(self) -> None:
        super().__init__(id="row")

    def show_row(self, row: TableRow, jobs: Sequence[JobRow] | None) -> None:
        """Show a row and, unless they are None, its jobs."""
        now = time.time()

        def lines(width: int) -> list[Line]:
            found = row_details(row.columns, row.cells, words=row.words) + node_lines(row.nodes, width=width)
            if jobs is None:
                return found
            if row.table in TABLES_OF_JOBS:
                return found + [
                    part for job in jobs for part in [(), *preview_lines(job, About(), now=now, width=width)]
                ]
            title = (Cell(""), Cell(f"jobs  {jobs_title(jobs)}", "title"))
            return [*found, (), title, *job_lines(jobs, now=now, width=width)]

        self.put(row_title(row.table, row.key, row.cells), lines)
