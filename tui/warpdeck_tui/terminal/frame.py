"""What the terminal shows, cell by cell: of every update only the cells that differ are written.

Textual writes whole lines and whole widgets anew when something in them has changed. Over SSH that is most of the traffic, so
each update is compared with what was written last. A gap that would take as many bytes to skip is written too. Whoever else
has written to the terminal, or resized it, makes us forget what is there (`forget`): then everything is written once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from rich.cells import get_character_cell_size
from rich.console import Console
from rich.control import Control
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.strip import Strip

FrameCell = tuple[str, Style | None]
"""What stands there and how; "" in the second column of a wide character."""
GAP_CELLS = 4
"""Skipping takes a sequence of four bytes, and often the colours once more."""
_UNKNOWN: FrameCell = ("\0", None)


class Written(CompositorUpdate):
    """An update that is ready to be written."""

    def __init__(self, text: str) -> None:
        self._text = text

    def render_segments(self, console: Console) -> str:
        return self._text


class Frame:
    """The cells of one terminal."""

    def __init__(self) -> None:
        self._lines: list[list[FrameCell]] = []

    def forget(self) -> None:
        """The terminal may show anything."""
        self._lines.clear()

    def difference(self, update: CompositorUpdate, console: Console) -> str:
        """What to write so that the terminal shows the update too; "" if it does already."""
        written: list[str] = []
        for x, y, strip in _pieces(update):
            cells = cells_of(strip)
            line = self._line(y, x + len(cells))
            at = -1
            for first, last in _runs(line, x, cells):
                written.append(_to(at, first, y))
                written.append(_drawn(cells[first - x : last - x], console))
                at = last
            line[x : x + len(cells)] = cells
        return "".join(written)

    def _line(self, y: int, width: int) -> list[FrameCell]:
        while len(self._lines) <= y:
            self._lines.append([])
        line = self._lines[y]
        line.extend([_UNKNOWN] * (width - len(line)))
        return line


def _pieces(update: CompositorUpdate) -> Iterator[tuple[int, int, Strip]]:
    """(column, line, what is there) of Textual's two kinds of updates."""
    if isinstance(update, LayoutUpdate):
        for y, strips in enumerate(update.strips, update.region.y):
            yield update.region.x, y, Strip.join(strips)
    elif isinstance(update, ChopsUpdate):
        for y, begin, end in update.spans:
            for chop_end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
                if strip is not None and x <= end and chop_end > begin:
                    yield x, y, strip if chop_end <= end else strip.crop(0, end - x)


def cells_of(strip: Strip) -> list[FrameCell]:
    """A strip's cells: one for each column. Textual notes in a style, too, from which place of a text it comes: nobody sees that,
    and to write the cell anew for it, or to remember how each place is written, would be in vain."""
    cells: list[FrameCell] = []
    for text, noted, control in strip:
        if control:
            continue
        style = noted if noted is None or noted.link else noted.clear_meta_and_links()
        if text.isascii():
            cells += [(char, style) for char in text]
            continue
        for char in text:
            width = get_character_cell_size(char)
            if width == 0 and cells:
                bearer = -1 if cells[-1][0] else -2
                cells[bearer] = (cells[bearer][0] + char, style)
            elif width:
                cells.append((char, style))
                cells += [("", style)] * (width - 1)
    return cells


def _runs(line: Sequence[FrameCell], x: int, cells: Sequence[FrameCell]) -> list[tuple[int, int]]:
    """The columns [first, last) that have to be written."""
    if line[x : x + len(cells)] == cells:
        return []
    runs: list[tuple[int, int]] = []
    for at, cell in enumerate(cells):
        if line[x + at] != cell:
            first, last = _whole(cells, at)
            if runs and x + first - runs[-1][1] < GAP_CELLS:
                runs[-1] = (runs[-1][0], max(runs[-1][1], x + last))
            else:
                runs.append((x + first, x + last))
    return runs


def _whole(cells: Sequence[FrameCell], at: int) -> tuple[int, int]:
    """The columns of the character at that one: of a wide one both."""
    first, last = at, at + 1
    while first and not cells[first][0]:
        first -= 1
    while last < len(cells) and not cells[last][0]:
        last += 1
    return first, last


def _to(at: int, x: int, y: int) -> str:
    """Moves the cursor there; `at`: the column where it is in that line, -1 if it is elsewhere."""
    return Control.move_to(x, y).segment.text if at < 0 else f"\x1b[{x - at}C"


def _drawn(cells: Iterable[FrameCell], console: Console) -> str:
    alike = groupby(cells, key=lambda cell: cell[1])
    return Strip([Segment("".join(char for char, _ in group), style) for style, group in alike]).render(
        console
    )
