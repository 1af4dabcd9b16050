"""A table of any length.

Only visible lines are created, and only those that differ from the previous ones are written. Rows come from
a RowSource. The cursor and the marks stay on their keys when rows are added, removed or moved. `columns`
computes the widths of the columns. The cursor is shown by a symbol in the gutter as well as by color. The
terminal's own (hidden) cursor is placed on its row for screen readers and braille displays.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence, Set
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Offset, Region
from textual.message import Message
from textual.strip import Strip

from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.table.palette import PLAIN, Palette
from warpdeck_tui.widgets.log.matches import pointed_out, spans

from . import meter
from .cells import Cell, Gauge, fit, printable, role_of, text_of, with_both_ends
from .columns import Column, Placed, gap, layout
from .glyphs import CURSOR, DOWN, MARK, UP
from .line_view import LineView
from .lines import blank, finished
from .rows import RowList, RowSource

__all__ = ["Cell", "Column", "RowList", "RowSource", "VirtualTable"]

HEADER_LINES = 1
WHEEL_ROWS = 3
NUMBER_COLUMNS = 4
"""Number of columns of a percentage beside its bar."""
LEAST_BAR = 3
"""Least length of a bar. A shorter one says nothing."""
MATCH_MAX_CHARACTERS = 200
"""A longer filter is cut here for highlighting. Nobody searches for such a long word, and a longer pattern
slows down painting.
"""


class Drawn(NamedTuple):
    """The content of a line when it was last painted. If it is equal, the line need not be painted again."""

    key: str
    cells: Sequence[Cell]
    under_cursor: bool
    marked: bool


class VirtualTable(LineView):
    """The table: rows under a header line, with a cursor and, if `marks` is set, marked rows."""

    place = "list"
    shows_cursor_always: ClassVar[bool] = True
    """Whether the row under the cursor is marked also while another widget has the focus."""
    BINDINGS: ClassVar[list[BindingType]] = bindings("list")

    class _About(Message):
        """Base class of the messages about a row."""

        def __init__(self, table: VirtualTable, key: str) -> None:
            super().__init__()
            self.table = table
            self.key = key

        @property
        def control(self) -> VirtualTable:
            return self.table

    class Selected(_About):
        """Posted for Enter or a double click on a row."""

    class Moved(_About):
        """Posted when the cursor moves to another row."""

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, VirtualTable.Moved) and message.table is self.table

    class Marked(_About):
        """Posted when the marks have changed. `key` is the changed row, or "" for all."""

    class HeaderSelected(_About):
        """Posted for a click on the title of the column `key`."""

    def __init__(
        self,
        columns: Sequence[Column],
        styles: Palette,
        *,
        empty: str,
        id: str = "",
        marks: bool = False,
    ) -> None:
        super().__init__(styles, id=id)
        self._columns = tuple(columns)
        self._empty = empty
        self._takes_marks = marks
        self._source: RowSource = RowList()
        self._cursor = 0
        self._cursor_key = ""
        self._wanted_key = ""
        self._marks: set[str] = set()
        self._last_marked = ""
        self._sort: tuple[str, bool] = ("", False)
        self._words: re.Pattern[str] | None = None
        self._drawn: dict[int, Drawn | None] = {}
        self._placed: tuple[Placed, ...] = ()
        self._placed_for = -1

    @property
    def cursor_key(self) -> str:
        """The key under the cursor, or "" in an empty table."""
        return self._cursor_key

    @property
    def cursor_index(self) -> int:
        """The index of the row under the cursor."""
        return self._cursor

    @property
    def marks(self) -> Set[str]:
        """Keys of all marked rows. A marked row may be missing from the table at the moment."""
        return self._marks

    @property
    def marked(self) -> tuple[str, ...]:
        """The keys of the existing marked rows, in the order of the table."""
        return tuple(self._source.among(self._marks)) if self._marks else ()

    def show(self, rows: Sequence[tuple[str, Sequence[Cell]]], *, empty: str = "") -> None:
        """Replace all rows by these pairs of key and cells."""
        if empty and empty != self._empty:
            self._empty = empty
            self._drawn.clear()
            self.refresh()
        self.update(RowList(rows))

    def update(self, source: RowSource, *, changed_keys: Collection[str] | None = None) -> None:
        """Show the rows of this source.

        `changed_keys` are the keys of the rows whose cells differ, or None if that is unknown.
        """
        self._source = source
        count = len(source)
        self._stay_on_key(count)
        if self._wanted_key:
            self.go_to(self._wanted_key)
        self.set_content_rows(count + HEADER_LINES)
        if not count:
            self._drawn.clear()
            self.refresh()
            return
        self._repaint(changed_keys)

    def use_columns(self, columns: Sequence[Column]) -> None:
        """Replace the columns, unless they are the same. The source must have rows with these columns."""
        if tuple(columns) == self._columns:
            return
        self._columns = tuple(columns)
        self._placed_for = -1
        self._drawn.clear()
        self.refresh()

    def show_sort(self, column: str, *, descending: bool = False) -> None:
        """Show by which column the source is sorted; "" means none."""
        self._sort = (column, descending)
        self.refresh(Region(0, 0, self.line_width, HEADER_LINES))

    def highlight(self, text: str) -> None:
        """Highlight each word of this filter where it occurs; "" means none."""
        words = sorted(set(text[:MATCH_MAX_CHARACTERS].split()), key=lambda word: (-len(word), word))
        pattern = "|".join(map(re.escape, words))
        self._words = re.compile(pattern, re.IGNORECASE) if pattern else None
        self.refresh()

    def go_to(self, key: str) -> bool:
        """Move the cursor to the row with this key. Return False if it does not exist yet.

        In that case the cursor moves there when the row appears, unless the user has moved it before.
        """
        found = self._source.find(key, near=self._cursor)
        self._wanted_key = "" if found is not None else key
        if found is not None:
            self._go(found)
        return found is not None

    # Painting

    def render_line(self, y: int) -> Strip:
        width = self.line_width
        if y < HEADER_LINES:
            return self._header(width)
        line = self._line_at(y)
        self._drawn[y] = line
        if line is None:
            return self._blank(y, width)
        return self._row(line, width)

    def _line_at(self, y: int) -> Drawn | None:
        index = y - HEADER_LINES + self.scroll_offset.y
        if index >= len(self._source):
            return None
        key = self._source.key(index)
        under_cursor = index == self._cursor and (self.shows_cursor_always or self.has_focus)
        return Drawn(key, self._source.row(index), under_cursor, key in self._marks)

    def _layout(self, width: int) -> tuple[Placed, ...]:
        if self._placed_for != width:
            self._placed, self._placed_for = layout(self._columns, width - self._gutter), width
        return self._placed

    @property
    def _gutter(self) -> int:
        return 2 if self._takes_marks else 1

    def _header(self, width: int) -> Strip:
        style = self._styles.get("header", PLAIN)
        texts = []
        for index, _, room in self._layout(width):
            column = self._columns[index]
            sign = ""
            if column.name == self._sort[0]:
                sign = DOWN if self._sort[1] else UP
            texts.append(fit(column.title[: room - len(sign)] + sign, room, align=column.align))
        text = " " * self._gutter + (" " * gap(width - self._gutter)).join(texts)
        return finished([Segment(fit(text, width), style)], width, base=self.rich_style)

    def _row(self, line: Drawn, width: int) -> Strip:
        under = self._under(line)
        between = Segment(" " * gap(width - self._gutter), under)
        segments = self._gutter_of(line, under)
        for position, (index, _, room) in enumerate(self._layout(width)):
            cell = line.cells[index] if index < len(line.cells) else ""
            if position:
                segments.append(between)
            if isinstance(cell, Gauge):
                segments += self._gauge(cell, room, under)
                continue
            column, text = self._columns[index], printable(text_of(cell))
            text = fit(with_both_ends(text, room) if column.keeps_ends else text, room, align=column.align)
            segments += self._pointed_out(text, self._style(role_of(cell), under))
        return finished(segments, width, base=self.rich_style, tail=under)

    def _style(self, role: str, under: Style) -> Style:
        # When reversed, the colors of the states would become colored blocks.
        return self._styles.get(role, PLAIN) + under if role and not under.reverse else under

    def _gauge(self, gauge: Gauge, room: int, under: Style) -> list[Segment]:
        """Return a thin bar and the number at its right, or only the number if there is too little space."""
        number = fit(gauge.text, min(room, NUMBER_COLUMNS), align="right")
        width = room - len(number) - 1
        if width < LEAST_BAR:
            return [Segment(fit(number, room, align="right"), self._style("", under))]
        full, rest = meter.thin(gauge.percent, width)
        bar = [Segment(full, self._style(gauge.style, under)), Segment(rest, self._style("track", under))]
        return [*bar, Segment(f" {number}", under)]

    def _under(self, line: Drawn) -> Style:
        if line.under_cursor:
            return self._styles.get("cursor" if self.has_focus else "cursor-blurred", PLAIN)
        return self._styles.get("marked", PLAIN) if line.marked else PLAIN

    def _gutter_of(self, line: Drawn, under: Style) -> list[Segment]:
        accent = self._styles.get("cursor-sign", PLAIN) + under
        segments = [Segment(CURSOR if line.under_cursor else " ", accent)]
        if self._takes_marks:
            # When reversed, the color of a mark would fill the gutter of an unmarked row.
            mark = self._styles.get("mark-sign", PLAIN) + under if line.marked else under
            segments.append(Segment(MARK if line.marked else " ", mark))
        return segments

    def _pointed_out(self, text: str, style: Style) -> list[Segment]:
        """Return the text with the words of the filter highlighted."""
        drawn = [Segment(text, style)]
        if self._words is None:
            return drawn
        return pointed_out(drawn, spans(text, self._words), self._styles.get("match", PLAIN))

    def _blank(self, y: int, width: int) -> Strip:
        if len(self._source) or y != max(HEADER_LINES, self.size.height // 3):
            return blank(width, base=self.rich_style)
        words = fit(printable(self._empty), width, align="center")
        return finished([Segment(words, self._styles.get("muted", PLAIN))], width, base=self.rich_style)

    def _repaint(self, changed: Collection[str] | None = None) -> None:
        """Redraw the visible lines that differ from the painted ones."""
        for y in range(HEADER_LINES, self.size.height):
            index = y - HEADER_LINES + self.scroll_offset.y
            before = self._drawn.get(y)
            if (
                before is not None
                and changed is not None
                and before.key not in changed
                and index < len(self._source)
                and self._source.key(index) == before.key
                and before.under_cursor == (index == self._cursor)
                and before.marked == (before.key in self._marks)
            ):
                continue
            if y not in self._drawn or self._line_at(y) != before:
                self.refresh(Region(0, y, self.line_width, 1))

    # Moving

    def _stay_on_key(self, count: int) -> None:
        """Move the cursor to the new position of its row. If the row is gone, the cursor keeps its index."""
        top = self.scroll_offset.y
        found = self._source.find(self._cursor_key, near=self._cursor) if self._cursor_key else None
        before = self._cursor
        self._cursor = found if found is not None else max(0, min(before, count - 1))
        if self._cursor != before and top <= before < top + self._page_rows:
            # The row under the cursor stays at its place on the screen. At the top of the list, the beginning
            # stays visible as long as the row is visible, too.
            wanted = top + self._cursor - before if top else 0
            wanted = max(0, self._cursor - self._page_rows + 1, min(wanted, self._cursor))
            self.set_content_rows(count + HEADER_LINES)
            self.scroll_to(y=wanted, animate=False, force=True)
        self._note_key()

    def _note_key(self) -> None:
        key = self._source.key(self._cursor) if len(self._source) else ""
        if key != self._cursor_key:
            self._cursor_key = key
            self.post_message(self.Moved(self, key))

    @property
    def _page_rows(self) -> int:
        return max(1, self.size.height - HEADER_LINES)

    def _go(self, index: int) -> None:
        target = max(0, min(index, len(self._source) - 1))
        self._cursor = target
        self._note_key()
        top = self.scroll_offset.y
        if target < top:
            self.scroll_to(y=target, animate=False, force=True)
        elif target >= top + self._page_rows:
            self.scroll_to(y=target - self._page_rows + 1, animate=False, force=True)
        self._repaint(())

    @property
    def parked(self) -> Offset | None:
        line = self._cursor - self.scroll_offset.y + HEADER_LINES
        return Offset(0, line) if 0 <= line < self.size.height else None

    def _move_to(self, index: int) -> None:
        """Move the cursor for the user, and stop waiting for another row."""
        self._wanted_key = ""
        self._go(index)

    def action_move(self, by: int) -> None:
        self._move_to(self._cursor + by)

    def action_first(self) -> None:
        self._move_to(0)

    def action_last(self) -> None:
        self._move_to(len(self._source) - 1)

    def action_page(self, pages: float) -> None:
        """Move by this number of pages.

        For whole pages, one line of the old page stays visible for orientation.
        """
        rows = max(1, int(abs(pages) * self._page_rows) - (abs(pages) >= 1))
        self._move_to(self._cursor + (rows if pages > 0 else -rows))

    def action_select(self) -> None:
        if self._cursor_key:
            self.post_message(self.Selected(self, self._cursor_key))

    def mark(self) -> None:
        """Toggle the mark of the row under the cursor, and move to the next row."""
        if not self._cursor_key or not self._takes_marks:
            return
        self._marks ^= {self._cursor_key}
        self._last_marked = self._cursor_key if self._cursor_key in self._marks else ""
        self.post_message(self.Marked(self, self._cursor_key))
        self._move_to(self._cursor + 1)

    def mark_range(self, *, most: int) -> bool:
        """Mark the rows from the last marked row to the cursor, or only the row under the cursor if there is none.

        Return False, without any mark, if these are more than `most` rows.
        """
        if not self._cursor_key or not self._takes_marks:
            return True
        found = self._source.find(self._last_marked, near=self._cursor) if self._last_marked else None
        first, last = sorted((self._cursor if found is None else found, self._cursor))
        if last - first >= most:
            return False
        self._marks |= {self._source.key(index) for index in range(first, last + 1)}
        self._last_marked = self._cursor_key
        self.post_message(self.Marked(self, ""))
        self._repaint(())
        return True

    def mark_all(self) -> None:
        """Mark all rows. If all are marked already, clear their marks."""
        keys = {self._source.key(index) for index in range(len(self._source))}
        if not self._takes_marks or not keys:
            return
        if keys <= self._marks:
            self._marks -= keys
        else:
            self._marks |= keys
        self.post_message(self.Marked(self, ""))
        self._repaint(())

    def clear_marks(self) -> bool:
        """Clear all marks. Return False if there were none."""
        if not self._marks:
            return False
        self._marks.clear()
        self.post_message(self.Marked(self, ""))
        self._repaint(())
        return True

    # Events

    def rearrange(self) -> None:
        self._drawn.clear()
        self.set_content_rows(len(self._source) + HEADER_LINES)
        self._go(self._cursor)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._wheel(event, WHEEL_ROWS)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._wheel(event, -WHEEL_ROWS)

    def _wheel(self, event: events.MouseEvent, rows: int) -> None:
        event.stop()
        event.prevent_default()
        self.scroll_to(y=self.scroll_offset.y + rows, animate=False)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        if offset.y < HEADER_LINES:
            self._select_header(offset.x - self._gutter)
            return
        index = offset.y - HEADER_LINES + self.scroll_offset.y
        if index < len(self._source):
            self._move_to(index)
            if event.chain == 2:
                self.action_select()

    def _select_header(self, x: int) -> None:
        for index, start, room in self._layout(self.line_width):
            if start <= x < start + room:
                self.post_message(self.HeaderSelected(self, self._columns[index].name))
