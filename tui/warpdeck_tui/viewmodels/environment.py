"""The variables that a job was submitted with, to its own user. What looks like a secret is shown as one, by its name alone."""

from __future__ import annotations

import re
from collections.abc import Mapping

from warpdeck_tui.widgets.cells import printable

from .cells import Cell, Line, plural

_SECRET = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|PRIVATE|API_?KEY|ACCESS_?KEY|AUTH|COOKIE", re.IGNORECASE
)
_URL_PASSWORD = re.compile(r"(://[^/\s:@]*:)[^/\s@]+(@)")
"""https://user:password@host"""
HIDDEN = "(hidden)"
MAX_VALUE_CHARACTERS = 1000


def environment_lines(variables: Mapping[str, str]) -> list[Line]:
    """By name."""
    lines: list[Line] = [
        (),
        (Cell("environment", "accent"), Cell(f"   {plural(len(variables), 'variable')}", "muted")),
    ]
    for name in sorted(variables):
        value = HIDDEN if _SECRET.search(name) else _URL_PASSWORD.sub(r"\1***\2", variables[name])
        shown = printable(value.replace("\n", "⏎"))
        if len(shown) > MAX_VALUE_CHARACTERS:
            shown = f"{shown[:MAX_VALUE_CHARACTERS]} ..."
        lines.append(
            (Cell(f"  {printable(name)}=", "muted"), Cell(shown, "muted" if value == HIDDEN else ""))
        )
    return lines
