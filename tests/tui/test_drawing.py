"""The pictures of screens show what a terminal would show."""

from __future__ import annotations

import pytest
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tests.support.drawing import CELL_HEIGHT, CELL_WIDTH, TERMINALS, draw

DARK = TERMINALS["dark"]


@pytest.mark.parametrize(
    ("system", "color"),
    [
        (ColorSystem.TRUECOLOR, (130, 170, 255)),
        (ColorSystem.EIGHT_BIT, (135, 175, 255)),
        (ColorSystem.STANDARD, DARK.ansi_colors[7]),
    ],
)
def test_colors_are_reduced_as_the_terminal_does(system: ColorSystem, color: tuple[int, int, int]) -> None:
    picture = draw([Strip([Segment("█", Style.parse("#82aaff"))])], system=system, terminal=DARK)
    assert picture.size == (CELL_WIDTH, CELL_HEIGHT)
    assert picture.getpixel((4, 9)) == color


def test_a_wide_character_takes_two_cells_and_reverse_swaps_the_colors() -> None:
    strip = Strip([Segment("日", Style.parse("red")), Segment(" ", Style.parse("reverse #010203"))])
    picture = draw([strip], system=ColorSystem.TRUECOLOR, terminal=DARK)
    assert picture.size == (3 * CELL_WIDTH, CELL_HEIGHT)
    assert picture.getpixel((2 * CELL_WIDTH + 4, 9)) == (1, 2, 3)


def test_half_a_block_and_a_dot_of_braille_are_drawn_where_they_are() -> None:
    strip = Strip([Segment("▄⠁", Style.parse("#ffffff on #000000"))])
    picture = draw([strip], system=ColorSystem.TRUECOLOR, terminal=DARK)
    assert picture.getpixel((4, 3)) == (0, 0, 0) and picture.getpixel((4, 14)) == (255, 255, 255)
    assert picture.getpixel((CELL_WIDTH + 2, 2)) == (255, 255, 255)
    assert picture.getpixel((CELL_WIDTH + 6, 14)) == (0, 0, 0)
