"""Base class of the queue and the history: a table of jobs with a filter line, and the actions on its
jobs.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import msgspec
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.widgets import Input, Static

from warpdeck.base.errors import UserError
from warpdeck.base.paths import config_dir
from warpdeck.notation.filters.job_filter import plain_words, probable_mistake
from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.screens.shared.deck_screen import DeckScreen, paint
from warpdeck_tui.screens.shared.frames import Frame
from warpdeck_tui.screens.shared.key_line import KeyLine
from warpdeck_tui.screens.shared.preview import FIRST_COLUMNS, Preview
from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.user_files.saved_views import Views, read_views, write_views
from warpdeck_tui.viewmodels import Line
from warpdeck_tui.viewmodels.jobs.arrays import Fold
from warpdeck_tui.viewmodels.jobs.job_columns import DEFAULT_COLUMNS, JOB_COLUMNS, NO_WIDTHS, columns_of
from warpdeck_tui.viewmodels.jobs.order import SORTED_BY, Order, rank
from warpdeck_tui.viewmodels.jobs.queue import array_in_full, in_full, targets
from warpdeck_tui.viewmodels.jobs.verbs import JOB_VERBS, fits
from warpdeck_tui.widgets.columns import Column
from warpdeck_tui.widgets.rows import RowSource
from warpdeck_tui.widgets.virtual_table import VirtualTable

TICK_S = 1.0
RECENT_S = 0.9
"""Age in seconds up to which drawn times are recent enough."""
MOST_MARKED = 1_000
"""Largest number of rows that can be marked at once. Each key processes all marks, and nobody reads a longer
list before confirming.
"""
FILTER_EXAMPLE = "text, user:me, state:F, gpu>4, name~llm, lr=0.1, end>2h ago, !text"


class FilterLine(Input):
    """Input line for the filter, which is applied while it is typed."""

    place = "filter"
    BINDINGS: ClassVar[list[BindingType]] = bindings("filter")


class JobListScreen(DeckScreen):
    """A screen with a table of jobs."""

    first_columns: ClassVar[tuple[str, ...]] = DEFAULT_COLUMNS
    offered_columns: ClassVar[tuple[str, ...]] = tuple(JOB_COLUMNS)
    saved_columns: ClassVar[str] = "columns"
    """The field of the saved views that holds the chosen columns."""

    def __init__(self) -> None:
        super().__init__()
        self.filter_text = ""
        self._drawn_at = 0.0
        self.order = Order()
        self.columns: tuple[str, ...] = self.first_columns
        self.has_preview = True

    def compose(self) -> ComposeResult:
        yield from self.top()
        with Horizontal(id="pair"):
            with Frame(is_main=True):
                yield VirtualTable(
                    columns_of(self.columns), self.deck.palette, empty="Connecting...", id="queue", marks=True
                )
            yield Preview()
        yield Static("", id="told", markup=False)
        yield FilterLine(id="filter", placeholder=FILTER_EXAMPLE, compact=True, select_on_focus=False)
        yield KeyLine()

    @property
    def table(self) -> VirtualTable:
        return self.query_one(VirtualTable)

    @property
    def job_keys(self) -> list[str]:
        """The marked jobs or, if there are none, the job under the cursor.

        A row for an array counts as all its tasks.
        """
        keys = list(self.table.marked) or [key for key in (self.table.cursor_key,) if key]
        return list(dict.fromkeys(number for key in keys for number in self._jobs_of(key)))

    def _jobs_of(self, key: str) -> list[str]:
        array = self.array(key)
        return [key] if array is None else [str(row.id) for row in sorted(array.rows(), key=rank)]

    def applies(self, action: str) -> bool:
        """Return whether an action is useful for the selected jobs.

        This is called at each move of the cursor. For an array, one task of each state is enough to decide.
        """
        if action not in JOB_VERBS:
            return True
        rows: list[JobRow] = []
        for key in self.table.marked or (self.table.cursor_key,):
            array, row = self.array(key), self.shown_job(key)
            rows += array.kinds() if array is not None else [row] if row is not None else []
        return fits(action, rows)

    def array(self, key: str) -> Fold | None:
        """Return the array of the row with this key, or None."""
        return None

    def arrive(self) -> None:
        self.query_one(FilterLine).display = False
        self.every(TICK_S, self._on_clock)
        self.table.focus()
        self.draw()

    @property
    def sortable(self) -> Collection[str]:
        """The columns by which the table can be sorted."""
        return SORTED_BY

    def table_columns(self, *, beside: bool) -> Sequence[Column]:
        """Return the columns of the table. `beside` means that the preview is shown."""
        return columns_of(self.columns, beside=beside, widths=self.text_widths)

    @property
    def text_widths(self) -> Mapping[str, int]:
        """The widest text in each column to which the column is fitted."""
        return NO_WIDTHS

    @abstractmethod
    def rows(self, *, now: float) -> RowSource:
        """Return the rows of the table as they are now."""

    @abstractmethod
    def words(self) -> str:
        """Return the title's text about the rows."""

    @abstractmethod
    def nothing(self) -> str:
        """Return the text for an empty table."""

    def no_match(self) -> str:
        """Return the text for a table that is empty because of the filter.

        It mentions a part of the filter that is invalid.
        """
        return f"{probable_mistake(self.filter_text) or 'No jobs match the filter'}. Press Esc to clear it"

    def recolour(self) -> None:
        self.table.use_palette(self.deck.palette)
        self.query_one(Preview).recolour()
        self._tell()

    # ---- The preview

    def on_resize(self) -> None:
        if not self.is_left:
            self._arrange()

    def _arrange(self) -> None:
        """Show the preview if there is space for it and the user wants it. Otherwise show its summary below the list."""
        shown = self.has_preview and self.size.width >= FIRST_COLUMNS
        pane, told = self.query_one(Preview), self.query_one("#told", Static)
        if pane.display == shown and told.display != shown:
            return
        pane.display, told.display = shown, not shown
        self.table.use_columns(self.table_columns(beside=shown))
        if not shown:
            pane.stop()
        self._tell()

    def on_screen_resume(self) -> None:
        """Apply the choice about the preview, which may have been made on another screen."""
        if not self.is_left:
            self.has_preview = self.saved_views().preview
            self._arrange()

    def on_screen_suspend(self) -> None:
        if self.has_arrived:
            self.query_one(Preview).stop()

    def action_preview(self) -> None:
        """Show or hide the preview, and keep the choice."""
        if self.size.width < FIRST_COLUMNS:
            self.app.notify(f"The preview needs {FIRST_COLUMNS} columns; the terminal has {self.size.width}")
            return
        self.has_preview = not self.has_preview
        shown = self.has_preview
        self.change_views(lambda views: msgspec.structs.replace(views, preview=shown))
        self._arrange()

    @property
    def _file(self) -> Path:
        return Path(config_dir()) / "views.json"

    def saved_views(self) -> Views:
        """Return the saved views.

        If the file cannot be read, show the error to the user and return no views.
        """
        try:
            return read_views(self._file)
        except UserError as error:
            self.deck.tell_error(error)
            return Views()

    def change_views(self, change: Callable[[Views], Views]) -> bool:
        """Change the file of views, and return whether that succeeded.

        A file that cannot be read is left unchanged.
        """
        try:
            write_views(self._file, change(read_views(self._file)))
        except UserError as error:
            self.deck.tell_error(error)
            return False
        return True

    def _on_clock(self) -> None:
        """Draw the rows again, unless an update has drawn them a moment ago.

        After a while without a key, every second time is enough: each row of a running job shows a clock, so that drawing
        them is most of the work of an app that nobody uses.
        """
        recent_s = RECENT_S + TICK_S if self.rests else RECENT_S
        if time.monotonic() - self._drawn_at >= recent_s:
            self.tick()

    def tick(self) -> None:
        """Draw the rows again. Between two changes only the times of visible rows differ."""
        if self.deck.front is not self:
            return
        self._drawn_at = time.monotonic()
        rows = self.rows(now=time.time())
        if len(rows):
            self._fit_columns()
            self.table.update(rows)
        else:
            self.table.show([], empty=self.nothing())
        self._tell()
        marked = len(self.table.marked)
        self.set_head((f"{marked} marked   " if marked else "") + self.words())

    def _tell(self) -> None:
        """Show the job under the cursor in the preview, or in full below the list.

        The table cuts off its last column.
        """
        key, now = self.table.cursor_key, time.time()
        array, row = self.array(key), self.shown_job(key)
        told = self.query_one("#told", Static)
        self.query_one(Preview).show(row, array)
        if told.display:
            lines = [] if row is None else [self._in_full(row, now=now)]
            if array is not None:
                lines = [array_in_full(array, now=now)]
            told.update(paint(lines, self.deck.palette), layout=False)
        self.show_keys()

    def _in_full(self, row: JobRow, *, now: float) -> Line:
        return in_full(row, now=now, lost=self.deck.board.lost, place=self.place_in_line(row))

    def place_in_line(self, row: JobRow) -> int:
        """Return the place of a waiting job in the line of its partition, or 0."""
        return 0

    def on_virtual_table_moved(self) -> None:
        self._tell()

    def on_virtual_table_selected(self, event: VirtualTable.Selected) -> None:
        """Show or hide the tasks of an array, or open the page of a job."""
        if self.array(event.key) is not None:
            self.action_fold()
        else:
            self.deck.navigation.open_job(event.key)

    def action_fold(self) -> None:
        """Open or fold the array under the cursor, on screens that show arrays as one row."""

    def on_virtual_table_header_selected(self, event: VirtualTable.HeaderSelected) -> None:
        """Sort by a column after a click on its title. A second click reverses the order."""
        if event.key == self.order.column:
            self.action_reverse()
        elif event.key in self.sortable:
            self.sort_by(Order(event.key))

    def sort_by(self, order: Order) -> None:
        self.order = order
        self.table.show_sort(order.column, descending=order.descending)
        self.draw()

    def action_sort(self) -> None:
        """Sort by the next column. After the last column, return to the default order."""
        names = ["", *(name for name in self.columns if name in self.sortable)]
        at = names.index(self.order.column) if self.order.column in names else 0
        self.sort_by(Order(names[(at + 1) % len(names)]))

    def action_reverse(self) -> None:
        if self.order.column:
            self.sort_by(self.order._replace(descending=not self.order.descending))
        else:
            self.app.notify("No sort column. Press s to choose one", severity="warning")

    def use_columns(self, names: tuple[str, ...]) -> None:
        """Show these columns, also below a dialog."""
        self.columns = names
        self._fit_columns()
        self.table.update(self.rows(now=time.time()))
        self.tick()

    def action_columns(self) -> None:
        # The first frame does not need the module.
        from warpdeck_tui.screens.shared.column_picker import ColumnPicker

        def keep(names: tuple[str, ...] | None) -> None:
            if names:
                field = self.saved_columns
                self.change_views(lambda views: msgspec.structs.replace(views, **{field: names}))

        picker = ColumnPicker(
            self.columns, self.use_columns, defaults=self.first_columns, offered=self.offered_columns
        )
        self.app.push_screen(picker, keep)

    def _fit_columns(self) -> None:
        self.table.use_columns(self.table_columns(beside=self.query_one(Preview).display))

    def action_copy(self) -> None:
        rows = [row for key in self.job_keys if (row := self.shown_job(key)) is not None]
        self.deck.copy(" ".join(targets("", rows, ())))

    def on_input_changed(self, event: Input.Changed) -> None:
        self.filter_text = event.value
        self.table.highlight(plain_words(event.value))
        self.draw()

    def on_input_submitted(self) -> None:
        line = self.query_one(FilterLine)
        line.display = bool(line.value)
        self.table.focus()

    def action_filter(self) -> None:
        line = self.query_one(FilterLine)
        line.display = True
        self.set_focus(line)  # at once, because the next keys are text of the filter

    def narrow(self, text: str) -> None:
        """Set the filter as if the user had typed and confirmed it."""
        self.query_one(FilterLine).value = text
        self.on_input_submitted()

    def action_runs(self) -> None:
        """Open the table of the runs of the array under the cursor, or of the jobs with the name of that job."""
        key = self.table.cursor_key
        array = self.array(key)
        row = array.head if array is not None else self.shown_job(key)
        if row is not None:
            self.deck.navigation.open_runs(row)

    def action_everybody(self) -> None:
        self.deck.everybody = not self.deck.everybody
        self.draw()

    def action_log(self) -> None:
        key = self.table.cursor_key
        array = self.array(key)
        if array is not None:
            self.deck.verbs.log_of_array(array.head)
        elif key:
            self.deck.verbs.log(key)

    def go_to(self, key: str) -> None:
        """Move the cursor to this job, now or when it appears, unless the user moves the cursor before."""
        self.table.go_to(key)

    def on_virtual_table_marked(self) -> None:
        self.tick()

    def action_mark(self) -> None:
        self.table.mark()

    def action_mark_range(self) -> None:
        if not self.table.mark_range(most=MOST_MARKED):
            words = f"Cannot mark more than {MOST_MARKED:,} rows. Narrow the list with a filter"
            self.app.notify(words, severity="warning")

    def action_clear(self) -> None:
        """Clear the marks or, if there are none or the filter line has the focus, the filter."""
        line = self.query_one(FilterLine)
        if line.has_focus or not self.table.clear_marks():
            line.value = ""
            self.on_input_submitted()
