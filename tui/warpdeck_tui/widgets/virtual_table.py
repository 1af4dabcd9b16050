"""A table of any length: only the visible lines are made, and only those that look different are written.

Rows come from a RowSource; the cursor and the marks stay on their keys when rows come, go and move. How columns share the
width is in `columns`. The cursor is a sign in the gutter as well as a colour, and the terminal's own (hidden) cursor is
parked on its row, where screen readers and braille lines look.
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

from .cells import Cell, fit, printable, role_of, text_of
from .columns import Column, Placed, gap, layout
from .glyphs import CURSOR, DOWN, MARK, UP
from .line_view import LineView
from .lines import blank, finished
from .rows import RowList, RowSource

__all__ = ["Cell", "Column", "RowList", "RowSource", "VirtualTable"]

HEADER_LINES = 1
WHEEL_ROWS = 3
MATCH_MAX_CHARACTERS = 200
"""A longer filter highlights nothing: it is no word anybody looks for, and it would be compiled for each paint."""


class _Drawn(NamedTuple):
    """What a line showed when it was last painted; equal means that it need not be painted again."""

    key: str
    cells: Sequence[Cell]
    under_cursor: bool
    marked: bool


class VirtualTable(LineView):
    """Rows under a header line, with a cursor and, if `marks` is set, marked rows."""

    place = "list"
    BINDINGS: ClassVar[list[BindingType]] = bindings("list")

    class _About(Message):
        """A message of a table about a row."""

        def __init__(self, table: VirtualTable, key: str) -> None:
            super().__init__()
            self.table = table
            self.key = key

        @property
        def control(self) -> VirtualTable:
            return self.table

    class Selected(_About):
        """Enter or a double click on a row."""

    class Moved(_About):
        """The cursor is on another row."""

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, VirtualTable.Moved) and message.table is self.table

    class Marked(_About):
        """The marks have changed; `key` is the row that did, "" for all of them."""

    class HeaderSelected(_About):
        """A click on the title of the column named `key`."""

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
        self._sort: tuple[str, bool] = ("", False)
        self._words: re.Pattern[str] | None = None
        self._drawn: dict[int, _Drawn | None] = {}
        self._placed: tuple[Placed, ...] = ()
        self._placed_for = -1

    @property
    def cursor_key(self) -> str:
        """The key under the cursor, "" in an empty table."""
        return self._cursor_key

    @property
    def cursor_index(self) -> int:
        """The position of the row under the cursor."""
        return self._cursor

    @property
    def marks(self) -> Set[str]:
        """The keys that are marked, whether their rows are there or not."""
        return self._marks

    @property
    def marked(self) -> tuple[str, ...]:
        """The keys of the marked rows that are there, in the table's order."""
        return tuple(self._source.among(self._marks)) if self._marks else ()

    def show(self, rows: Sequence[tuple[str, Sequence[Cell]]], *, empty: str = "") -> None:
        """New rows, all of them: pairs of key and cells."""
        if empty and empty != self._empty:
            self._empty = empty
            self._drawn.clear()
            self.refresh()
        self.update(RowList(rows))

    def update(self, source: RowSource, *, changed_keys: Collection[str] | None = None) -> None:
        """The rows as they are now; `changed_keys`: of the rows whose cells differ, None if that is not known."""
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
        """Other columns, with a source whose rows have them."""
        self._columns = tuple(columns)
        self._placed_for = -1
        self._drawn.clear()
        self.refresh()

    def show_sort(self, column: str, *, descending: bool = False) -> None:
        """Points out the column that the source is sorted by; "" for none."""
        self._sort = (column, descending)
        self.refresh(Region(0, 0, self.line_width, HEADER_LINES))

    def highlight(self, text: str) -> None:
        """Each word of a filter is pointed out where it is found; "" for none."""
        words = sorted(set(text[:MATCH_MAX_CHARACTERS].split()), key=lambda word: (-len(word), word))
        pattern = "|".join(map(re.escape, words))
        self._words = re.compile(pattern, re.IGNORECASE) if pattern else None
        self.refresh()

    def go_to(self, key: str) -> bool:
        """Puts the cursor on the row with that key; False if there is none yet.

        Then it goes there when the row comes, unless its user has moved it in between.
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

    def _line_at(self, y: int) -> _Drawn | None:
        index = y - HEADER_LINES + self.scroll_offset.y
        if index >= len(self._source):
            return None
        key = self._source.key(index)
        return _Drawn(key, self._source.row(index), index == self._cursor, key in self._marks)

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

    def _row(self, line: _Drawn, width: int) -> Strip:
        under = self._under(line)
        between = Segment(" " * gap(width - self._gutter), under)
        segments = self._gutter_of(line, under)
        for position, (index, _, room) in enumerate(self._layout(width)):
            cell = line.cells[index] if index < len(line.cells) else ""
            text = fit(printable(text_of(cell)), room, align=self._columns[index].align)
            if position:
                segments.append(between)
            role = role_of(cell)
            # Reversed, the colours of the states would become a row of patches.
            style = self._styles.get(role, PLAIN) + under if role and not under.reverse else under
            segments += self._pointed_out(text, style)
        return finished(segments, width, base=self.rich_style, tail=under)

    def _under(self, line: _Drawn) -> Style:
        if line.under_cursor:
            return self._styles.get("cursor" if self.has_focus else "cursor-blurred", PLAIN)
        return self._styles.get("marked", PLAIN) if line.marked else PLAIN

    def _gutter_of(self, line: _Drawn, under: Style) -> list[Segment]:
        accent = self._styles.get("cursor-sign", PLAIN) + under
        segments = [Segment(CURSOR if line.under_cursor else " ", accent)]
        if self._takes_marks:
            # Reversed, a mark's colour would fill the gutter of a row that has none.
            mark = self._styles.get("mark-sign", PLAIN) + under if line.marked else under
            segments.append(Segment(MARK if line.marked else " ", mark))
        return segments

    def _pointed_out(self, text: str, style: Style) -> list[Segment]:
        """The text, with the words of the filter in the style of a match."""
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
        """Writes the visible lines that differ from what was painted."""
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
        """Follows the row under the cursor to where it is now; where it is gone, the cursor keeps its place."""
        top = self.scroll_offset.y
        found = self._source.find(self._cursor_key, near=self._cursor) if self._cursor_key else None
        before = self._cursor
        self._cursor = found if found is not None else max(0, min(before, count - 1))
        if self._cursor != before and top <= before < top + self._page_rows:
            # What the user looks at stays where it is; at the top of the list that is its beginning, while the row is in view.
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
        """Its user has moved the cursor: it waits for no other row any more."""
        self._wanted_key = ""
        self._go(index)

    def action_move(self, by: int) -> None:
        self._move_to(self._cursor + by)

    def action_first(self) -> None:
        self._move_to(0)

    def action_last(self) -> None:
        self._move_to(len(self._source) - 1)

    def action_page(self, pages: float) -> None:
        """Moves by so many pages; a line of the old page stays for orientation."""
        rows = max(1, int(abs(pages) * self._page_rows) - (abs(pages) >= 1))
        self._move_to(self._cursor + (rows if pages > 0 else -rows))

    def action_select(self) -> None:
        if self._cursor_key:
            self.post_message(self.Selected(self, self._cursor_key))

    def mark(self) -> None:
        """Marks the row or takes its mark away, and goes to the next."""
        if not self._cursor_key or not self._takes_marks:
            return
        self._marks ^= {self._cursor_key}
        self.post_message(self.Marked(self, self._cursor_key))
        self._move_to(self._cursor + 1)

    def mark_all(self) -> None:
        """Marks every row there is; where all are marked takes the marks away."""
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
        """Takes all marks away; False if there were none."""
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
