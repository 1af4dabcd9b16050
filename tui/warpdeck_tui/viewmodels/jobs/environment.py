"""Shows the environment variables of a job to its own user.

For variables that look like secrets, only the name is shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from warpdeck_tui.viewmodels.cells import Cell, Line, plural
from warpdeck_tui.widgets.cells import printable

_SECRET = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|PRIVATE|API_?KEY|ACCESS_?KEY|AUTH|COOKIE", re.IGNORECASE
)
_URL_PASSWORD = re.compile(r"(://[^/\s:@]*:)[^/\s@]+(@)")
"""Matches the password in https://user:password@host."""
HIDDEN, ANOTHER = "(hidden)", "(different, hidden)"
MAX_VALUE_CHARACTERS = 1000
_OF_A_LOGIN = re.compile(
    r"_|PWD|OLDPWD|SHLVL|WINDOWID|DISPLAY|COLUMNS|LINES|TERM|TERM_\w+|COLORTERM|TMUX\w*|STY|GPG_TTY"
    r"|SSH_(?:AUTH_SOCK|CLIENT|CONNECTION|TTY|AGENT_PID)|XDG_(?:SESSION_\w+|RUNTIME_DIR)|DBUS_\w+|(?:SLURM|SBATCH)_\w+"
)
"""Variables that differ between logins or submissions, and those that repeat the options of the job."""


def environment_lines(variables: Mapping[str, str], *, is_recorded: bool = True) -> list[Line]:
    """Return the lines of all variables, sorted by name.

    `is_recorded` is false if the scheduler may know nothing about the environment of the job.
    """
    count = plural(len(variables), "variable") if variables or is_recorded else "not recorded"
    lines: list[Line] = [(Cell(count, "muted"),)]
    for name in sorted(variables):
        shown = _value(name, variables[name])
        lines.append((Cell(f"{printable(name)}=", "muted"), Cell(shown, "muted" if shown == HIDDEN else "")))
    return lines


def environment_changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return (name, old value, new value) for all variables that differ, sorted by name.

    The value is "" if the variable was not set. For a changed secret, only the fact of the change is shown.
    """
    found = []
    for name in sorted({*before, *after}):
        if before.get(name) == after.get(name) or _OF_A_LOGIN.fullmatch(name):
            continue
        values = [_value(name, each[name]) if name in each else "" for each in (before, after)]
        if values == [HIDDEN, HIDDEN]:
            values[1] = ANOTHER
        found.append((printable(name), values[0], values[1]))
    return found


def _value(name: str, value: str) -> str:
    """Return the value with secrets hidden and long texts shortened."""
    if _SECRET.search(name):
        return HIDDEN
    shown = printable(_URL_PASSWORD.sub(r"\1***\2", value).replace("\n", "⏎"))
    return shown if len(shown) <= MAX_VALUE_CHARACTERS else f"{shown[:MAX_VALUE_CHARACTERS]} ..."
