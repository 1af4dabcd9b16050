"""Only changed cells of an update are written, with the same result as a complete redraw."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import get_character_cell_size
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip
from textual.style import Style as ContentStyle

from warpdeck_tui.terminal.frame import Frame, cells_of

WIDTH = 12
CONSOLE = Console(color_system="truecolor", force_terminal=True, legacy_windows=False, width=WIDTH)
STYLES = (None, Style(color="red"), Style(bold=True))
_SEQUENCE = re.compile(r"\x1b\[(\d*);?(\d*)([HCm])|(.)", re.DOTALL)


class Terminal:
    """A terminal that implements cursor movement, colors, and overwritten halves of wide characters."""

    def __init__(self, lines: int) -> None:
        self.cells = [[(" ", "")] * WIDTH for _ in range(lines)]
        self.x = self.y = 0
        self.ink = ""

    def write(self, text: str) -> None:
        for sequence in _SEQUENCE.finditer(text):
            first, second, kind, char = sequence.groups()
            if kind == "H":
                self.y, self.x = int(first) - 1, int(second) - 1
            elif kind == "C":
                self.x += int(first)
            elif kind == "m":
                self.ink = "" if sequence[0] == "\x1b[0m" else sequence[0]
            else:
                self._put(char)

    def _put(self, char: str) -> None:
        line, width = self.cells[self.y], get_character_cell_size(char)
        if width == 0:
            bearer = self.x - 1 if line[self.x - 1][0] else self.x - 2
            line[bearer] = (line[bearer][0] + char, line[bearer][1])
            return
        for at in range(self.x, self.x + width):
            self._break(line, at)
        line[self.x] = (char, self.ink)
        if width == 2:
            line[self.x + 1] = ("", self.ink)
        self.x += width

    def _break(self, line: list[tuple[str, str]], at: int) -> None:
        if not line[at][0]:
            line[at - 1] = (" ", "broken")
        elif at + 1 < WIDTH and not line[at + 1][0]:
            line[at + 1] = (" ", "broken")


def update(*lines: list[tuple[str, int]]) -> LayoutUpdate:
    """Return an update of lines. Each line consists of texts with the number of their style."""
    strips: list[Iterable[Strip]] = [
        [Strip([Segment(text, STYLES[style]) for text, style in line]).adjust_cell_length(WIDTH)]
        for line in lines
    ]
    return LayoutUpdate(strips, Region(0, 0, WIDTH, len(lines)))


texts = st.text("ab 世●\u0301", max_size=8)
a_line = st.lists(st.tuples(texts, st.integers(0, 2)), max_size=4)


@given(st.lists(st.tuples(a_line, a_line), min_size=1, max_size=6))
def test_partial_updates_give_the_same_screen_as_complete_ones(
    history: list[tuple[list[tuple[str, int]], ...]],
) -> None:
    frame, partial, complete = Frame(), Terminal(2), Terminal(2)
    for lines in history:
        partial.write(frame.difference(update(*lines), CONSOLE))
        complete.write(Frame().difference(update(*lines), CONSOLE))
        assert partial.cells == complete.cells


def test_only_cells_that_differ_are_written() -> None:
    frame = Frame()
    frame.difference(update([("time 1:59 go", 0)]), CONSOLE)
    assert frame.difference(update([("time 2:00 go", 0)]), CONSOLE) == "\x1b[1;6H2:00"
    assert frame.difference(update([("time 2:00 go", 0)]), CONSOLE) == ""
    assert frame.difference(update([("time 2:01 g!", 0)]), CONSOLE) == "\x1b[1;9H1 g!"
    assert frame.difference(update([("Time 2:01 g?", 0)]), CONSOLE) == "\x1b[1;1HT\x1b[10C?"


def test_text_offsets_in_styles_are_not_written() -> None:
    """Textual stores the offset in the style, for the selection of text."""
    frame, style = Frame(), ContentStyle(bold=True)
    for x, y in ((0, 0), (5, 0), (0, 7)):
        with_offset = Strip([Segment("steady", style.rich_style_with_offset(x, y))])
        shown = frame.difference(LayoutUpdate([[with_offset]], Region(0, 0, 6, 1)), CONSOLE)
        assert ("steady" in shown) == (x == y == 0)
    assert cells_of(with_offset) == [(char, Style(bold=True)) for char in "steady"]


def test_both_columns_of_a_wide_character_are_written() -> None:
    frame = Frame()
    frame.difference(update([("世x", 0)]), CONSOLE)
    assert frame.difference(update([("世x", 1)]), CONSOLE).startswith("\x1b[1;1H\x1b[31m世x")
    assert [char for char, _ in cells_of(Strip([Segment("a世\u0301b")]))] == ["a", "世\u0301", "", "b"]


def test_a_forgotten_frame_is_written_again() -> None:
    frame = Frame()
    lines = update([("steady", 0)])
    first = frame.difference(lines, CONSOLE)
    frame.forget()
    assert frame.difference(lines, CONSOLE) == first != ""
