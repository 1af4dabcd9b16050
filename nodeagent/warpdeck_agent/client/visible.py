"""What a command prints on a terminal: users chose its names, comments and paths, and a control character in one would act on the
reader's terminal. Into pipes and files goes what there is, as with Slurm.
"""

from __future__ import annotations

import codecs

KEPT = "\n\t"


class Visible:
    """Text that comes in pieces, with "?" for each control or bidi character. Lines stay lines."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def piece(self, data: bytes) -> bytes:
        """The next piece; the beginning of a character at its end waits for the rest."""
        text = self._decoder.decode(data)
        if not text.isprintable():
            text = "".join(each if each.isprintable() or each in KEPT else "?" for each in text)
        return text.encode()
