"""How much of a launch's output has been brought here, so that a killed controller goes on at the very next byte.

Before each write the ledger says what is about to be appended: how much was taken before, how long the piece is, and how
long the file was. After a kill -9 the file's length tells how much of the piece arrived. Exact as long as one launch
writes the file at a time; where several share one, a kill in the midst of a write may repeat one piece.
"""

from __future__ import annotations

import os

RECORD_BYTES = 64
"""One record, overwritten in place: a write so small is whole or not at all."""


class Ledger:
    """One source's file; `offset` is the next byte to ask the node for."""

    def __init__(self, path: str) -> None:
        """Makes it if it is not there. Raises OSError."""
        self.is_new = not os.path.exists(path)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.offset = 0
        self._piece = self._length_before = 0
        words = os.pread(self._descriptor, RECORD_BYTES, 0).split()
        if len(words) == 4:
            self.offset, self._piece, self._length_before = (int(word) for word in words[:3])
        self.is_done = len(words) == 4 and words[3] == b"done"

    def settle(self, length: int) -> None:
        """Counts what of the last piece is in the file of that length."""
        self.offset += min(max(length - self._length_before, 0), self._piece)
        self._piece = 0

    def announce(self, piece: int, *, length: int) -> None:
        """Such a piece is about to be appended to a file of that length. Raises OSError."""
        self._write(piece, length, "open")
        self._piece, self._length_before = piece, length

    def finish(self) -> None:
        """Everything was brought. Raises OSError."""
        self._write(0, 0, "done")
        self.is_done = True

    def close(self) -> None:
        os.close(self._descriptor)

    def _write(self, piece: int, length: int, word: str) -> None:
        record = f"{self.offset} {piece} {length} {word}".ljust(RECORD_BYTES)
        os.pwrite(self._descriptor, record.encode(), 0)
