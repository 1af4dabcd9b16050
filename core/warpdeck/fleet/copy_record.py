"""Records of the output that was already copied from a launch's node to this host.

With its record, a killed controller resumes at exactly the next byte. Before each write, the record gets the
offset already copied, the length of the piece, and the length of the file. After a kill -9, the length of the
file shows how much of the piece was written. This is exact if only one launch at a time writes the file. If
several launches share a file, a kill during a write may repeat one piece.
"""

from __future__ import annotations

import os

RECORD_BYTES = 64
"""Size of the record, which is overwritten in place.

A write of this size is done completely or not at all.
"""


class CopyRecord:
    """The record for one file. `offset` is the next byte to request from the node."""

    def __init__(self, path: str) -> None:
        """Open the record file and create it if it does not exist. Raises OSError."""
        self.is_new = not os.path.exists(path)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.offset = 0
        self._piece = self._length_before = 0
        fields = os.pread(self._descriptor, RECORD_BYTES, 0).split()
        if len(fields) == 4:
            self.offset, self._piece, self._length_before = (int(field) for field in fields[:3])
        self.is_done = len(fields) == 4 and fields[3] == b"done"

    def advance(self, length: int) -> None:
        """Advance the offset by the part of the last piece that is in the file, given the file's length."""
        self.offset += min(max(length - self._length_before, 0), self._piece)
        self._piece = 0

    def begin_piece(self, piece: int, *, length: int) -> None:
        """Record that a piece is about to be appended to a file of that length. Raises OSError."""
        self._write(piece, length, "open")
        self._piece, self._length_before = piece, length

    def finish(self) -> None:
        """Record that everything was copied. Raises OSError."""
        self._write(0, 0, "done")
        self.is_done = True

    def close(self) -> None:
        os.close(self._descriptor)

    def _write(self, piece: int, length: int, state: str) -> None:
        record = f"{self.offset} {piece} {length} {state}".ljust(RECORD_BYTES)
        os.pwrite(self._descriptor, record.encode(), 0)
