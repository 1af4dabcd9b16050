"""Escape sequences of terminals in the output of programs."""

from __future__ import annotations

import re

SEQUENCE = (
    rb"\x1b(?:"
    rb"\[[0-?]*[ -/]*[@-~]?"  # CSI, which includes SGR; an incomplete one ends where it breaks off
    # OSC, DCS, SOS, PM, APC: up to their end, or to the end of the line
    rb"|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"
    rb"|[ -/]+[0-~]"  # character sets and similar
    rb"|[0-Z\\^-~]"  # sequences of two characters
    rb")?"
)
"""A regular expression of ECMA-48 sequences: colors, cursor, titles, character sets."""
_ESCAPES = re.compile(SEQUENCE)


def without_escapes(data: bytes) -> bytes:
    """Return the bytes without escape sequences. Line ends are kept."""
    return _ESCAPES.sub(b"", data) if b"\x1b" in data else data
