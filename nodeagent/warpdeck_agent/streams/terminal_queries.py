"""Queries of programs to their terminal: its type, cursor position, colors and size.

A terminal's answer arrives like typed keys. So a query that was answered once must not be shown again: the
answer would be typed into the program that runs now. Sources: ECMA-48, XTerm's control sequences (ctlseqs),
kitty's keyboard and graphics protocols.
"""

from __future__ import annotations

import re

_END = rb"(?:\x07|\x1b\\)"
_QUERIES = re.compile(
    rb"|".join(
        (
            rb"\x05",  # ENQ
            rb"\x1bZ",
            rb"\x1b\[[>=?]?[\d;]*c",  # terminal type
            rb"\x1b\[\??[\d;]*n",  # status, cursor position, colors
            rb"\x1b\[\??\d+\$p",  # one mode
            rb"\x1b\[\d*\$w",  # cursor state, tab stops
            rb"\x1b\[>\d*q",  # version
            rb"\x1b\[\?u",  # keyboard mode
            rb"\x1b\[[01]?x",  # line parameters
            rb"\x1b\[(?:1[1345689]|2[01])(?:;\d+)*t",  # window
            rb"\x1b\][\d;]*;(?:[a-z0-9]*;)?\?" + _END,  # colors, clipboard
            rb"\x1bP[+$]q[^\x1b\x07]*" + _END,  # settings
            # support for pictures; a piece has 4096 bytes at most
            rb"\x1b_G(?:[^\x1b;]{0,99},)?a=q[^\x1b]{0,4999}\x1b\\",
        )
    )
)


def without_queries(shown: bytes) -> bytes:
    """Return the output with its queries replaced by NULs, which terminals ignore.

    The length stays the same.
    """
    return _QUERIES.sub(lambda found: bytes(len(found[0])), shown)
