"""The "Queue" screen: jobs with their state, progress, GPU utilization and, if they wait, the reason."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import ClassVar

from textual.binding import BindingType

from warpdeck.notation.filters.job_filter import has_times, plain_words
from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui import screens
from warpdeck_tui.screens.shared.jobs.job_list import MOST_MARKED, FilterLine, JobListScreen
from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.user_files.saved_views import (
    View,
    Views,
    sort_text,
)
from warpdeck_tui.viewmodels.jobs.arrays import Fold, fold_key
from warpdeck_tui.viewmodels.jobs.job_columns import JobRows
from warpdeck_tui.viewmodels.jobs.listing import Choice, Listing
from warpdeck_tui.viewmodels.jobs.queue import summary
from warpdeck_tui.viewmodels.jobs.waiting import LinePlaces
from warpdeck_tui.widgets.cells import printable
from warpdeck_tui.widgets.rows import RowSource

FILTER_S = 60.0
"""Seconds after which a filter with a past time, such as end>2h ago, is applied again."""
REST_S = 0.005
"""Seconds between two slices of a long queue, in which keys are handled."""


class QueueScreen(JobListScreen):
    """The waiting and running jobs and those that ended in the last hour, of the user or of everybody."""

    place = "queue"
    BINDINGS: ClassVar[list[BindingType]] = bindings("queue")

    def __init__(self) -> None:
        super().__init__()
        self.listing = Listing()
        self._goes_on = False
        self._line = LinePlaces()
        self._summary = ""
        self._view = ""

    def draw(self) -> None:
        user = None if self.deck.everybody else self.deck.board.user
        now = time.time() // FILTER_S * FILTER_S if has_times(self.filter_text) else 0.0
        choice = Choice(user, self.filter_text, self.order, self.deck.board.user, now)
        if self.listing.follow(self.deck.board.jobs, choice):
            self._summary = summary(self.listing.jobs.values())
        self.tick()
        if self.listing.behind and not self._goes_on:
            self._goes_on = True
            self.set_timer(REST_S, self._go_on)

    def _go_on(self) -> None:
        """Process the next slice of a long queue.

        If another screen is in front, this waits until the queue is visible again.
        """
        self._goes_on = False
        if self.deck.front is self:
            self.draw()

    def rows(self, *, now: float) -> RowSource:
        places = self._line.of(self.deck.board.jobs, now=now)
        return JobRows(self.listing, self.columns, now=now, lost=self.deck.board.lost, places=places)

    @property
    def text_widths(self) -> Mapping[str, int]:
        return self.listing.widths.widths

    def place_in_line(self, row: JobRow) -> int:
        return self._line.of(self.deck.board.jobs, now=time.time()).get(row.id, 0)

    def array(self, key: str) -> Fold | None:
        return self.listing.fold(key)

    def shown_job(self, key: str) -> JobRow | None:
        return self.listing.jobs.get(int(key)) if key.isdigit() else None

    def applies(self, action: str) -> bool:
        return self._array_number() is not None if action == "fold" else super().applies(action)

    def _array_number(self) -> int | None:
        """Return the number of the array that has its row or a task under the cursor, or None."""
        key = self.table.cursor_key
        array, row = self.array(key), self.shown_job(key)
        if array is not None:
            return array.array_job_id
        return row.array_job_id if row is not None and self.listing.stands_below(row) else None

    def action_fold(self) -> None:
        """Open the array under the cursor, or fold the array of the task under the cursor."""
        number, key = self._array_number(), self.table.cursor_key
        if number is None:
            self.app.notify("No array under the cursor", severity="warning")
            return
        self.listing.toggle(number)
        self.tick()
        if self.array(key) is None:
            self.table.go_to(fold_key(number))

    def action_mark_all(self) -> None:
        count = len(self.listing.entries)
        if count > MOST_MARKED:
            words = f"Cannot mark {count:,} rows: the limit is {MOST_MARKED:,}. Narrow the list with a filter"
            self.app.notify(words, severity="warning")
        else:
            self.table.mark_all()

    def _whose(self) -> str:
        return "all jobs" if self.deck.everybody else f"jobs of {self.deck.board.user}"

    def words(self) -> str:
        view = f"[{self._view}] " if self._view else ""
        whose = view + self._whose()
        board = self.deck.board
        narrowed = f"   {len(self.listing.jobs):,} match {self.filter_text}" if self.filter_text else ""
        if not board.ready:
            return whose + narrowed
        return f"{whose}{narrowed}   {self._summary}"

    def nothing(self) -> str:
        if not self.deck.board.ready:
            return printable(self.deck.board.away) or "Connecting..."
        if self.filter_text:
            return self.no_match()
        others = not self.deck.everybody and bool(self.deck.board.jobs)
        if self.impossible("new_job"):
            return "No jobs" + (". Press u to show all users" if others else "")
        return "No jobs. Press n to submit one" + (", or u to show all users" if others else "")

    # ---- Saved views

    def arrive(self) -> None:
        super().arrive()
        self.use_columns(self.saved_views().columns)

    def on_screen_resume(self) -> None:
        if not self.is_left:
            self.deck.offer_welcome()

    def action_next_view(self) -> None:
        """Apply the next saved view. After the last one, return to the default view."""
        kept = self.saved_views()
        if not kept.views:
            self.app.notify("No saved views. Press W to save this one", severity="warning")
            return
        names = ["", *kept.views]
        at = names.index(self._view) if self._view in names else 0
        self._view = names[(at + 1) % len(names)]
        view = kept.views.get(self._view, View())
        self.deck.everybody = view.everybody
        self.use_columns(view.columns or kept.columns)
        line = self.query_one(FilterLine)
        line.value, line.display = view.filter, bool(view.filter)
        self.filter_text = view.filter
        self.table.highlight(plain_words(view.filter))
        self.sort_by(view.order)

    def action_save_view(self) -> None:
        view = View(
            filter=self.filter_text,
            everybody=self.deck.everybody,
            sort=sort_text(self.order),
            columns=self.columns,
        )

        def save(name: str | None) -> None:
            if name and self.change_views(lambda views: views.saved(name, view)):
                self._view = name
                self.tick()

        self.app.push_screen(
            screens.Ask(
                "Save view as (filter, users, sort order, columns)",
                required="Enter a name",
                value=self._view,
                check=lambda name: Views().saved(name, view),
            ),
            save,
        )
