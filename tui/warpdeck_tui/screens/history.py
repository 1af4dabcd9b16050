"""The "History" screen: ended jobs of any age, from the controller's store.

Only the pages around the cursor are kept in memory.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from typing import ClassVar, TextIO

import msgspec
from textual import work
from textual.binding import BindingType

from warpdeck.base.errors import UserError
from warpdeck.model.finished_jobs import FINISHED_ORDERS, MAX_PAGE_JOBS, FinishedQuery
from warpdeck.notation.filters.job_filter import parse_filter
from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.screens.shared.dialogs import EXPORT_NAMES, Ask
from warpdeck_tui.screens.shared.jobs.job_list import FilterLine, JobListScreen
from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.user_files.new_file import new_file, removed_unless_whole
from warpdeck_tui.viewmodels.jobs.job_columns import OFFERED_FOR_PAST, PAST_COLUMNS
from warpdeck_tui.viewmodels.site.exports import Form, form_of, records
from warpdeck_tui.viewmodels.site.history_pages import PAGE_JOBS, PastPages, PastRows
from warpdeck_tui.widgets.rows import RowSource

from .usage import UsagePage

TYPING_S = 0.15
"""Seconds without typing after which a filter is sent, because each query may search a million jobs."""


class HistoryScreen(JobListScreen):
    """The list of ended jobs.

    It is requested when the screen opens or the filter changes, and does not update by itself.
    """

    place = "history"
    first_columns = PAST_COLUMNS
    offered_columns = OFFERED_FOR_PAST
    saved_columns = "past_columns"
    BINDINGS: ClassVar[list[BindingType]] = bindings("history")

    def __init__(self, first_filter: str = "") -> None:
        super().__init__()
        self._first_filter = first_filter
        self._pages = PastPages()
        self._query: FinishedQuery | None = None
        """The query that the pages belong to."""
        self._asked: FinishedQuery | None = None
        self._wanted: list[int] = []
        self._marked: dict[str, JobRow] = {}
        self._words = "Loading..."
        self._until = time.time()
        self._adding = False

    def arrive(self) -> None:
        super().arrive()
        self.use_columns(self.saved_views().past_columns)
        if self._first_filter:
            self.narrow(self._first_filter)

    def on_screen_resume(self) -> None:
        """Reload the list, because actions in a dialog or on a job's page may have changed it."""
        if not self.is_left:
            super().on_screen_resume()
            self._load(wait_s=0.0)

    # ---- Queries

    def draw(self) -> None:
        if self._choice() != self._asked:
            typed = self.query_one(FilterLine).has_focus
            self._load(wait_s=TYPING_S if typed else 0.0)
        self.tick()

    def _choice(self) -> FinishedQuery:
        return FinishedQuery(
            user=None if self.deck.everybody else self.deck.board.user,
            clauses=parse_filter(self.filter_text, me=self.deck.board.user),
            order=self.order.column or "end",
            descending=self.order.descending if self.order.column else True,
        )

    @work(exclusive=True, group="load")
    async def _load(self, *, wait_s: float) -> None:
        """Load the first page of the current query and the number of its jobs.

        If the query has not changed, the cursor stays, and the page under it is loaded when it is drawn.
        """
        choice = self._asked = self._choice()
        again = self._query is not None and msgspec.structs.replace(self._query, until=None) == choice
        if not again or not self.table.cursor_index:
            self._until = time.time()
        await asyncio.sleep(wait_s)
        query = msgspec.structs.replace(choice, until=self._until)
        try:
            first = await self.deck.core.past(msgspec.structs.replace(query, limit=PAGE_JOBS), counted=True)
        except UserError as error:
            self._words = f"{error.message}. {error.hint}"
            self._pages = PastPages()
        else:
            self._words = "No finished jobs"
            self._pages = PastPages(first.total or 0)
            self._pages.put(0, first.jobs)
        self._query = query
        self.tick()
        if not again:
            self.table.action_first()

    def _want(self, page: int) -> None:
        """Request a page that is visible but not loaded."""
        if page not in self._wanted:
            self._wanted.append(page)
            self.call_next(self._fetch)

    @work(exclusive=True, group="fetch")
    async def _fetch(self) -> None:
        """Load the page that was shown last. Pages that were only passed by meanwhile are not requested."""
        while self._wanted and self._query is not None:
            pages, page = self._pages, self._wanted[-1]
            self._wanted.clear()
            try:
                told = await self.deck.core.past(pages.query(page, self._query))
            except UserError as error:
                if error.code == "moved":
                    self._load(wait_s=0.0)
                else:
                    self.deck.tell_error(error)
                return
            if pages is self._pages and not pages.put(page, told.jobs):
                self._load(wait_s=0.0)
            self.tick()

    # ---- Drawing

    @property
    def sortable(self) -> Collection[str]:
        return FINISHED_ORDERS

    @property
    def text_widths(self) -> Mapping[str, int]:
        return self._pages.widths.widths

    def rows(self, *, now: float) -> RowSource:
        return PastRows(self._pages, self.columns, now=now, missing=self._want)

    def shown_job(self, key: str) -> JobRow | None:
        return self._pages.job(key) or self._marked.get(key)

    def on_virtual_table_marked(self) -> None:
        """Keep the rows of marked jobs, because their pages may be dropped."""
        keys = self.table.marked
        found = {key: row for key in keys if (row := self.shown_job(key)) is not None}
        self._marked = found
        super().on_virtual_table_marked()

    def words(self) -> str:
        whose = "all" if self.deck.everybody else f"{self.deck.board.user}'s"
        at = f", {self.table.cursor_index + 1:,} of {len(self._pages):,}" if len(self._pages) else ""
        matching = f" matching {self.filter_text}" if self.filter_text and at else ""
        adding = "   adding up..." if self._adding else ""
        return f"history: {whose} jobs{at}{matching}{adding}"

    def nothing(self) -> str:
        if self.filter_text and self._words == "No finished jobs":
            return self.no_match()
        return self._words

    # ---- Actions

    @work(exclusive=True, group="usage")
    async def action_usage(self) -> None:
        """Show the resource usage of the listed jobs.

        For a million jobs this takes the store a second or two.
        """
        self._adding = True
        self.tick()
        whose = "all jobs" if self.deck.everybody else f"{self.deck.board.user}'s jobs"
        matching = f", {self.filter_text}" if self.filter_text else ""
        try:
            groups = await self.deck.core.past_costs(self._choice())
        except UserError as error:
            self.deck.tell_error(error)
            return
        finally:
            self._adding = False
            self.tick()
        self.app.push_screen(UsagePage(f"Usage: {whose}{matching}", groups))

    def action_export(self) -> None:
        query, total = self._query, len(self._pages)
        if not total or query is None:
            self.app.notify("No jobs to export", severity="warning")
            return

        def write(path: str | None) -> None:
            if path:
                self._export(query, path)

        title = f"Export {_jobs(total)} to file {EXPORT_NAMES}"
        self.app.push_screen(
            Ask(title, required="Enter a file name, for example jobs.csv", check=form_of), write
        )

    @work(exclusive=True, group="export")
    async def _export(self, query: FinishedQuery, path: str) -> None:
        """Write all jobs of the query into a file, page by page, so that they are never all in memory.

        Leaving the screen cancels the export and removes the file.
        """
        try:
            form, file = form_of(path), await asyncio.to_thread(new_file, path)
            with file, removed_unless_whole(path):
                written = await self._write(query, form, file)
        except UserError as error:
            self.deck.tell_error(error)
        except OSError as error:
            self.app.notify(f"Cannot write {path}: {error.strerror}", severity="error", markup=False)
        else:
            self.app.notify(f"Wrote {_jobs(written)} to {path}", markup=False)

    async def _write(self, query: FinishedQuery, form: Form, file: TextIO) -> int:
        file.write(form.begin)
        written, last = 0, None
        while True:
            asked = msgspec.structs.replace(query, beside=last, limit=MAX_PAGE_JOBS)
            rows = (await self.deck.core.past(asked)).jobs
            file.write(await asyncio.to_thread(_piece, form, rows, not written))
            written += len(rows)
            if len(rows) < MAX_PAGE_JOBS:
                break
            last = rows[-1].id
        file.write(form.end)
        return written

    def action_clear(self) -> None:
        if self.filter_text or self.table.marked or self.query_one(FilterLine).has_focus:
            super().action_clear()
        else:
            self.app.pop_screen()


def _jobs(count: int) -> str:
    return f"{count:,} job{'' if count == 1 else 's'}"


def _piece(form: Form, rows: list[JobRow], first: bool) -> str:
    return form.piece(records(rows), first)
