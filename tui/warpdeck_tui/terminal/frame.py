"""A copy of the cells on the terminal, so that each update writes only the cells that differ.

Textual rewrites whole lines and widgets when something in them has changed. Over SSH that is most of the
traffic, so each update is compared with the copy. A gap is written, too, if skipping it would take as many
bytes. If another program has written to the terminal, or the terminal was resized, the copy is discarded
(`forget`), and then everything is written once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from rich.cells import get_character_cell_size
from rich.console import Console
from rich.control import Control
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from .textual_private import ChopsUpdate, CompositorUpdate, LayoutUpdate

FrameCell = tuple[str, Style | None]
"""Text and style of one cell. The text is "" in the second column of a wide character."""
GAP_CELLS = 4
"""Gaps shorter than this are written instead of skipped. A skip takes a sequence of four bytes, and often the
colors again.
"""
_UNKNOWN: FrameCell = ("\0", None)


class Written(CompositorUpdate):
    """An update whose text is ready to be written."""

    def __init__(self, text: str) -> None:
        self._text = text

    def render_segments(self, console: Console) -> str:
        return self._text


class Frame:
    """The cells of one terminal."""

    def __init__(self) -> None:
        self._lines: list[list[FrameCell]] = []

    def forget(self) -> None:
        """Discard the copy, because the content of the terminal is unknown."""
        self._lines.clear()

    def difference(self, update: CompositorUpdate, console: Console) -> str:
        """Return the text to write so that the terminal shows the update, or "" if it shows it already."""
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
    """Yield (column, line, content) for both kinds of Textual's updates."""
    if isinstance(update, LayoutUpdate):
        for y, strips in enumerate(update.strips, update.region.y):
            yield update.region.x, y, Strip.join(strips)
    elif isinstance(update, ChopsUpdate):
        for y, begin, end in update.spans:
            for chop_end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
                if strip is not None and x <= end and chop_end > begin:
                    yield x, y, strip if chop_end <= end else strip.crop(0, end - x)


def cells_of(strip: Strip) -> list[FrameCell]:
    """Return one cell for each column of the strip.

    The position in the text that Textual notes in a style is removed. It is not visible, and cells must not
    be written again because of it. Keeping it would also waste memory.
    """
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
    """Return the ranges of columns [first, last) that must be written."""
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
    """Return the columns of the character in this column: both columns if the character is wide."""
    first, last = at, at + 1
    while first and not cells[first][0]:
        first -= 1
    while last < len(cells) and not cells[last][0]:
        last += 1
    return first, last


def _to(at: int, x: int, y: int) -> str:
    """Return the sequence that moves the cursor to this position.

    `at` is its present column in this line, or -1 if it is elsewhere.
    """
    return Control.move_to(x, y).segment.text if at < 0 else f"\x1b[{x - at}C"


def _drawn(cells: Iterable[FrameCell], console: Console) -> str:
    alike = groupby(cells, key=lambda cell: cell[1])
    return Strip([Segment("".join(char for char, _ in group), style) for style, group in alike]).render(
        console
    )
