"""Whether the terminal shows signs beyond ASCII, by what the environment says of it: its locale, and its kind.

The first of LC_ALL, LC_CTYPE and LANG that is set counts, as everywhere. Where none is, as in most containers, nothing is
known, and terminals of today show them. Python puts an LC_CTYPE of its own in the place of the locale C: that is no word of
the user's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

POOR_TERMINALS = ("linux", "ansi", "cons25", "sun", "vt52", "vt100", "vt102", "vt220", "vt320")
"""Consoles and terminals of the hardware's time: their fonts have letters, and a few lines."""
_UTF_8 = ("utf-8", "utf8")


def lacks_signs(environ: Mapping[str, str]) -> str:
    """What says that there is only ASCII, as in "LANG=C"; "" where nothing does."""
    terminal = environ.get("TERM", "")
    if terminal in POOR_TERMINALS:
        return f"TERM={terminal}"
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        value = environ.get(name, "")
        if value:
            return "" if any(word in value.lower() for word in _UTF_8) else f"{name}={value}"
    return ""


def as_started(environ: Mapping[str, str], *, block: Path = Path("/proc/self/environ")) -> dict[str, str]:
    """The environment without the LC_CTYPE that Python has put there."""
    try:
        given = block.read_bytes().split(b"\0")
    except OSError:  # no /proc: what is there has to be taken for the user's
        return dict(environ)
    is_users = any(each.startswith(b"LC_CTYPE=") for each in given)
    return {name: value for name, value in environ.items() if is_users or name != "LC_CTYPE"}
