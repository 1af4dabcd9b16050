"""What a command prints on a terminal: users chose its names, comments and paths, and a control character in one would act on the
reader's terminal. Into pipes and files goes what there is, as with Slurm.
"""

from __future__ import annotations

import codecs
import re

TYPE_CHECKING = False
if TYPE_CHECKING:  # not typing's own: it is 3 ms
    from typing import Any

_ACTS = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_IN_TEXT = re.compile(f"(?![\n\t])[{_ACTS}]")
_IN_WORD = re.compile(f"[{_ACTS}]")


def visible_word(text: str) -> str:
    """One value: "?" for each character that a terminal obeys, line ends and tabs too. Accents and emoji stay."""
    return text if text.isprintable() else _IN_WORD.sub("?", text)


def visible_text(text: str) -> str:
    """The same of whole output, whose line ends and tabs are the command's own."""
    return text if text.isprintable() else _IN_TEXT.sub("?", text)


class Visible:
    """Text that comes in pieces, with "?" for each control or bidi character. Lines stay lines."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def piece(self, data: bytes) -> bytes:
        """The next piece; the beginning of a character at its end waits for the rest."""
        return visible_text(self._decoder.decode(data)).encode()


class VisibleStream:
    """A stream of this process; on a terminal, what is written is made visible first."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()

    def write(self, text: str) -> int:
        """As a text stream has it."""
        self._stream.write(visible_text(text) if self._is_terminal else text)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
