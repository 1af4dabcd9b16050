"""The content of a theme file, and the variant of a theme for terminals with 256 colors.

The table [colors256] of a file chooses the colors of this variant, by xterm's number or in the notation of RGB. A color
that it does not name becomes the nearest of the 256 (see `xterm_colors`). Colors that are different surfaces stay
different.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from textual.color import Color

from warpdeck_tui.table.xterm_colors import FIRST, GRAYS_BEGIN, LAST, nearest, number_of, rgb_of

T = TypeVar("T")
Ramp = tuple[T, T, T, T, T, T, T, T]
Color256 = int | str
"""A number of xterm's palette, or an RGB color that this palette contains. "" means the nearest color."""
SURFACES = ("background", "surface", "panel", "cursor_blurred", "cursor", "frame")
"""Backgrounds and lines that a user tells apart only by their lightness, from the farthest to the nearest one."""


class States(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Colors of job states."""

    running: str = ""
    starting: str = ""
    pending: str = ""
    held: str = ""
    done: str = ""
    failed: str = ""


class States256(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Colors of job states on a terminal with 256 colors."""

    running: Color256 = ""
    starting: Color256 = ""
    pending: Color256 = ""
    held: Color256 = ""
    done: Color256 = ""
    failed: Color256 = ""


class Colors256(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Colors of a theme on a terminal with 256 colors. The names are those of `ThemeFile`."""

    primary: Color256 = ""
    secondary: Color256 = ""
    accent: Color256 = ""
    foreground: Color256 = ""
    background: Color256 = ""
    surface: Color256 = ""
    panel: Color256 = ""
    success: Color256 = ""
    warning: Color256 = ""
    error: Color256 = ""
    muted: Color256 = ""
    cursor: Color256 = ""
    cursor_blurred: Color256 = ""
    frame: Color256 = ""
    match: Color256 = ""
    heat: Ramp[Color256] | None = None
    heat_text: Ramp[Color256] | None = None
    states: States256 = States256()


class ThemeFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A theme: Textual's base colors, a color for each role, and eight steps of the heat map.

    The steps go from cold to hot. `ansi` means that the colors are the terminal's own 16 ("ansi_blue",
    "ansi_default"). Colors that are "", such as those in `states`, are derived from the others.
    """

    name: str
    dark: bool
    primary: str
    secondary: str
    accent: str
    foreground: str
    background: str
    surface: str
    panel: str
    success: str
    warning: str
    error: str
    muted: str
    cursor: str
    cursor_blurred: str = ""
    frame: str = ""
    """Color of frames around parts of the screen, and of the empty part of bars. "" means that of the cursor's line."""
    match: str = ""
    heat: Ramp[str]
    heat_text: Ramp[str]
    states: States = States()
    colors256: Colors256 = Colors256()
    ansi: bool = False
    variables: dict[str, str] = {}
    """Textual's own variables, where its default does not fit."""


def for_256_colors(theme: ThemeFile) -> ThemeFile:
    """Return the theme with colors that a terminal with 256 colors shows exactly.

    Raises ValueError that names the key of a color that is not one of the 256.
    """
    if theme.ansi:
        return theme
    chosen = theme.colors256
    colors: dict[str, str] = {}
    for name in chosen.__struct_fields__:
        given = getattr(chosen, name)
        if isinstance(given, int | str):
            colors[name] = _color(f"colors256.{name}", given) or _nearest(getattr(theme, name))
    _separate_surfaces(theme, colors)
    states = {
        name: _color(f"colors256.states.{name}", getattr(chosen.states, name))
        or _nearest(getattr(theme.states, name))
        for name in chosen.states.__struct_fields__
    }
    return msgspec.structs.replace(
        theme,
        **colors,
        heat=_ramp("heat", chosen.heat, theme.heat),
        heat_text=_ramp("heat_text", chosen.heat_text, theme.heat_text),
        states=msgspec.structs.replace(theme.states, **states),
    )


def _ramp(name: str, chosen: Ramp[Color256] | None, colors: Ramp[str]) -> tuple[str, ...]:
    given = chosen or ("",) * len(colors)
    return tuple(
        _color(f"colors256.{name}[{step}]", each) or _nearest(color)
        for step, (each, color) in enumerate(zip(given, colors, strict=True))
    )


def _separate_surfaces(theme: ThemeFile, colors: dict[str, str]) -> None:
    """Move a derived gray by one step if a different surface has it already."""
    step = 1 if theme.dark else -1
    taken: dict[str, str] = {}
    for name in SURFACES:
        original = getattr(theme, name)
        if original and getattr(theme.colors256, name) == "":
            number = _number(colors[name])
            while colors[name] in taken and taken[colors[name]] != original:
                number += step
                if not GRAYS_BEGIN <= number <= LAST:
                    break
                colors[name] = _hex(number)
        taken.setdefault(colors[name], original)


def _color(key: str, given: Color256) -> str:
    """Return the RGB color of an entry of the table, or "" for an empty one."""
    if given == "":
        return ""
    number = given if isinstance(given, int) else number_of(_rgb(given))
    if number is None or not FIRST <= number <= LAST:
        raise ValueError(
            f"{key} = {given!r} is neither a number from {FIRST} to {LAST} nor a color of xterm's palette"
        )
    return _hex(number)


def _nearest(color: str) -> str:
    return _hex(nearest(_rgb(color))) if color else ""


def _number(color: str) -> int:
    return nearest(_rgb(color))


def _rgb(color: str) -> tuple[int, int, int]:
    return Color.parse(color).rgb


def _hex(number: int) -> str:
    return "#{:02x}{:02x}{:02x}".format(*rgb_of(number))
