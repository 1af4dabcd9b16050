"""A window of the lines of a log, in limited memory.

It takes bytes, returns numbered lines, and can grow at both ends. Text is kept in blocks of bytes with an
index of line starts (4 bytes per line), so that a million short lines take hardly more memory than their
text. If MAX_BYTES is exceeded, blocks are dropped at the end that is not growing. Line numbers never change;
lines prepended later have numbers below 0. A carriage return restarts its line, as progress bars use it, so
only the last of a thousand states takes memory. Bytes are indexed when lines are read, not when they arrive,
so that feeding only appends.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

MAX_BYTES = 32 * 1024 * 1024
"""Largest size of the text and the index of one window. This is enough for hundreds of thousands of lines;
others are read again when needed.
"""
BLOCK_BYTES = 256 * 1024
"""Size of a block, the unit in which lines are dropped and searched."""
PENDING_BYTES = 256 * 1024
"""Largest number of bytes that wait without an index if no line is read meanwhile."""
MAX_LINE_BYTES = 256 * 1024
"""A longer line is broken here, so that a binary file in a log does not become one line of a gigabyte."""
INDEX_BYTES = 4
_OVERWRITTEN = re.compile(rb"(?m)^[^\n]*\r(?=[^\r\n])")
"""Matches from the start of a line to its last carriage return that is followed by text."""


@dataclass(slots=True)
class _Block:
    """A block of complete lines.

    `first` is the number of the first line, `at_bytes` its offset in the file, `file_bytes` the size of the
    lines in the file, and `starts` the offsets of the lines in `text`.
    """

    first: int
    at_bytes: int
    file_bytes: int
    text: bytearray
    starts: array[int]

    @property
    def cost(self) -> int:
        return len(self.text) + INDEX_BYTES * len(self.starts)


class Piece(NamedTuple):
    """Complete lines to search: the number of the first line, and the bytes."""

    first: int
    data: bytes


class LogLines:
    """The window. It contains the lines `first` to `end` - 1.

    The last line may be unfinished, and then changes when data arrives.
    """

    def __init__(self, *, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self.clear()

    def clear(self, *, at_bytes: int = 0, in_line: bool = False) -> None:
        """Make the window empty, at this offset in the file.

        With `in_line`, the offset is inside a line, and the rest of that line is skipped.
        """
        self._blocks: list[_Block] = []
        self._cost = 0
        self._complete = 0
        self._complete_bytes = at_bytes
        self._skipping = in_line
        self._partial = b""
        self._partial_file_bytes = 0
        self._pending: list[bytes] = []
        self._pending_bytes = 0

    @property
    def first(self) -> int:
        """The number of the first line in the window."""
        self._index()
        return self._blocks[0].first if self._blocks else self._complete

    @property
    def end(self) -> int:
        """The number of the last line in the window, plus one."""
        self._index()
        return self._complete + bool(self._partial)

    @property
    def start_bytes(self) -> int:
        """The offset in the file of the first line in the window."""
        self._index()
        return self._blocks[0].at_bytes if self._blocks else self._complete_bytes

    @property
    def end_bytes(self) -> int:
        """The offset in the file of the end of the window."""
        return self._complete_bytes + self._partial_file_bytes + self._pending_bytes

    @property
    def cost_bytes(self) -> int:
        """The size of the text and the index in bytes."""
        return self._cost

    def append(self, data: bytes) -> None:
        """Append data that follows in the file, split anywhere.

        The oldest lines are dropped if there are too many.
        """
        for start in range(0, len(data), PENDING_BYTES):
            piece = data[start : start + PENDING_BYTES]
            self._pending.append(piece)
            self._pending_bytes += len(piece)
            if self._pending_bytes >= PENDING_BYTES:
                self._index()

    def prepend(self, data: bytes) -> None:
        """Prepend data that precedes the window in the file and begins at the start of a line.

        The newest lines are dropped if there are too many.
        """
        self._index()
        at_bytes, first = self.start_bytes - len(data), self.first
        text = overwritten(data)
        block = _Block(first, at_bytes, len(data), bytearray(), array("I"))
        block.first -= _add(block, text if text.endswith(b"\n") else text + b"\n")
        self._blocks.insert(0, block)
        self._cost += block.cost
        while self._cost > self._max_bytes and len(self._blocks) > 1:
            gone = self._blocks.pop()
            self._cost -= gone.cost
            self._complete, self._complete_bytes = gone.first, gone.at_bytes
            self._partial, self._partial_file_bytes = b"", 0

    def line(self, number: int) -> bytes:
        """Return a line of the window without its line end. Raises IndexError if it is not in the window."""
        self._index()
        if number == self._complete and self._partial:
            return self._partial.rstrip(b"\r")
        at = bisect_right(self._blocks, number, key=lambda block: block.first) - 1
        if at < 0 or number >= self._complete:
            raise IndexError(number)
        block = self._blocks[at]
        row = number - block.first
        stop = block.starts[row + 1] if row + 1 < len(block.starts) else len(block.text)
        return bytes(block.text[block.starts[row] : stop - 1]).rstrip(b"\r")

    @property
    def unfinished(self) -> bytes:
        """The present content of the last line if it has no line end yet, else b""."""
        self._index()
        return self._partial

    def restate(self, unfinished: bytes) -> None:
        """Replace the unfinished last line; b"" removes it."""
        self._index()
        self._partial = overwritten(unfinished)

    def text(self) -> bytes:
        """Return all text in the window."""
        self._index()
        return b"".join([*(bytes(block.text) for block in self._blocks), self._partial])

    def pieces(self) -> list[Piece]:
        """Return copies of all lines in the window, for searching in another thread."""
        self._index()
        found = [Piece(block.first, bytes(block.text)) for block in self._blocks]
        return [*found, Piece(self._complete, self._partial)] if self._partial else found

    def _index(self) -> None:
        if not self._pending:
            return
        came = b"".join(self._pending)
        self._pending.clear()
        self._pending_bytes = 0
        if self._skipping:
            came = self._after_first_end(came)
        cut = came.rfind(b"\n") + 1
        if cut:
            whole = overwritten(self._partial + came[:cut])
            self._keep(whole, file_bytes=self._partial_file_bytes + cut)
            self._partial, self._partial_file_bytes = b"", 0
        self._partial = overwritten(self._partial + came[cut:])
        self._partial_file_bytes += len(came) - cut
        if len(self._partial) > MAX_LINE_BYTES:
            self._break_partial()

    def _after_first_end(self, came: bytes) -> bytes:
        """Return the data after the rest of the line in which the window began.

        If that line is too long, return all data.
        """
        cut = came.find(b"\n") + 1
        if not cut and len(came) >= MAX_LINE_BYTES:
            self._skipping = False
            return came
        self._skipping = not cut
        self._complete_bytes += cut or len(came)
        return came[cut:] if cut else b""

    def _break_partial(self) -> None:
        """Break an unfinished line that is too long into lines.

        Bytes that a carriage return removed count for the last of them.
        """
        rest, at = self._partial, 0
        lost = self._partial_file_bytes - len(rest)
        while len(rest) - at > MAX_LINE_BYTES:
            self._keep(rest[at : at + MAX_LINE_BYTES] + b"\n", file_bytes=MAX_LINE_BYTES)
            at += MAX_LINE_BYTES
        self._partial, self._partial_file_bytes = rest[at:], len(rest) - at + lost

    def _keep(self, whole: bytes, *, file_bytes: int) -> None:
        """Add complete lines to the newest block, or to a new one if it is full.

        The oldest blocks are dropped if there are too many.
        """
        newest = self._blocks[-1] if self._blocks else None
        if newest is None or len(newest.text) + len(whole) > BLOCK_BYTES:
            newest = _Block(self._complete, self._complete_bytes, 0, bytearray(), array("I"))
            self._blocks.append(newest)
        before = newest.cost
        self._complete += _add(newest, whole)
        newest.file_bytes += file_bytes
        self._complete_bytes += file_bytes
        self._cost += newest.cost - before
        while self._cost > self._max_bytes and len(self._blocks) > 1:
            self._cost -= self._blocks.pop(0).cost


def overwritten(data: bytes) -> bytes:
    """Return the data without the text that a carriage return marks as overwritten."""
    return _OVERWRITTEN.sub(b"", data) if b"\r" in data else data


def _add(block: _Block, whole: bytes) -> int:
    """Add complete lines to the end of a block, and return their number."""
    lengths = [len(line) + 1 for line in whole.split(b"\n")[:-1]]
    block.starts.extend(accumulate(lengths[:-1], initial=len(block.text)))
    block.text.extend(whole)
    return len(lengths)
