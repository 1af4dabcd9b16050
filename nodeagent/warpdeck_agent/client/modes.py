"""Which modes of a terminal are set by what was shown on it, to undo them for who leaves, or set them for who comes later.

Only what outlives the program's own picture and would spoil another's: the alternate screen, the mouse, bracketed paste, a hidden
cursor, what keys send. Sources: XTerm's control sequences (ctlseqs), kitty's keyboard protocol.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict

_SEQUENCE = re.compile(rb"\x1b(?:\[\?([\d;]{1,40})([hl])|([=>])|\[([<>])\d*u)")
_BEGUN = re.compile(rb"\x1b(?:\[(?:\?[\d;]{0,40}|[<>]\d{0,4})?)?\Z")
"""A sequence whose rest is still to come."""
_ON_AT_FIRST = {b"7", b"25"}
"""Wrapping, the cursor."""
_KNOWN = _ON_AT_FIRST | {
    *(b"1 9 47 1000 1002 1003 1004 1005 1006 1015 1016 1047 1049 2004 2026 2031 2048".split())
}
_KEYPAD, _KEYBOARD = b"keypad", b"keyboard"


class Modes:
    """Of one terminal; `feed` is given all that it shows."""

    def __init__(self) -> None:
        self._set: Dict[bytes, bytes] = {}
        """What differs from a fresh terminal, in its order: the mode, and the sequence that set it."""
        self._rest = b""

    def feed(self, data: bytes) -> None:
        data = self._rest + data
        for modes, order, keypad, keyboard in _SEQUENCE.findall(data) if b"\x1b" in data else ():
            if keypad:
                self._note(_KEYPAD, b"\x1b" + keypad, differs=keypad == b"=")
            elif keyboard:
                self._note(_KEYBOARD, b"\x1b[>1u", differs=keyboard == b">")
            for mode in modes.split(b";"):
                if mode in _KNOWN:
                    differs = (order == b"h") is not (mode in _ON_AT_FIRST)
                    self._note(mode, b"\x1b[?" + mode + order, differs=differs)
        begun = _BEGUN.search(data[-48:])
        self._rest = begun[0] if begun else b""

    def _note(self, mode: bytes, sequence: bytes, *, differs: bool) -> None:
        self._set.pop(mode, None)
        if differs:
            self._set[mode] = sequence

    def redo(self) -> bytes:
        """Sets on a fresh terminal what is set here."""
        return b"".join(self._set.values())

    def undo(self) -> bytes:
        """Makes a fresh terminal of it, b"" where it is one; the last first."""
        undone = b"".join(_opposite(mode, sequence) for mode, sequence in reversed(self._set.items()))
        return undone + b"\x1b[0m" if undone else b""


def _opposite(mode: bytes, sequence: bytes) -> bytes:
    if mode == _KEYPAD:
        return b"\x1b>"
    if mode == _KEYBOARD:
        return b"\x1b[<u"
    return sequence[:-1] + (b"l" if sequence.endswith(b"h") else b"h")
