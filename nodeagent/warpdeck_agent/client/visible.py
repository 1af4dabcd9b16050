"""Makes command output safe for terminals.

Users choose names, comments and paths, and control characters in them would affect the reader's terminal.
Output to pipes and files is unchanged, as with Slurm.
"""

from __future__ import annotations

import codecs

TYPE_CHECKING = False
if TYPE_CHECKING:  # Not imported from typing: the import takes 3 ms.
    from typing import Any, Iterable

_RANGES = (
    (0x00, 0x1F),
    (0x7F, 0x9F),
    (0x061C, 0x061C),
    (0x200E, 0x200F),
    (0x2028, 0x202E),
    (0x2066, 0x2069),
    (0xD800, 0xDFFF),
)
CONTROL_CODES = frozenset(code for first, last in _RANGES for code in range(first, last + 1))
"""The codes of control characters, text direction marks, line separators and surrogates. It is a set because
importing regular expressions would take longer than the answer to a command.
"""
_IN_WORD = dict.fromkeys(CONTROL_CODES, "?")
_IN_TEXT = {code: sign for code, sign in _IN_WORD.items() if code not in (0x09, 0x0A)}


def visible_word(text: str) -> str:
    """Return one value with "?" for each character that a terminal interprets, including line ends and tabs.

    Accents and emoji stay.
    """
    return text if text.isprintable() else text.translate(_IN_WORD)


def visible_text(text: str) -> str:
    """Return whole output with "?" for each character that a terminal interprets, except line ends and
    tabs.
    """
    return text if text.isprintable() else text.translate(_IN_TEXT)


class Visible:
    """A filter for text that arrives in pieces.

    It replaces each control or bidi character by "?" and keeps lines.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def piece(self, data: bytes) -> bytes:
        """Return the next piece. An incomplete character at its end waits for the rest."""
        return visible_text(self._decoder.decode(data)).encode()


class VisibleStream:
    """A stream to a terminal. It makes text visible before it writes the text."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    @classmethod
    def of(cls, stream: Any) -> Any:
        """Wrap a stream that is a terminal and not wrapped yet; return any other stream unchanged."""
        return cls(stream) if stream.isatty() and not isinstance(stream, cls) else stream

    def write(self, text: str) -> int:
        """Write text like a text stream."""
        self._stream.write(visible_text(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write lines like a text stream."""
        self.write("".join(lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
