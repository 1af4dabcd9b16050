"""The shipped themes are readable everywhere, and a broken theme file causes one clear message."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.style import Style
from textual.color import Color

from warpdeck.base.errors import UserError
from warpdeck_tui.table.palette import ansi_styles, for_terminal
from warpdeck_tui.table.xterm_colors import GRAYS_BEGIN, nearest, number_of
from warpdeck_tui.user_files.theme_file import ThemeFile, for_256_colors
from warpdeck_tui.user_files.themes import (
    STATE_ROLES,
    load_theme,
    shipped_folder,
    text_styles,
    to_textual,
)

LEAST_CONTRAST = 4.5
"""WCAG 2.1, level AA, for text."""
FAINT_SHARE = 0.75
"""Share of the foreground color in hints, as in app.tcss."""
LOG_INKS = [f"ansi{number}" for number in range(16)]
INKS = (*STATE_ROLES, "muted", "accent", "warn", "cursor-sign", "mark-sign")
OWN = ("deck-dark", "deck-light", "deck-contrast", "deck-safe")
ANSI_NAMES = ("deck-ansi", "deck-ansi-light")
HIGH_CONTRAST = 7.0
"""WCAG 2.1, level AAA."""
SAME_COLOUR = 12.0
"""CIE 1976 distance in Lab below which two colors look equal: five times the just noticeable difference."""
NAMES = sorted(path.stem for path in shipped_folder().glob("*.toml") if path.stem not in ANSI_NAMES)
IN_256 = " in 256 colors"
VARIANTS = [name + suffix for name in NAMES for suffix in ("", IN_256)]
FRAME_CONTRAST = (1.5, 3.1)
"""Least and largest contrast of a frame on the background, so that it is visible and quiet."""


def shipped(variant: str) -> ThemeFile:
    theme = load_theme(shipped_folder() / f"{variant.removesuffix(IN_256)}.toml")
    return for_256_colors(theme) if variant.endswith(IN_256) else theme


def rgb(color: str) -> tuple[int, int, int]:
    return Color.parse(color).rgb


def colour(style: Style, *, ground: bool = False) -> str:
    found = style.bgcolor if ground else style.color
    assert found is not None
    return found.get_truecolor().hex


def pairs(theme: ThemeFile) -> Iterator[tuple[str, str, str]]:
    """Yield (name, text color, background) of all combinations that widgets and style sheet use."""
    styles = text_styles(theme)
    grounds = {
        "background": theme.background,
        "surface": theme.surface,
        "panel": theme.panel,
        "cursor": theme.cursor,
        "cursor-blurred": theme.cursor_blurred or theme.panel,
    }
    for name, ground in grounds.items():
        yield f"foreground on {name}", theme.foreground, ground
        for role in INKS:
            yield f"{role} on {name}", colour(styles[role]), ground
    for name in ("background", "panel"):
        for role in LOG_INKS:
            yield f"{role} on {name}", colour(styles[role]), grounds[name]
    yield "header", colour(styles["header"]), theme.background
    for role in ("match", "new", *(f"heat{step}" for step in range(8))):
        yield role, colour(styles[role]), colour(styles[role], ground=True)
    for name in ("background", "surface", "panel"):
        yield f"secondary on {name}", theme.secondary, grounds[name]
        yield f"error on {name}", theme.error, grounds[name]
        faint = Color.parse(grounds[name]).blend(Color.parse(theme.foreground), FAINT_SHARE)
        yield f"faint on {name}", faint.hex6, grounds[name]
    yield "header while disconnected", theme.background, theme.error


def luminance(given: str) -> float:
    red, green, blue = linear(given)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(text: str, ground: str) -> float:
    dark, light = sorted((luminance(text), luminance(ground)))
    return (light + 0.05) / (dark + 0.05)


DICHROMATS = {
    "protan": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deutan": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritan": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
"""Transformations of linear red, green and blue (Machado, Oliveira and Fernandes 2009, severity 1)."""


def linear(given: str) -> list[float]:
    return [
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4
        for each in Color.parse(given).normalized
    ]


def seen_by(vision: str, given: str) -> list[float]:
    """Return linear red, green and blue as seen with this color vision."""
    rgb = linear(given)
    rows = DICHROMATS[vision]
    return [min(1.0, max(0.0, sum(map(operator.mul, row, rgb)))) for row in rows]


def lab(rgb: list[float]) -> tuple[float, float, float]:
    """Return CIE Lab under D65 for linear red, green and blue."""
    to_xyz = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    x, y, z = (
        value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116
        for value in (
            sum(map(operator.mul, row, rgb)) / white
            for row, white in zip(to_xyz, (0.9505, 1.0, 1.089), strict=True)
        )
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_text_has_enough_contrast(name: str) -> None:
    poor = [
        f"{label}: {contrast(text, ground):.2f} ({text} on {ground})"
        for label, text, ground in pairs(shipped(name))
        if contrast(text, ground) < LEAST_CONTRAST
    ]
    assert not poor, "\n".join(poor)


@pytest.mark.parametrize("name", VARIANTS)
def test_the_brightness_of_the_heat_ramp_is_monotonic(name: str) -> None:
    ramp = [contrast(step, "#000000") for step in shipped(name).heat]
    assert ramp == sorted(ramp) or ramp == sorted(ramp, reverse=True)


@pytest.mark.parametrize("name", VARIANTS)
def test_different_states_have_different_colors(name: str) -> None:
    styles = text_styles(shipped(name))
    colors = [styles[state].color for state in ("RUNNING", "PENDING", "FAILED", "HELD", "COMPLETED")]
    assert len(set(colors)) == len(colors)


@pytest.mark.parametrize("name", VARIANTS)
def test_surfaces_and_frames_are_told_apart_and_quiet(name: str) -> None:
    theme = shipped(name)
    assert len({theme.background, theme.surface, theme.panel, theme.cursor, theme.frame}) == 5
    least, largest = FRAME_CONTRAST
    assert least <= contrast(theme.frame, theme.background) <= largest


@pytest.mark.parametrize("name", NAMES)
def test_each_theme_chooses_all_of_its_256_colors(name: str) -> None:
    theme = shipped(name)
    chosen = theme.colors256
    fields = [
        field for field in chosen.__struct_fields__ if field not in ("states", "cursor_blurred", "match")
    ]
    assert not [field for field in fields if not getattr(chosen, field)]
    in_256 = shipped(name + IN_256)
    colors = [getattr(in_256, field) for field in fields if field not in ("heat", "heat_text")]
    assert not [
        color for color in (*colors, *in_256.heat, *in_256.heat_text) if number_of(rgb(color)) is None
    ]


@pytest.mark.parametrize("name", NAMES)
def test_dark_surfaces_are_grays_in_256_colors(name: str) -> None:
    theme = shipped(name + IN_256)
    if theme.dark and name != "deck-contrast":
        for surface in (theme.background, theme.surface, theme.panel):
            assert nearest(rgb(surface)) >= GRAYS_BEGIN


@pytest.mark.parametrize("name", ["deck-contrast", "deck-contrast" + IN_256])
def test_the_high_contrast_theme_has_seven_to_one(name: str) -> None:
    poor = [
        f"{label}: {contrast(text, ground):.2f} ({text} on {ground})"
        for label, text, ground in pairs(shipped(name))
        if contrast(text, ground) < HIGH_CONTRAST and not label.startswith("faint")
    ]
    assert not poor, "\n".join(poor)


@pytest.mark.parametrize("name", ["deck-safe", "deck-safe" + IN_256])
@pytest.mark.parametrize("vision", DICHROMATS)
def test_the_safe_theme_separates_states_for_all_kinds_of_color_vision(vision: str, name: str) -> None:
    styles = text_styles(shipped(name))
    states = ("RUNNING", "PENDING", "FAILED", "HELD", "COMPLETED")
    seen = {state: lab(seen_by(vision, colour(styles[state]))) for state in states}
    alike = [
        f"{one} and {other}: {math.dist(seen[one], seen[other]):.1f}"
        for one, other in itertools.combinations(states, 2)
        if math.dist(seen[one], seen[other]) < SAME_COLOUR
    ]
    assert not alike, "\n".join(alike)


def test_colors_for_a_light_background_exclude_yellow() -> None:
    assert not [
        role
        for role, style in ansi_styles(dark=False).items()
        if style.color and "yellow" in style.color.name
    ]
    assert text_styles(shipped("deck-ansi-light")) == ansi_styles(dark=False)


def test_sixteen_colors_cover_every_role_and_larger_palettes_use_the_theme() -> None:
    styles = text_styles(shipped("deck-dark"))
    assert set(ansi_styles()) >= set(styles) - set(LOG_INKS)
    assert for_terminal(styles, "standard", dark=True) == ansi_styles()
    assert for_terminal(styles, "standard", dark=False) == ansi_styles(dark=False)
    assert for_terminal(styles, "256", dark=True) is styles
    assert for_terminal(styles, None, dark=True) is styles


def test_cursor_and_badge_are_visible_with_sixteen_colors() -> None:
    styles = ansi_styles()
    assert styles["cursor"].reverse and styles["new"].reverse
    assert styles["match"].underline


def test_all_shipped_themes_can_be_applied() -> None:
    themes = [load_theme(path) for path in shipped_folder().glob("*.toml")]
    assert {theme.name for theme in themes} >= {*OWN, *ANSI_NAMES}
    for theme in themes:
        to_textual(theme).to_color_system().generate()


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (("accent = ", "accent = 7 #"), "$.accent"),
        (("accent = ", "akzent = "), "akzent"),
        (('primary = "#82aaff"', 'primary = "sky-ish"'), "primary"),
        (('running = "#8bd49c"', 'running = "nope"'), "states.running"),
        (('heat = ["#1c2233"', 'heat = ["#zz"'), "heat"),
        (('heat = ["#1c2233", ', "heat = ["), "heat"),
        (("dark = true", "dark = "), "line"),
        (("[states]", '[variables]\nscrollbar = "no colour"\n[states]'), "variables.scrollbar"),
        (("background = 233", "background = 7"), "colors256.background"),
        (("background = 233", 'background = "#11131c"'), "colors256.background"),
        (("held = 183", "held = 256"), "colors256.states.held"),
    ],
    ids=[
        *("type", "unknown key", "colour", "colour of a state", "heat", "seven steps", "toml", "variable"),
        *("one of the first 16", "not one of the 256", "a state's number"),
    ],
)
def test_a_broken_theme_gives_one_message_with_file_and_key(
    tmp_path: Path, change: tuple[str, str], key: str
) -> None:
    text = (shipped_folder() / "deck-dark.toml").read_text()
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(*change, 1))
    assert path.read_text() != text
    with pytest.raises(UserError) as caught:
        load_theme(path)
    assert str(path) in caught.value.message and key in caught.value.message
    assert "\n" not in caught.value.message and caught.value.hint


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"x" * 100_000], ids=["empty", "not text", "too large"]
)
def test_a_file_that_is_no_theme_gives_one_message(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"mine\.toml"):
        load_theme(path)
    with pytest.raises(UserError, match="Cannot read"):
        load_theme(tmp_path / "absent.toml")


def test_a_theme_without_256_colors_gets_grays_for_its_dark_surfaces(tmp_path: Path) -> None:
    text = (shipped_folder() / "deck-dark.toml").read_text().partition("[colors256]")[0]
    path = tmp_path / "mine.toml"
    path.write_text(text)
    theme = for_256_colors(load_theme(path))
    surfaces = [theme.background, theme.surface, theme.panel, theme.cursor_blurred, theme.cursor]
    numbers = [nearest(rgb(surface)) for surface in surfaces]
    assert numbers == sorted(set(numbers)) and numbers[0] > GRAYS_BEGIN
    assert contrast(theme.foreground, theme.background) > HIGH_CONTRAST
