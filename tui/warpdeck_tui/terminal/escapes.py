"""Input parser that treats Esc and a key typed soon after it as two separate keys.

Terminals send Alt+key as Esc followed by the key. Esc and the next key also arrive together over a slow
connection and in tmux, which by default holds an Esc back for half a second. Textual then reads both as Alt,
and the Esc is lost. In this app Esc goes back from everything, so Esc takes precedence; `is_alt` decides for
which keys Alt does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from textual.message import Message

from .textual_private import OpenParser

ESC = "\x1b"
_BEGIN_SEQUENCES = "[]OPX^_" + ESC
"""Characters that can follow the Esc of an escape sequence, as terminals send them for other keys, the mouse
and answers.
"""
_PASTE_BEGINS, _PASTE_ENDS = "[200~", "[201~"


class EscapeParser(OpenParser):
    """Textual's parser of terminal input, with a different treatment of Esc."""

    def __init__(self, *, is_alt: Callable[[str], bool]) -> None:
        super().__init__()
        self._is_alt = is_alt
        self._behind = ""
        """The first characters after the last Esc."""
        self._pasting = False

    def feed(self, data: str) -> Iterable[Message]:
        """Parse `data` in pieces that end with an Esc. An empty string ends the input."""
        if not data:
            yield from super().feed(data)
        at = 0
        while at < len(data):
            if self._is_key_behind_escape(data[at]):
                yield from self.end_escape()
            stop = data.find(ESC, at) + 1 or len(data)
            piece = data[at:stop]
            yield from super().feed(piece)
            self._remember(piece)
            at = stop

    def _is_key_behind_escape(self, char: str) -> bool:
        waits = not self._behind and self.awaits_more
        return waits and not self._pasting and char not in _BEGIN_SEQUENCES and not self._is_alt(char)

    def _remember(self, piece: str) -> None:
        self._behind = (self._behind + piece)[: len(_PASTE_BEGINS)]
        if self._behind == _PASTE_BEGINS:
            self._pasting = True
        elif self._behind == _PASTE_ENDS:
            self._pasting = False
        if piece.endswith(ESC):
            self._behind = ""
