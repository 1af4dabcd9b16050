"""A table of any length: only the visible lines are made, and only when they change.

Rows are view-models with a key; the cursor stays on its key when rows come and go. Columns have fixed widths but the last,
which takes what is left; columns of low rank are left out when the terminal is narrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from warpdeck_tui.viewmodels import Row


class Column(NamedTuple):
    """A column: title, width (0: the rest), and rank: the higher, the sooner it goes on a narrow terminal."""

    title: str
    width: int
    rank: int = 0


class VirtualTable(ScrollView, can_focus=True):
    """Rows under a header line, with a cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("j,down", "move(1)", ""),
        ("k,up", "move(-1)", ""),
        ("g,home", "first", ""),
        ("G,end", "last", ""),
        ("ctrl+d,pagedown", "page(1)", ""),
        ("ctrl+u,pageup", "page(-1)", ""),
        ("enter", "select", ""),
    ]

    class Selected(Message):
        """Enter on a row."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    class Moved(Message):
        """The cursor is on another row."""

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, VirtualTable.Moved)

    def __init__(
        self, columns: Sequence[Column], styles: Mapping[str, Style], *, empty: str, id: str = ""
    ) -> None:
        super().__init__(id=id or None)
        self._columns = tuple(columns)
        self._styles = styles
        self._empty = empty
        self._rows: list[Row] = []
        self._cursor = 0

    @property
    def cursor_key(self) -> str:
        """The key under the cursor, "" in an empty table."""
        return self._rows[self._cursor].key if self._rows else ""

    def show(self, rows: list[Row], *, empty: str = "") -> None:
        """New rows. Lines that look as before are not written again."""
        key, before = self.cursor_key, self._rows
        self._rows = rows
        self._empty = empty or self._empty
        found = next((index for index, row in enumerate(rows) if row.key == key), None)
        moved = self._cursor
        self._cursor = found if found is not None else max(0, min(self._cursor, len(rows) - 1))
        self.virtual_size = Size(self.size.width, len(rows) + 1)
        if len(before) != len(rows) or moved != self._cursor or not rows:
            self.refresh()
            return
        top = self.scroll_offset.y
        for line in range(top, min(len(rows), top + self.size.height)):
            if rows[line] != before[line]:
                self.refresh(Region(0, line - top + 1, self.size.width, 1))

    def use_palette(self, styles: Mapping[str, Style]) -> None:
        """Another theme."""
        self._styles = styles
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y == 0:
            return self._line(
                [column.title for column in self._columns], [self._style("header")] * 20, Style(), width
            )
        index = y - 1 + self.scroll_offset.y
        if index >= len(self._rows):
            text = self._empty if not self._rows and y == 1 else ""
            return Strip([Segment(text[:width].ljust(width), self._style("muted"))], width)
        row = self._rows[index]
        under = self._style("cursor") if index == self._cursor else Style()
        texts = [cell.text for cell in row.cells]
        return self._line(texts, [self._style(cell.style) for cell in row.cells], under, width)

    def _line(self, texts: Sequence[str], styles: Sequence[Style], under: Style, width: int) -> Strip:
        segments, used = [], 0
        for index, space in self._layout(width):
            text = texts[index]
            cut = text if len(text) <= space else text[: max(0, space - 1)] + "…"
            segments.append(Segment(cut.ljust(space) + " ", styles[index] + under))
            used += space + 1
        return Strip(segments).simplify().adjust_cell_length(width, under)

    def _layout(self, width: int) -> list[tuple[int, int]]:
        """(column, width) of the columns that fit; the flexible one gets at least 20."""
        shown = list(range(len(self._columns)))
        while len(shown) > 1:
            fixed = sum(self._columns[index].width + 1 for index in shown)
            rest = width - fixed
            if rest >= 20 or not any(self._columns[index].rank for index in shown):
                break
            shown.remove(max(shown, key=lambda index: self._columns[index].rank))
        rest = width - sum(self._columns[index].width + 1 for index in shown)
        return [(index, self._columns[index].width or max(1, rest)) for index in shown]

    def _style(self, name: str) -> Style:
        return self._styles.get(name) or Style()

    def action_move(self, by: int) -> None:
        self._go(self._cursor + by)

    def action_first(self) -> None:
        self._go(0)

    def action_last(self) -> None:
        self._go(len(self._rows) - 1)

    def action_page(self, direction: int) -> None:
        self._go(self._cursor + direction * max(1, self.size.height - 2))

    def action_select(self) -> None:
        if self._rows:
            self.post_message(self.Selected(self.cursor_key))

    def _go(self, index: int) -> None:
        before, self._cursor = self._cursor, max(0, min(index, len(self._rows) - 1))
        if before == self._cursor:
            return
        top = self.scroll_offset.y
        visible = max(1, self.size.height - 1)
        if not top <= self._cursor < top + visible:
            target = self._cursor if self._cursor < top else self._cursor - visible + 1
            self.scroll_to(y=target, animate=False, force=True)
        for line in (before, self._cursor):
            self.refresh(Region(0, line - top + 1, self.size.width, 1))
        self.post_message(self.Moved())
