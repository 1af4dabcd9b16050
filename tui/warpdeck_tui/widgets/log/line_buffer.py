"""A window of lines of a log, in bounded memory: bytes in, numbered lines out; it grows at both ends.

Text is kept in blocks of bytes with an index of line starts (4 bytes a line), so that a million short lines cost hardly
more than their text. When MAX_BYTES is exceeded, blocks go at the end that does not grow; line numbers never change (those
put in front are below 0). A carriage return starts its line anew, as progress bars want it, so of a thousand states only
the last takes space. Bytes are indexed when somebody looks, not when they come: feeding costs one append.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

MAX_BYTES = 32 * 1024 * 1024
"""Text and index of one window: hundreds of thousands of lines. What is outside is read again when it is wanted."""
BLOCK_BYTES = 256 * 1024
"""What is dropped at once, and what a search looks through at once."""
PENDING_BYTES = 256 * 1024
"""So much may come in before it is indexed although nobody looks."""
MAX_LINE_BYTES = 256 * 1024
"""A line that does not end is broken here: a binary file in a log must not become one line of a gigabyte."""
INDEX_BYTES = 4
_OVERWRITTEN = re.compile(rb"(?m)^[^\n]*\r(?=[^\r\n])")
"""From the start of a line to its last carriage return that something follows."""


@dataclass(slots=True)
class _Block:
    """Whole lines: the number of the first, where they begin in the file and how much of it they are, text, line starts."""

    first: int
    at_bytes: int
    file_bytes: int
    text: bytearray
    starts: array[int]

    @property
    def cost(self) -> int:
        return len(self.text) + INDEX_BYTES * len(self.starts)


class Piece(NamedTuple):
    """Whole lines to look through: the number of the first, and their bytes."""

    first: int
    data: bytes


class LogLines:
    """Lines `first` to `end` - 1 are kept. The last may be unfinished: it changes when more comes."""

    def __init__(self, *, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self.clear()

    def clear(self, *, at_bytes: int = 0, in_line: bool = False) -> None:
        """Empty again, at that place in the file; `in_line`: somewhere in a line, whose rest is left out."""
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
        """The number of the oldest line that is kept."""
        self._index()
        return self._blocks[0].first if self._blocks else self._complete

    @property
    def end(self) -> int:
        """One more than the number of the newest line."""
        self._index()
        return self._complete + bool(self._partial)

    @property
    def start_bytes(self) -> int:
        """Where the oldest line begins in the file."""
        self._index()
        return self._blocks[0].at_bytes if self._blocks else self._complete_bytes

    @property
    def end_bytes(self) -> int:
        """How far into the file the window reaches."""
        return self._complete_bytes + self._partial_file_bytes + self._pending_bytes

    @property
    def cost_bytes(self) -> int:
        """Of text and index."""
        return self._cost

    def append(self, data: bytes) -> None:
        """What follows in the file, cut anywhere. The oldest lines go if there are too many."""
        for start in range(0, len(data), PENDING_BYTES):
            piece = data[start : start + PENDING_BYTES]
            self._pending.append(piece)
            self._pending_bytes += len(piece)
            if self._pending_bytes >= PENDING_BYTES:
                self._index()

    def prepend(self, data: bytes) -> None:
        """What stands in the file before the window, from the start of a line on. The newest go if there are too many."""
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
        """A line that is kept, without its end."""
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
        """The last line if it has no end yet, as it is now."""
        self._index()
        return self._partial

    def restate(self, unfinished: bytes) -> None:
        """The last line, without an end, is this from now on; b"": there is none."""
        self._index()
        self._partial = overwritten(unfinished)

    def text(self) -> bytes:
        """All that is kept."""
        self._index()
        return b"".join([*(bytes(block.text) for block in self._blocks), self._partial])

    def pieces(self) -> list[Piece]:
        """All that is kept, as it is now, to be looked through elsewhere."""
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
        """What comes after the rest of the line that the window began in; all of it where that does not end."""
        cut = came.find(b"\n") + 1
        if not cut and len(came) >= MAX_LINE_BYTES:
            self._skipping = False
            return came
        self._skipping = not cut
        self._complete_bytes += cut or len(came)
        return came[cut:] if cut else b""

    def _break_partial(self) -> None:
        """Makes lines of a line that is too long. What a carriage return took away counts for the last of them."""
        rest, at = self._partial, 0
        lost = self._partial_file_bytes - len(rest)
        while len(rest) - at > MAX_LINE_BYTES:
            self._keep(rest[at : at + MAX_LINE_BYTES] + b"\n", file_bytes=MAX_LINE_BYTES)
            at += MAX_LINE_BYTES
        self._partial, self._partial_file_bytes = rest[at:], len(rest) - at + lost

    def _keep(self, whole: bytes, *, file_bytes: int) -> None:
        """Whole lines go to the newest block, or to a new one if that is full; the oldest go if there are too many."""
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
    """Without what a carriage return says is to be written over."""
    return _OVERWRITTEN.sub(b"", data) if b"\r" in data else data


def _add(block: _Block, whole: bytes) -> int:
    """Puts whole lines at a block's end; how many they are."""
    lengths = [len(line) + 1 for line in whole.split(b"\n")[:-1]]
    block.starts.extend(accumulate(lengths[:-1], initial=len(block.text)))
    block.text.extend(whole)
    return len(lengths)
