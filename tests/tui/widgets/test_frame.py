"""Of an update only the cells that differ are written, and the terminal shows the same as if all had been."""

from __future__ import annotations

import re

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
_TOLD = re.compile(r"\x1b\[(\d*);?(\d*)([HCm])|(.)", re.DOTALL)


class Terminal:
    """As much of one as an update asks for: where the cursor goes, colours, and what half a wide character becomes."""

    def __init__(self, lines: int) -> None:
        self.cells = [[(" ", "")] * WIDTH for _ in range(lines)]
        self.x = self.y = 0
        self.ink = ""

    def write(self, text: str) -> None:
        for told in _TOLD.finditer(text):
            first, second, kind, char = told.groups()
            if kind == "H":
                self.y, self.x = int(first) - 1, int(second) - 1
            elif kind == "C":
                self.x += int(first)
            elif kind == "m":
                self.ink = "" if told[0] == "\x1b[0m" else told[0]
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
    """Lines of texts and the number of their style, each cut and filled to the width."""
    strips = [
        [Strip([Segment(text, STYLES[style]) for text, style in line]).adjust_cell_length(WIDTH)]
        for line in lines
    ]
    return LayoutUpdate(strips, Region(0, 0, WIDTH, len(lines)))


texts = st.text("ab 世●\u0301", max_size=8)
a_line = st.lists(st.tuples(texts, st.integers(0, 2)), max_size=4)


@given(st.lists(st.tuples(a_line, a_line), min_size=1, max_size=6))
def test_the_terminal_shows_every_update(history: list[tuple[list[tuple[str, int]], ...]]) -> None:
    frame, kept, told_all = Frame(), Terminal(2), Terminal(2)
    for lines in history:
        kept.write(frame.difference(update(*lines), CONSOLE))
        told_all.write(Frame().difference(update(*lines), CONSOLE))
        assert kept.cells == told_all.cells


def test_only_cells_that_differ_are_written() -> None:
    frame = Frame()
    frame.difference(update([("time 1:59 go", 0)]), CONSOLE)
    assert frame.difference(update([("time 2:00 go", 0)]), CONSOLE) == "\x1b[1;6H2:00"
    assert frame.difference(update([("time 2:00 go", 0)]), CONSOLE) == ""
    assert frame.difference(update([("time 2:01 g!", 0)]), CONSOLE) == "\x1b[1;9H1 g!"
    assert frame.difference(update([("Time 2:01 g?", 0)]), CONSOLE) == "\x1b[1;1HT\x1b[10C?"


def test_where_in_its_text_a_cell_stands_is_not_written() -> None:
    """Textual notes it in the style, for who selects text."""
    frame, looks = Frame(), ContentStyle(bold=True)
    for x, y in ((0, 0), (5, 0), (0, 7)):
        noted = Strip([Segment("steady", looks.rich_style_with_offset(x, y))])
        shown = frame.difference(LayoutUpdate([[noted]], Region(0, 0, 6, 1)), CONSOLE)
        assert ("steady" in shown) == (x == y == 0)
    assert cells_of(noted) == [(char, Style(bold=True)) for char in "steady"]


def test_of_a_wide_character_both_columns_are_written() -> None:
    frame = Frame()
    frame.difference(update([("世x", 0)]), CONSOLE)
    assert frame.difference(update([("世x", 1)]), CONSOLE).startswith("\x1b[1;1H\x1b[31m世x")
    assert [char for char, _ in cells_of(Strip([Segment("a世\u0301b")]))] == ["a", "世\u0301", "", "b"]


def test_what_was_forgotten_is_written_anew() -> None:
    frame = Frame()
    lines = update([("steady", 0)])
    first = frame.difference(lines, CONSOLE)
    frame.forget()
    assert frame.difference(lines, CONSOLE) == first != ""
