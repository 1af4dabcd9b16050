"""What a command prints on a terminal: users chose its names, comments and paths, and a control character in one would act on the
reader's terminal. Into pipes and files goes what there is, as with Slurm.
"""

from __future__ import annotations

import codecs

TYPE_CHECKING = False
if TYPE_CHECKING:  # not typing's own: it is 3 ms
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
OBEYED = frozenset(code for first, last in _RANGES for code in range(first, last + 1))
"""The codes of controls, marks that turn the direction of text, separators of lines, and halves of characters. A regular expression
would take longer to import than a command to be answered."""
_IN_WORD = dict.fromkeys(OBEYED, "?")
_IN_TEXT = {code: sign for code, sign in _IN_WORD.items() if code not in (0x09, 0x0A)}


def visible_word(text: str) -> str:
    """One value: "?" for each character that a terminal obeys, line ends and tabs too. Accents and emoji stay."""
    return text if text.isprintable() else text.translate(_IN_WORD)


def visible_text(text: str) -> str:
    """The same of whole output, whose line ends and tabs are the command's own."""
    return text if text.isprintable() else text.translate(_IN_TEXT)


class Visible:
    """Text that comes in pieces, with "?" for each control or bidi character. Lines stay lines."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def piece(self, data: bytes) -> bytes:
        """The next piece; the beginning of a character at its end waits for the rest."""
        return visible_text(self._decoder.decode(data)).encode()


class VisibleStream:
    """A stream that leads to a terminal: text is made visible before it is written."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    @classmethod
    def of(cls, stream: Any) -> Any:
        """The stream itself where it leads to no terminal, or is one of these."""
        return cls(stream) if stream.isatty() and not isinstance(stream, cls) else stream

    def write(self, text: str) -> int:
        """As a text stream has it."""
        self._stream.write(visible_text(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """As a text stream has it."""
        self.write("".join(lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
