"""The styles that the line widgets draw with, by role, and what becomes of them on a terminal of 16 colours.

Roles: a job's state by its Slurm name; `heat0` to `heat7`; header, cursor, cursor-blurred, cursor-sign, marked, mark-sign,
match, muted, accent, warn, new (the badge for unseen lines); `ansi0` to `ansi15`, a log's 16 colours. A role that a palette
lacks draws plain.
"""

from __future__ import annotations

from collections.abc import Mapping

from rich.style import Style

Palette = Mapping[str, Style]
PLAIN = Style()
"""Neither colour nor attribute; Style.null() would be dropped by simplify()."""

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
"""(text, background): ordered in brightness as far as 16 colours go, and readable in every step."""
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
"""In place of inks that vanish on white."""
_ANSI_MUTED = Style(dim=True)
"""Not bright black: that is the ground itself in palettes such as Solarized."""
_ANSI_ROLES = {
    "muted": _ANSI_MUTED,
    "accent": Style(color="cyan"),
    "warn": Style(color="red", bold=True),
    "header": Style(bold=True, underline=True),
    "cursor": Style(reverse=True),
    "cursor-blurred": Style(bold=True),
    "cursor-sign": Style(bold=True),
    "marked": Style(bold=True),
    "mark-sign": Style(color="magenta", bold=True),
    "match": Style(underline=True, bold=True),
    "new": Style(reverse=True, bold=True),
}
FEW_COLOURS = frozenset({"standard", "windows"})
"""Rich's names of terminals with 16 colours."""


def ansi_styles(*, dark: bool = True) -> dict[str, Style]:
    """A palette of the terminal's own 16 colours, which its user has chosen to be readable on a dark or a light ground."""
    instead = {} if dark else _ANSI_ON_LIGHT
    styles = {
        state: Style(color=instead.get(colour, colour)) if colour else _ANSI_MUTED
        for state, colour in _ANSI_STATES.items()
    }
    for step, (text, ground) in enumerate(_ANSI_HEAT if dark else _ANSI_HEAT_ON_LIGHT):
        styles[f"heat{step}"] = Style(color=text, bgcolor=ground)
    return styles | _ANSI_ROLES


def for_terminal(styles: Palette, color_system: str | None, *, dark: bool) -> Palette:
    """The palette as it is, or the one of 16 colours where nearest colours would swallow cursor and heat map.

    `color_system` in Rich's words: truecolor, 256, standard, windows; None writes no colour at all. `dark`: the ground.
    """
    return ansi_styles(dark=dark) if color_system in FEW_COLOURS else styles
