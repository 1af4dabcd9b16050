"""Color themes: TOML files, shipped with the app or in the user's configuration, validated before use.

An invalid file never stops the app. It only causes one message that names the file and the problem (see
`looks`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from rich.errors import StyleSyntaxError
from rich.style import Style
from textual.color import Color, ColorParseError
from textual.theme import Theme

from warpdeck.base.errors import UserError
from warpdeck_tui.table.palette import ansi_styles

from .theme_file import ThemeFile, for_256_colors

MAX_THEME_BYTES = 64 * 1024
"""Largest size of a file. A theme takes about 2 kB, so a larger file is there by mistake."""
ANSI_THEME = "deck-ansi"


def shipped_folder() -> Path:
    """Return the folder of the shipped themes.

    It is beside this file in a wheel, and at the root of the repository in a checkout.
    """
    packaged = Path(__file__).parents[1] / "themes"
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[3] / "themes"


def load_theme(path: Path) -> ThemeFile:
    """Read and validate a theme. Raises UserError that names the file and the problem."""
    try:
        theme = msgspec.toml.decode(_read(path), type=ThemeFile)
        _check_colours(theme)
        for_256_colors(theme)
        to_textual(theme).to_color_system().generate()
        text_styles(theme)
    except OSError as error:
        raise UserError(f"Cannot read theme {path}: {error.strerror}", "Check its permissions") from error
    except (ColorParseError, ValueError) as error:  # errors of msgspec are ValueErrors
        raise _unusable(path, str(error).partition("\n")[0]) from error
    return theme


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        text = file.read(MAX_THEME_BYTES + 1)
    if len(text) > MAX_THEME_BYTES:
        raise ValueError(f"larger than {MAX_THEME_BYTES // 1024} KiB")
    return text


def _unusable(path: Path, cause: str) -> UserError:
    return UserError(f"Cannot use theme {path}: {cause}", "Correct or remove the file")


def _check_colours(theme: ThemeFile) -> None:
    """Raise ValueError that names the key of the first invalid color.

    Textual's own message would name only the value.
    """
    for key, value in _colours(theme):
        try:
            if key.endswith("-style"):
                Style.parse(value)
            elif value:
                # Textual's own variables may have a second word ("red 50%").
                Color.parse(value.partition(" ")[0] if key.startswith("variables.") else value)
        except (ColorParseError, StyleSyntaxError) as error:
            raise ValueError(f'{key} = "{value}" is not a color') from error


def _colours(theme: ThemeFile) -> Iterator[tuple[str, str]]:
    """Yield (key as in the file, value) for all colors of the theme."""
    for name in theme.__struct_fields__:
        value = getattr(theme, name)
        if isinstance(value, str) and name != "name":
            yield name, value
        elif isinstance(value, tuple):
            yield from ((f"{name}[{step}]", each) for step, each in enumerate(value))
    yield from ((f"states.{name}", getattr(theme.states, name)) for name in theme.states.__struct_fields__)
    yield from ((f"variables.{name}", value) for name, value in theme.variables.items())


def to_textual(theme: ThemeFile) -> Theme:
    """Return the theme for Textual.

    Style sheets can use our roles as variables, too: $running, $heat-0, $muted and so on.
    """
    roles = _state_colours(theme)
    if theme.ansi:  # Textual defines these two only in its own themes of this kind, and fails without them
        roles |= {"ansi-background": theme.background, "ansi-foreground": theme.foreground}
    else:
        roles |= {"scrollbar": theme.cursor, "scrollbar-background": theme.background}
        roles |= {"scrollbar-hover": theme.accent, "scrollbar-active": theme.accent}
    roles |= {f"heat-{step}": colour for step, colour in enumerate(theme.heat)}
    return Theme(
        name=theme.name,
        dark=theme.dark,
        primary=theme.primary,
        secondary=theme.secondary,
        accent=theme.accent,
        foreground=theme.foreground,
        background=theme.background,
        surface=theme.surface,
        panel=theme.panel,
        success=theme.success,
        warning=theme.warning,
        error=theme.error,
        ansi=theme.ansi,
        variables={
            **roles,
            "muted": theme.muted,
            "cursor": theme.cursor,
            "frame": theme.frame or theme.cursor,
            **theme.variables,
        },
    )


def text_styles(theme: ThemeFile) -> dict[str, Style]:
    """Return the styles of the line widgets, by role (see `palette`)."""
    if theme.ansi:
        return ansi_styles(dark=theme.dark)
    colours = _state_colours(theme)
    styles = {state: _ink(colours[role]) for state, role in STATE_ROLES.items()}
    match = theme.match or theme.warning
    styles |= {
        "muted": _ink(theme.muted),
        "accent": _ink(theme.accent),
        "warn": _ink(theme.error, bold=True),
        "track": _ink(theme.frame or theme.cursor),
        "title": _ink(theme.foreground, bold=True),
        "key": _ink(theme.primary, bold=True),
        "header": _ink(theme.muted, bold=True),
        "cursor": Style(bgcolor=_rich(theme.cursor), bold=True),
        "cursor-blurred": Style(bgcolor=_rich(theme.cursor_blurred or theme.panel)),
        "cursor-sign": _ink(theme.accent, bold=True),
        "marked": Style(bgcolor=_rich(theme.panel)),
        "mark-sign": _ink(theme.warning, bold=True),
        "match": Style(color=_contrast(match), bgcolor=_rich(match)),
        "new": Style(color=_contrast(theme.accent), bgcolor=_rich(theme.accent), bold=True),
        "added": _ink(theme.success),
        "removed": _ink(theme.error),
        "added-word": Style(color=_contrast(theme.success), bgcolor=_rich(theme.success)),
        "removed-word": Style(color=_contrast(theme.error), bgcolor=_rich(theme.error)),
    }
    styles |= {f"ansi{number}": _ink(colour) for number, colour in enumerate(_log_inks(theme))}
    for step, (colour, text) in enumerate(zip(theme.heat, theme.heat_text, strict=True)):
        styles[f"heat{step}"] = Style(color=_rich(text), bgcolor=_rich(colour))
    return styles


STATE_ROLES = {
    "RUNNING": "running",
    "COMPLETING": "running",
    "CONFIGURING": "starting",
    "PENDING": "pending",
    "HELD": "held",
    "SUSPENDED": "held",
    "PREEMPTED": "held",
    "COMPLETED": "done",
    "CANCELLED": "done",
    "FAILED": "failed",
    "TIMEOUT": "failed",
    "NODE_FAIL": "failed",
    "OUT_OF_MEMORY": "failed",
    "DEADLINE": "failed",
    "BOOT_FAIL": "failed",
}
"""Maps Slurm's job states, and HELD, to the color role that they share."""


def _state_colours(theme: ThemeFile) -> dict[str, str]:
    states = theme.states
    return {
        "running": states.running or theme.success,
        "starting": states.starting or theme.secondary,
        "pending": states.pending or theme.warning,
        "held": states.held or theme.accent,
        "done": states.done or theme.muted,
        "failed": states.failed or theme.error,
    }


def sample_color(theme: ThemeFile, role: str) -> str:
    """Return the color of "background", "primary" or a job state, in Rich's notation."""
    return _rich({"background": theme.background, "primary": theme.primary, **_state_colours(theme)}[role])


def _log_inks(theme: ThemeFile) -> list[str]:
    """Return the colors that replace the 16 colors of a log.

    The terminal's own black or white could be unreadable on the theme's background.
    """
    hues = [
        theme.error,
        theme.success,
        theme.warning,
        theme.primary,
        _state_colours(theme)["held"],
        theme.secondary,
    ]
    black, white = (theme.muted, theme.foreground) if theme.dark else (theme.foreground, theme.muted)
    return [black, *hues, white, theme.muted, *hues, theme.foreground]


def _rich(colour: str) -> str:
    """Return a color in Rich's notation. Raises ColorParseError."""
    return Color.parse(colour).rich_color.name


def _contrast(ground: str) -> str:
    """Return black or white, whichever is readable on this background."""
    return Color.parse(ground).get_contrast_text(1.0).rich_color.name


def _ink(colour: str, *, bold: bool = False) -> Style:
    return Style(color=_rich(colour), bold=bold or None)
