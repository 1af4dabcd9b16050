"""What the queue and the history share: a table of jobs with a filter line, and jobs as what the verbs mean."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Input, Static

from warpdeck.api.rows import JobRow
from warpdeck_tui.actions import bindings
from warpdeck_tui.viewmodels.filters import plain_words
from warpdeck_tui.viewmodels.queue import LIMIT_WIDTH, UTIL_WIDTH, QueueRows, choose, in_full
from warpdeck_tui.widgets.virtual_table import Column, VirtualTable

from .base import DeckScreen, paint
from .keyline import KeyLine

TICK_S = 1.0
PRIORITY_FROM = 140
"""On narrower terminals the reason needs the room more than the priority."""
COLUMNS = (
    Column("JOB", 10, flex=1, most=16),
    Column("STATE", 5),
    Column("NAME", 14, flex=1, most=28),
    Column("USER", 8, 1),
    Column("GPU", 3, align="right"),
    Column("PRIO", 7, align="right", since=PRIORITY_FROM),
    Column("TIME", 8, align="right"),
    Column("LIMIT", LIMIT_WIDTH, 2),
    Column("UTIL", UTIL_WIDTH, 3),
    Column("WHERE OR WHY", 0, flex=8),
)
FILTER_EXAMPLE = "words, user:bob, state:R, gpu>4, !word"


class FilterLine(Input):
    """Narrows while it is typed."""

    place = "filter"
    BINDINGS: ClassVar[list[BindingType]] = bindings("filter")


class JobListScreen(DeckScreen):
    """A table of jobs."""

    def __init__(self) -> None:
        super().__init__()
        self.filter_text = ""
        self._chosen: list[JobRow] = []

    def compose(self) -> ComposeResult:
        yield Static("", id="head", markup=False)
        yield VirtualTable(COLUMNS, self.deck.palette, empty="connecting ...", id="queue", marks=True)
        yield Static("", id="told", markup=False)
        yield FilterLine(id="filter", placeholder=FILTER_EXAMPLE, compact=True, select_on_focus=False)
        yield KeyLine()

    @property
    def table(self) -> VirtualTable:
        return self.query_one(VirtualTable)

    @property
    def job_keys(self) -> list[str]:
        """The marked jobs, else the one under the cursor."""
        return list(self.table.marked) or [key for key in (self.table.cursor_key,) if key]

    def shown_job(self, key: str) -> JobRow | None:
        return next((row for row in self._chosen if str(row.id) == key), None)

    def arrive(self) -> None:
        self.query_one(FilterLine).display = False
        self.set_interval(TICK_S, self.tick)
        self.table.focus()
        self.draw()

    @abstractmethod
    def source(self) -> Iterable[JobRow]:
        """All jobs of this screen."""

    @abstractmethod
    def words(self) -> str:
        """What the head says of them."""

    @abstractmethod
    def nothing(self) -> str:
        """What an empty table says."""

    def recolour(self) -> None:
        self.table.use_palette(self.deck.palette)

    def draw(self) -> None:
        user = None if self.deck.everybody else self.deck.user
        self._chosen = choose(self.source(), user=user, text=self.filter_text)
        self.tick()

    def tick(self) -> None:
        """Only the times of the visible rows have changed."""
        if self.deck.front is not self:
            return
        if self._chosen:
            self.table.update(QueueRows(self._chosen, now=time.time()))
        else:
            self.table.show([], empty=self.nothing())
        narrowed = f"   {len(self._chosen)} match {self.filter_text}" if self.filter_text else ""
        self._tell()
        marked = len(self.table.marked)
        self.set_head(self.words() + narrowed + (f"   {marked} marked" if marked else ""))

    def _tell(self) -> None:
        """The job under the cursor in full: the table cuts its last column."""
        row = self.shown_job(self.table.cursor_key)
        lines = [] if row is None else [in_full(row, now=time.time())]
        self.query_one("#told", Static).update(paint(lines, self.deck.palette))
        self.show_keys()

    def on_virtual_table_moved(self) -> None:
        self._tell()

    def on_virtual_table_selected(self, event: VirtualTable.Selected) -> None:
        self.deck.open_job(event.key)

    def on_input_changed(self, event: Input.Changed) -> None:
        self.filter_text = event.value
        self.table.highlight(plain_words(event.value))
        self.draw()

    def on_input_submitted(self) -> None:
        self.query_one(FilterLine).display = bool(self.filter_text)
        self.table.focus()

    def action_filter(self) -> None:
        line = self.query_one(FilterLine)
        line.display = True
        self.set_focus(line)  # at once: what is typed next is the filter, not a key

    def action_everybody(self) -> None:
        self.deck.everybody = not self.deck.everybody
        self.draw()

    def action_log(self) -> None:
        if self.table.cursor_key:
            self.deck.verbs.log(self.table.cursor_key)

    def go_to(self, key: str) -> None:
        """Puts the cursor on that job, at once or when it is there; not if it was moved in between."""
        self.table.go_to(key)

    def on_virtual_table_marked(self) -> None:
        self.tick()

    def action_mark(self) -> None:
        self.table.mark()

    def action_clear(self) -> None:
        """What is narrowed or marked, one thing at a time; the filter first while it is typed."""
        line = self.query_one(FilterLine)
        if line.has_focus or not self.table.clear_marks():
            line.value = ""
            self.on_input_submitted()
