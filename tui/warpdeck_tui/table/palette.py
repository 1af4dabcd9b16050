"""The styles of the line widgets, by role, and their replacements on a terminal with 16 colors.

Roles: a job's state by its Slurm name; `heat0` to `heat7`; header, cursor, cursor-blurred, cursor-sign,
marked, mark-sign, match, muted, accent, warn, track (the empty part
of a bar), title (of a frame), key (a key in a text), new (the badge for unseen lines); added and removed (lines of a
diff), added-word and removed-word (the words in them that differ); `ansi0` to `ansi15`, the 16
colors of a log. A role that is missing in a palette is drawn plain.
"""

from __future__ import annotations

from collections.abc import Mapping

from rich.style import Style

Palette = Mapping[str, Style]
PLAIN = Style()
"""A style with neither color nor attribute. Style.null() cannot be used, because simplify() would drop it."""

_ANSI_STATES = {
    "RUNNING": "green",
    "COMPLETING": "green",
    "CONFIGURING": "cyan",
    "PENDING": "yellow",
    "COMPLETED": "",
    "CANCELLED": "",
    "SUSPENDED": "magenta",
    "HELD": "magenta",
    "PREEMPTED": "magenta",
    "FAILED": "red",
    "TIMEOUT": "red",
    "NODE_FAIL": "red",
    "OUT_OF_MEMORY": "red",
    "DEADLINE": "red",
    "BOOT_FAIL": "red",
}
_ANSI_HEAT = (
    ("white", "black"),
    ("bright_white", "blue"),
    ("bright_white", "blue"),
    ("black", "cyan"),
    ("black", "cyan"),
    ("black", "green"),
    ("black", "yellow"),
    ("black", "bright_yellow"),
)
"""Pairs (text, background), ordered by brightness as far as 16 colors allow, and readable at every step."""
_ANSI_HEAT_ON_LIGHT = (
    ("black", "bright_white"),
    ("black", "white"),
    ("black", "white"),
    ("black", "bright_cyan"),
    ("black", "cyan"),
    ("bright_white", "blue"),
    ("bright_white", "blue"),
    ("bright_white", "black"),
)
_ANSI_ON_LIGHT = {"yellow": "blue"}
"""Replacements for colors that are unreadable on white."""
_ANSI_MUTED = Style(dim=True)
"""This is not bright black, because bright black is the background itself in palettes such as Solarized."""
_ANSI_ROLES = {
    "muted": _ANSI_MUTED,
    "accent": Style(color="cyan"),
    "track": _ANSI_MUTED,
    "title": Style(bold=True),
    "key": Style(color="cyan", bold=True),
    "warn": Style(color="red", bold=True),
    "header": Style(bold=True, underline=True),
    "cursor": Style(reverse=True),
    "cursor-blurred": Style(bold=True),
    "cursor-sign": Style(bold=True),
    "marked": Style(bold=True),
    "mark-sign": Style(color="magenta", bold=True),
    "match": Style(underline=True, bold=True),
    "new": Style(reverse=True, bold=True),
    "added": Style(color="green"),
    "removed": Style(color="red"),
    "added-word": Style(color="green", reverse=True),
    "removed-word": Style(color="red", reverse=True),
}
FEW_COLOURS = frozenset({"standard", "windows"})
"""Rich's names for terminals with 16 colors."""
MANY_COLOURS, RGB = "256", "truecolor"
"""Rich's names for terminals with 256 colors and with RGB colors."""


def ansi_styles(*, dark: bool = True) -> dict[str, Style]:
    """Return a palette of the terminal's own 16 colors.

    Its user has chosen them to be readable on a dark or a light background.
    """
    instead = {} if dark else _ANSI_ON_LIGHT
    styles = {
        state: Style(color=instead.get(colour, colour)) if colour else _ANSI_MUTED
        for state, colour in _ANSI_STATES.items()
    }
    for step, (text, ground) in enumerate(_ANSI_HEAT if dark else _ANSI_HEAT_ON_LIGHT):
        styles[f"heat{step}"] = Style(color=text, bgcolor=ground)
    return styles | _ANSI_ROLES


def for_terminal(styles: Palette, color_system: str | None, *, dark: bool) -> Palette:
    """Return the palette unchanged, or the palette of 16 colors if the terminal has no more.

    The nearest of 16 colors could make the cursor and the heat map invisible. `color_system` is Rich's name:
    truecolor, 256, standard or windows; None means that no color is written. `dark` is true if
    the background is dark.
    """
    return ansi_styles(dark=dark) if color_system in FEW_COLOURS else styles
