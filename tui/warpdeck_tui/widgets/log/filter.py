"""A filtered log that contains only some of its lines.

These are the lines with given words, the lines without them, or the lines of one rank. It has the same
interface as `log_text`, so that the view moves, searches and follows in it as in the whole log. First the
lines in memory are filtered, then the file, page by page backwards, as far as the user looks. Each page is
filtered in a thread. An unfinished line, such as a moving progress bar, is filtered by its present content.
"""

from __future__ import annotations

import asyncio
import re
from typing import NamedTuple

from .line_buffer import MAX_BYTES, MAX_LINE_BYTES, LogLines, overwritten
from .search import matching_lines, words
from .text import LogText, find_in

WITHOUT = "!"
"""Prefix of the words that selects the lines without them."""
MAX_RANK_DIGITS = 6


class Filter(NamedTuple):
    """A filter of log lines. The view shows its `title`. `without` selects the lines that do not match."""

    title: str
    pattern: re.Pattern[bytes]
    without: bool = False


def only(text: str) -> Filter:
    """Return the filter for lines that contain this text or, with "!" before it, for lines that do not.

    Text in lower case ignores case.
    """
    without = text.startswith(WITHOUT) and len(text) > 1
    query = words(text.removeprefix(WITHOUT) if without else text)
    return Filter(f"&{text}", query.data, without)


def of_rank(text: str) -> Filter | None:
    """Return the filter for the lines of this rank, or None if the text is not a number.

    Ranks are recognized as marked by torchrun ([rank3]:, [default3]:) and srun -l (3:).
    """
    if not text.isdecimal() or len(text) > MAX_RANK_DIGITS:
        return None
    number = str(int(text)).encode()
    mark = rb"^[ \t]*(?:\[(?:rank|default|local_rank)?[ :=]{0,2}%b\]|rank[ :=]{0,2}%b\b|%b: )"
    return Filter(
        f"rank {int(text)}", re.compile(mark % (number, number, number), re.MULTILINE | re.IGNORECASE)
    )


def kept(data: bytes, chosen: Filter) -> bytes:
    """Return the complete lines of `data` that pass the filter, each with its line end."""
    text = overwritten(data).removesuffix(b"\n")
    found = set(matching_lines(text, chosen.pattern)) if data else set()
    if not found and not chosen.without:  # true for most pages of a large log
        return b""
    lines = text.split(b"\n") if data else []
    wanted = range(len(lines)) if chosen.without else sorted(found)
    return b"".join(lines[number] + b"\n" for number in wanted if not chosen.without or number not in found)


class FilteredText:
    """The lines of `whole` that pass the filter. Data that is fed here is also added to `whole`."""

    def __init__(self, whole: LogText, chosen: Filter) -> None:
        self.whole = whole
        self.chosen = chosen
        self.lines = LogLines()
        self.fed_lines = 0
        """Number of lines that were fed and passed the filter."""
        self._first = [piece.data for piece in whole.lines.pieces()] if whole.at_end else []
        self._low = whole.lines.start_bytes if whole.at_end else whole.size_bytes
        self._is_torn = not whole.at_end
        """Whether `_low` is inside a line, and the beginning of that line is still to be read."""
        self._partial = b""
        if whole.at_end and whole.lines.unfinished:
            self._take_partial(self._first.pop())
        self._cannot_read = False

    @property
    def size_bytes(self) -> int:
        """Length of the file in bytes, as far as known."""
        return self.whole.size_bytes

    @property
    def start_bytes(self) -> int:
        """Offset in the file at which the filtered part begins. The filtered part reaches to the end of the file."""
        return self._low

    @property
    def looked_through_pct(self) -> int:
        """Percentage of the file that was filtered, from its end backwards."""
        return 100 - 100 * self._low // max(1, self.size_bytes)

    @property
    def at_start(self) -> bool:
        """Whether no more lines can be read before the window."""
        ended = self._low == 0 or self._cannot_read or not self.whole.can_read
        return not self._first and (ended or self.lines.cost_bytes >= MAX_BYTES // 2)

    @property
    def at_end(self) -> bool:
        return True

    def feed(self, data: bytes) -> None:
        """Add more of the log, which may be split anywhere."""
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
        """Set the unfinished last line. Overwritten text is dropped."""
        self._partial = overwritten(line)
        self.lines.restate(kept(self._partial, self.chosen).removesuffix(b"\n"))

    def _after_torn(self, data: bytes) -> bytes:
        """Return the data after the rest of the torn line.

        That line is read from the file later, together with its beginning.
        """
        cut = data.find(b"\n") + 1
        self._is_torn = not cut
        self._low += cut or len(data)
        return data[cut:] if cut else b""

    def to_start(self) -> None:
        """Do nothing: the window stays, and earlier lines are read when the user goes there."""

    def to_end(self) -> None:
        """Do nothing: the window always includes the end."""

    async def read_before(self) -> bool:
        """Filter one more page before the window. Return False if there is none."""
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
        """Return the nearest matching line from line `number` on, or None.

        Backwards, the search reads the file as far as needed. After the last line it continues once at the
        other end.
        """
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
