"""What programs ask of the terminal that they run on: who it is, where its cursor is, its colours, its size.

A terminal answers as if its user typed. So what was asked and answered once must not be shown again: the answer would be typed
into whatever runs now. Sources: ECMA-48, XTerm's control sequences (ctlseqs), kitty's keyboard and graphics protocols.
"""

from __future__ import annotations

import re

_END = rb"(?:\x07|\x1b\\)"
_QUERIES = re.compile(
    rb"|".join(
        (
            rb"\x05",  # ENQ
            rb"\x1bZ",
            rb"\x1b\[[>=?]?[\d;]*c",  # who are you
            rb"\x1b\[\??[\d;]*n",  # your state, your cursor, your colours
            rb"\x1b\[\??\d+\$p",  # this mode
            rb"\x1b\[\d*\$w",  # your cursor, your tabs
            rb"\x1b\[>\d*q",  # your version
            rb"\x1b\[\?u",  # your keyboard
            rb"\x1b\[[01]?x",  # your line
            rb"\x1b\[(?:1[1345689]|2[01])(?:;\d+)*t",  # your window
            rb"\x1b\][\d;]*;(?:[a-z0-9]*;)?\?" + _END,  # your colours, your clipboard
            rb"\x1bP[+$]q[^\x1b\x07]*" + _END,  # your settings
            rb"\x1b_G(?:[^\x1b;]{0,99},)?a=q[^\x1b]{0,4999}\x1b\\",  # whether you show pictures; a piece has 4096 at most
        )
    )
)


def without_queries(shown: bytes) -> bytes:
    """The same, as long as before: in the place of queries are NULs, which terminals pass over."""
    return _QUERIES.sub(lambda found: bytes(len(found[0])), shown)
