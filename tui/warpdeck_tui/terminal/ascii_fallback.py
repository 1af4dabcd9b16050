"""Finds out whether the terminal can show non-ASCII characters, from the locale and the terminal type.

The first of LC_ALL, LC_CTYPE and LANG that is set decides, as in other programs. In most containers none is
set; then the terminal is assumed to show them, as today's terminals do. Python replaces the locale C by an
LC_CTYPE of its own, which is therefore not a setting of the user.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

POOR_TERMINALS = ("linux", "ansi", "cons25", "sun", "vt52", "vt100", "vt102", "vt220", "vt320")
"""Consoles and hardware terminals. Their fonts have only letters and a few line characters."""
_UTF_8 = ("utf-8", "utf8")


def lacks_signs(environ: Mapping[str, str]) -> str:
    """Return the setting that limits the terminal to ASCII, such as "LANG=C", or "" if there is none."""
    terminal = environ.get("TERM", "")
    if terminal in POOR_TERMINALS:
        return f"TERM={terminal}"
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        value = environ.get(name, "")
        if value:
            return "" if any(word in value.lower() for word in _UTF_8) else f"{name}={value}"
    return ""


def as_started(environ: Mapping[str, str], *, block: Path = Path("/proc/self/environ")) -> dict[str, str]:
    """Return the environment without the LC_CTYPE that Python has set."""
    try:
        given = block.read_bytes().split(b"\0")
    except OSError:  # there is no /proc, so the value must be assumed to be the user's
        return dict(environ)
    is_users = any(each.startswith(b"LC_CTYPE=") for each in given)
    return {name: value for name, value in environ.items() if is_users or name != "LC_CTYPE"}
