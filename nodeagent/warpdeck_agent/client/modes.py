"""Tracks the terminal modes that output has set.

The modes are undone on the terminal of a viewer that leaves, and set on the terminal of a viewer that attaches
later. Only those modes are tracked that stay set when a program has ended and would disturb the next program:
the alternate screen, the mouse, bracketed paste, a hidden cursor, and the encoding of keys. Sources: XTerm's
control sequences (ctlseqs), kitty's keyboard protocol.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict

_SEQUENCE = re.compile(rb"\x1b(?:\[\?([\d;]{1,40})([hl])|([=>])|\[([<>])\d*u)")
_BEGUN = re.compile(rb"\x1b(?:\[(?:\?[\d;]{0,40}|[<>]\d{0,4})?)?\Z")
"""The beginning of an incomplete sequence."""
_ON_AT_FIRST = {b"7", b"25"}
"""Modes that are on in a fresh terminal: wrapping, and the cursor."""
_KNOWN = _ON_AT_FIRST | {
    *(b"1 9 47 1000 1002 1003 1004 1005 1006 1015 1016 1047 1049 2004 2026 2031 2048".split())
}
_KEYPAD, _KEYBOARD = b"keypad", b"keyboard"


class TerminalModes:
    """The modes of one terminal. `feed` gets all its output."""

    def __init__(self) -> None:
        self._set: Dict[bytes, bytes] = {}
        """The modes that differ from a fresh terminal, in order, with the sequence that set each."""
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
        """Return the output that sets these modes on a fresh terminal."""
        return b"".join(self._set.values())

    def undo(self) -> bytes:
        """Return the output that resets these modes in reverse order; b"" if there are none."""
        undone = b"".join(_opposite(mode, sequence) for mode, sequence in reversed(self._set.items()))
        return undone + b"\x1b[0m" if undone else b""


def _opposite(mode: bytes, sequence: bytes) -> bytes:
    if mode == _KEYPAD:
        return b"\x1b>"
    if mode == _KEYBOARD:
        return b"\x1b[<u"
    return sequence[:-1] + (b"l" if sequence.endswith(b"h") else b"h")
