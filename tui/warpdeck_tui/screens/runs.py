"""The table of runs: the tasks of an array, or jobs of one name, with their parameters and metrics as columns."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import ClassVar

from textual import work
from textual.binding import BindingType

from warpdeck.base.errors import UserError
from warpdeck.client.runs.run import RunData, chosen
from warpdeck.client.runs.run_reader import AT_ONCE, read_run
from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.deck import Deck
from warpdeck_tui.screens.shared.jobs.job_list import JobListScreen
from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.viewmodels.cells import plural
from warpdeck_tui.viewmodels.jobs.order import Order
from warpdeck_tui.viewmodels.metrics.chart import MAX_RUNS as MAX_CURVES
from warpdeck_tui.viewmodels.runs.table import (
    RunColumn,
    RunRows,
    best_words,
    ordered,
    run_columns,
)
from warpdeck_tui.widgets.columns import Column
from warpdeck_tui.widgets.rows import RowSource

MAX_READ = 200
"""Largest number of runs in the table, the latest ones. The log of each is read."""
PREVIEW_FROM = 180
"""Least width at which the preview stands beside the table."""
AGAIN_S = 30.0
"""Seconds between two reads of the runs that have not ended."""
LOOK_S = 10.0
"""Seconds between two looks for new runs."""
Ask = Callable[[], Awaitable[Sequence[JobRow]]]


class RunsScreen(JobListScreen):
    """The table. `ask` returns the jobs that are its runs."""

    place = "runs"
    first_columns = ("job", "state", "name", "time", "where")
    BINDINGS: ClassVar[list[BindingType]] = bindings("runs")

    def __init__(self, title: str, ask: Ask) -> None:
        super().__init__()
        self._title_words = title
        self._ask = ask
        self._runs: dict[int, RunData] = {}
        self._read_at: dict[int, float] = {}
        self._run_columns: dict[str, RunColumn] = run_columns(())
        self._told = "Loading..."

    def arrive(self) -> None:
        super().arrive()
        self.every(LOOK_S, self._look)
        self._look()

    def _arrange(self) -> None:
        """Show the preview only if the columns have enough space beside it."""
        self.has_preview = self.size.width >= PREVIEW_FROM
        super()._arrange()

    @work(exclusive=True, group="runs")
    async def _look(self) -> None:
        """Request the runs, then read those that are new or have changed, and show each when it arrives."""
        if self.deck.front is not self:
            return
        try:
            rows = sorted(await self._ask(), key=lambda row: -row.id)[:MAX_READ]
        except UserError as error:
            self._told = f"{error.message}. {error.hint}"
            self.tick()
            return
        self._told = "No job here has run yet"
        begun = {row.id: row for row in rows if not row.tasks_pending}
        self._runs = {
            number: self._runs.get(number, RunData(row))._replace(row=row) for number, row in begun.items()
        }
        self.draw()
        turn = asyncio.Semaphore(AT_ONCE)
        stale = [row for row in begun.values() if self._is_stale(row)]
        for reading in asyncio.as_completed([read_run(self.deck.core, row, turn) for row in stale]):
            run = await reading
            self._read_at[run.row.id] = math.inf if run.row.end is not None else time.monotonic()
            self._runs[run.row.id] = run
            self.draw()

    def _is_stale(self, row: JobRow) -> bool:
        return time.monotonic() - self._read_at.get(row.id, -math.inf) > AGAIN_S

    # ---- Drawing

    def draw(self) -> None:
        """Show the runs. The columns follow from what the runs have in common."""
        if self.deck.front is not self:
            return
        columns = run_columns(list(self._runs.values()))
        before, self._run_columns = self.table_columns(beside=False), columns
        shapes = self.table_columns(beside=False)
        if shapes != before:
            self.table.use_columns(shapes)
        self.tick()

    def table_columns(self, *, beside: bool) -> Sequence[Column]:
        return [each.column for each in self._run_columns.values()]

    @property
    def sortable(self) -> Collection[str]:
        return self._run_columns

    def rows(self, *, now: float) -> RowSource:
        live = [run._replace(row=self._live(run.row)) for run in self._runs.values()]
        shown = chosen(live, self.filter_text, me=self.deck.board.user, now=time.time())
        return RunRows(ordered(shown, self._run_columns, self.order), self._run_columns, now=now)

    def _live(self, row: JobRow) -> JobRow:
        return self.deck.board.jobs.get(row.id, row)

    def shown_job(self, key: str) -> JobRow | None:
        run = self._runs.get(int(key)) if key.isdigit() else None
        return None if run is None else self._live(run.row)

    def words(self) -> str:
        runs = list(self._runs.values())
        unread = sum(not run.is_read for run in runs)
        reading = f"   reading {unread} of {len(runs)} logs" if unread else ""
        matching = f" matching {self.filter_text}" if self.filter_text else ""
        best = best_words(runs)
        return f"{self._title_words}   {plural(len(runs), 'run')}{matching}{reading}{f'   {best}' if best else ''}"

    def nothing(self) -> str:
        return "No runs match the filter. Press Esc to clear it" if self.filter_text else self._told

    # ---- Actions

    def action_sort(self) -> None:
        """Sort by the next column. After the last column, return to the default order."""
        names = ["", *self._run_columns]
        at = names.index(self.order.column) if self.order.column in names else 0
        self.sort_by(Order(names[(at + 1) % len(names)]))

    def action_curves(self) -> None:
        """Open the metrics of the run under the cursor, with the curves of the marked runs."""
        keys = self.job_keys
        if keys:
            self.deck.navigation.open_job(keys[0], pane="metrics", others=tuple(keys[1:MAX_CURVES]))

    def action_clear(self) -> None:
        if self.filter_text or self.table.marked:
            super().action_clear()
        else:
            self.app.pop_screen()


def open_runs(deck: Deck, row: JobRow) -> RunsScreen:
    """Return the table of the runs that belong to a job: the tasks of its array, or the user's jobs of its name."""
    if row.array_task_id is not None or row.tasks_pending:

        async def tasks() -> Sequence[JobRow]:
            return await deck.core.tasks(row)

        return RunsScreen(f"Runs of array {row.array_job_id} {row.name}", tasks)

    async def named() -> Sequence[JobRow]:
        past = await deck.core.past_named(row.user, name=row.name)
        rows = {each.id: each for each in (*past, *deck.board.jobs.values())}
        return [each for each in rows.values() if (each.user, each.name) == (row.user, row.name)]

    return RunsScreen(f"Runs of {row.name} of {row.user}", named)
