"""Turns lines of cells into Rich texts in the styles of the theme."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from warpdeck_tui.table.palette import PLAIN, Palette
from warpdeck_tui.viewmodels import Cell, Line
from warpdeck_tui.viewmodels.cells import folded
from warpdeck_tui.widgets.cells import printable


class Folded:
    """Lines as a Rich renderable, each folded to the available width."""

    def __init__(self, lines: Iterable[Line], styles: Palette) -> None:
        self._lines = tuple(lines)
        self._styles = styles

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self._lines:
            cells = tuple(Cell(printable(cell.text), cell.style) for cell in line)
            yield paint(folded(cells, options.max_width), self._styles)


def paint(lines: Iterable[Line], styles: Palette) -> Text:
    """Return lines of cells as one text in the styles of the theme.

    The content of a cell can neither add lines nor contain control characters.
    """
    text = Text()
    for number, line in enumerate(lines):
        if number:
            text.append("\n")
        for cell in line:
            text.append(printable(cell.text), styles.get(cell.style, PLAIN))
    return text
