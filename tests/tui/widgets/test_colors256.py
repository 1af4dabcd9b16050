"""The 256 colors of xterm's palette: their values, and the nearest one to an RGB color."""

from __future__ import annotations

import pytest
from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.color import Color

from warpdeck_tui.table.xterm_colors import FIRST, GRAYS_BEGIN, LAST, nearest, number_of, rgb_of
from warpdeck_tui.terminal.colors import Colors256

ALL = range(FIRST, LAST + 1)


def test_the_values_are_those_of_xterm() -> None:
    assert [tuple(RichColor.from_ansi(number).get_truecolor()) for number in ALL] == [
        rgb_of(number) for number in ALL
    ]


def test_each_color_of_the_palette_maps_to_itself() -> None:
    assert [nearest(rgb_of(number)) for number in ALL] == list(ALL)
    assert [number_of(rgb_of(number)) for number in ALL] == list(ALL)
    assert number_of((1, 2, 3)) is None


@pytest.mark.parametrize("number", [0, 15, 256, -1])
def test_the_colors_of_the_terminal_have_no_fixed_value(number: int) -> None:
    with pytest.raises(ValueError, match=str(number)):
        rgb_of(number)


@pytest.mark.parametrize(
    "color", ["#11131c", "#181b27", "#222637", "#28355b", "#1a1b26", "#002b36", "#2e3440", "#191724"]
)
def test_the_dark_surfaces_of_themes_become_grays(color: str) -> None:
    """Rich maps these to black, to navy blue or to a blue gray."""
    assert GRAYS_BEGIN < nearest(Color.parse(color).rgb) <= 239


@pytest.mark.parametrize(
    ("color", "number"), [("#82aaff", 111), ("#ff0000", 196), ("#00cd00", 40), ("#fafafa", 231)]
)
def test_bright_colors_keep_their_hue(color: str, number: int) -> None:
    assert nearest(Color.parse(color).rgb) == number


def test_drawn_lines_have_only_colors_of_the_palette() -> None:
    style = Style.parse("bold #82aaff on #11131c") + Style.from_meta({"row": 3})
    plain, named, given = Style.parse("bold"), Style.parse("red on default"), Style.parse("color(200)")
    segments = [
        Segment("a", style),
        Segment("b"),
        Segment("c", plain),
        Segment("d", named),
        Segment("e", given),
    ]
    first, *others = Colors256().apply(segments, Color.parse("black"))
    assert first.style is not None and first.style.bold and first.style.meta == {"row": 3}
    assert first.style.color is not None and first.style.color.number == 111
    assert first.style.bgcolor is not None and first.style.bgcolor.number == 233
    assert others == segments[1:]
