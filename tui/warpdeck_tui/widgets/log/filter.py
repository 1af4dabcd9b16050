"""A log with only some of its lines: those with given words, those without, or those of one rank.

It has the face of `log_text`, so that the view moves, searches and follows in it as in the whole log. What the whole log keeps is
looked through first, then the file page by page from there backwards, as far as somebody looks; each page in a thread. A line
without an end, as a progress bar is while it moves, is let through or not as it stands at the moment.
"""

from __future__ import annotations

import asyncio
import re
from typing import NamedTuple

from .line_buffer import MAX_BYTES, MAX_LINE_BYTES, LogLines, overwritten
from .search import matching_lines, words
from .text import LogText, find_in

WITHOUT = "!"
"""Before the words: lines without them."""
MAX_RANK_DIGITS = 6


class Filter(NamedTuple):
    """`title` is what the view says of it."""

    title: str
    pattern: re.Pattern[bytes]
    without: bool = False


def only(text: str) -> Filter:
    """The lines with that text, or with "!" before it those without; small letters mean any."""
    without = text.startswith(WITHOUT) and len(text) > 1
    query = words(text.removeprefix(WITHOUT) if without else text)
    return Filter(f"&{text}", query.data, without)


def of_rank(text: str) -> Filter | None:
    """The lines that say they are of that rank, as torchrun ([rank3]:, [default3]:) and srun -l (3:) mark them; None if the text
    is no number."""
    if not text.isdecimal() or len(text) > MAX_RANK_DIGITS:
        return None
    number = str(int(text)).encode()
    mark = rb"^[ \t]*(?:\[(?:rank|default|local_rank)?[ :=]{0,2}%b\]|rank[ :=]{0,2}%b\b|%b: )"
    return Filter(
        f"rank {int(text)}", re.compile(mark % (number, number, number), re.MULTILINE | re.IGNORECASE)
    )


def kept(data: bytes, chosen: Filter) -> bytes:
    """The whole lines of `data` that the filter lets through, each with its end."""
    text = overwritten(data).removesuffix(b"\n")
    found = set(matching_lines(text, chosen.pattern)) if data else set()
    if not found and not chosen.without:  # most pages of a large log
        return b""
    lines = text.split(b"\n") if data else []
    wanted = range(len(lines)) if chosen.without else sorted(found)
    return b"".join(lines[number] + b"\n" for number in wanted if not chosen.without or number not in found)


class FilteredText:
    """The lines of `whole` that the filter lets through; `whole` goes on growing with what is fed here."""

    def __init__(self, whole: LogText, chosen: Filter) -> None:
        self.whole = whole
        self.chosen = chosen
        self.lines = LogLines()
        self.fed_lines = 0
        """Lines that have been fed and let through."""
        self._first = [piece.data for piece in whole.lines.pieces()] if whole.at_end else []
        self._low = whole.lines.start_bytes if whole.at_end else whole.size_bytes
        self._is_torn = not whole.at_end
        """Whether the file is cut at `_low` in a line whose head is still to be read."""
        self._partial = b""
        if whole.at_end and whole.lines.unfinished:
            self._take_partial(self._first.pop())
        self._cannot_read = False

    @property
    def size_bytes(self) -> int:
        """How long the file is, as far as known."""
        return self.whole.size_bytes

    @property
    def start_bytes(self) -> int:
        """From where on the file was looked through."""
        return self._low

    @property
    def looked_through_pct(self) -> int:
        """How much of the file, from its end backwards."""
        return 100 - 100 * self._low // max(1, self.size_bytes)

    @property
    def at_start(self) -> bool:
        """Nothing more is to be had from what stands before."""
        ended = self._low == 0 or self._cannot_read or not self.whole.can_read
        return not self._first and (ended or self.lines.cost_bytes >= MAX_BYTES // 2)

    @property
    def at_end(self) -> bool:
        return True

    def feed(self, data: bytes) -> None:
        """More of the log, cut anywhere."""
        self.whole.feed(data)
        if self._is_torn:
            data = self._after_torn(data)
        came = self._partial + data
        cut = came.rfind(b"\n") + 1
        if not cut and len(came) > MAX_LINE_BYTES:
            cut = len(came)
        self.lines.restate(b"")
        lines = kept(came[:cut], self.chosen)
        if lines:
            self.lines.append(lines)
            self.fed_lines += lines.count(b"\n")
        self._take_partial(came[cut:])

    def _take_partial(self, line: bytes) -> None:
        """The line that has no end yet: what is written over is forgotten."""
        self._partial = overwritten(line)
        self.lines.restate(kept(self._partial, self.chosen).removesuffix(b"\n"))

    def _after_torn(self, data: bytes) -> bytes:
        """What comes after the rest of the torn line, which is read from the file with its head."""
        cut = data.find(b"\n") + 1
        self._is_torn = not cut
        self._low += cut or len(data)
        return data[cut:] if cut else b""

    def to_start(self) -> None:
        """The window stays: what stands before is read as somebody goes there."""

    def to_end(self) -> None:
        """It is always there."""

    async def read_before(self) -> bool:
        """Looks through one page more; False if there is none."""
        if self._first:
            data = self._first.pop()
        elif self.at_start:
            return False
        else:
            stop = self._low
            at_bytes, data = await self.whole.page_before(stop)
            if stop != self._low:  # the torn line has grown meanwhile
                return True
            if not data:
                self._cannot_read = True
                return False
            self._low = at_bytes
            if self._is_torn:
                self._is_torn = False
                cut = data.rfind(b"\n") + 1
                self._take_partial(data[cut:])
                data = data[:cut]
        lines = await asyncio.to_thread(kept, data, self.chosen)
        if lines:
            self.lines.prepend(lines)
        return True

    async def read_after(self) -> bool:
        return False

    async def find(self, pattern: re.Pattern[bytes], number: int, *, forward: bool) -> int | None:
        """The nearest line that matches, from line `number` on; backwards as far as the file goes, then round the end once."""
        found = await find_in(self.lines.pieces(), pattern, number, forward=forward)
        while found is None and not forward and not self.at_start:
            first = self.lines.first
            if not await self.read_before():
                break
            if self.lines.first < first:
                found = await find_in(self.lines.pieces(), pattern, first - 1, forward=False)
        if found is None:
            found = await find_in(self.lines.pieces(), pattern, None, forward=forward)
        return found
