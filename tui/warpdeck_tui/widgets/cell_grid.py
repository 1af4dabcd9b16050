"""Nodes x GPUs as one heat map in one widget: a line a node, five characters a GPU, a cursor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from warpdeck_tui.viewmodels import GpuCell

NAME_WIDTH = 18
Line = tuple[str, tuple[GpuCell, ...]]


class CellGrid(ScrollView, can_focus=True):
    """The heat map. Each cell shows a number or letters; the colour repeats what they say."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("j,down", "move(1, 0)", ""),
        ("k,up", "move(-1, 0)", ""),
        ("l,right", "move(0, 1)", ""),
        ("h,left", "move(0, -1)", ""),
        ("g,home", "first", ""),
        ("G,end", "last", ""),
    ]

    class Moved(Message):
        """The cursor is on another cell."""

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, CellGrid.Moved)

    def __init__(self, styles: Mapping[str, Style], *, id: str = "") -> None:
        super().__init__(id=id or None)
        self._styles = styles
        self._lines: list[Line] = []
        self._row = self._column = 0

    @property
    def cursor(self) -> tuple[str, int]:
        """(node, GPU index) under the cursor; index -1 on a node without GPUs."""
        if not self._lines:
            return "", -1
        label, cells = self._lines[self._row]
        if not cells:
            return label.split(" ")[0], -1
        return cells[min(self._column, len(cells) - 1)].key

    def show(self, lines: Sequence[Line]) -> None:
        """New values; only lines that changed are written."""
        before, self._lines = self._lines, list(lines)
        self.virtual_size = Size(self.size.width, len(self._lines))
        if len(before) != len(self._lines):
            self._row = max(0, min(self._row, len(self._lines) - 1))
            self.refresh()
            return
        top = self.scroll_offset.y
        for index, (old, new) in enumerate(zip(before, self._lines, strict=True)):
            if old != new:
                self.refresh(Region(0, index - top, self.size.width, 1))

    def use_palette(self, styles: Mapping[str, Style]) -> None:
        """Another theme."""
        self._styles = styles
        self.refresh()

    def render_line(self, y: int) -> Strip:
        index, width = y + self.scroll_offset.y, self.size.width
        if index >= len(self._lines):
            return Strip.blank(width)
        label, cells = self._lines[index]
        name, _, state = label.partition(" ")
        segments = [Segment(f"{name[:11]:<11} {state[:5]:<5} ", self._styles.get("header", Style()))]
        for position, cell in enumerate(cells):
            style = self._styles.get(f"heat{cell.level}" if cell.level >= 0 else "warn") or Style()
            here = index == self._row and position == min(self._column, len(cells) - 1)
            segments.append(Segment(f"[{cell.text}]" if here else f" {cell.text} ", style))
        if not cells:
            segments.append(Segment("no GPU", self._styles.get("muted", Style())))
        return Strip(segments).simplify().adjust_cell_length(width)

    def action_move(self, rows: int, columns: int) -> None:
        self._row = max(0, min(self._row + rows, len(self._lines) - 1))
        cells = self._lines[self._row][1] if self._lines else ()
        self._column = max(0, min(self._column + columns, max(0, len(cells) - 1)))
        self.scroll_to(y=max(0, self._row - self.size.height + 1), animate=False, force=True)
        self.refresh()
        self.post_message(self.Moved())

    def action_first(self) -> None:
        self.action_move(-len(self._lines), 0)

    def action_last(self) -> None:
        self.action_move(len(self._lines), 0)
