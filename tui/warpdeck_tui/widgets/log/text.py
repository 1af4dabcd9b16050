"""A log of any size, represented by a window of its lines.

It is fed at its end, read at both ends, and searched completely. A log of two gigabytes may be on another
machine. Its end is pushed (`feed`). Earlier parts are requested in pages of PAGE_BYTES when the user goes
there, and lines far from the view are dropped (see `log_lines`). While the window does not reach the end, new
data is only counted; going to the end reads it again. A search runs in a thread, page by page.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator
from typing import Protocol

from .line_buffer import MAX_BYTES, LogLines, Piece
from .search import matching_lines

PAGE_BYTES = 256 * 1024
"""Size of a page: dozens of screens, and fast to load on a slow connection."""


class Reader(Protocol):
    """Reads bytes of the file. Returns fewer bytes than requested, or none, if they are not available now."""

    async def __call__(self, at_bytes: int, size_bytes: int, /) -> bytes: ...


class LogText:
    """The log. `lines` is the window. It may have moved after each await, so callers must read it again."""

    def __init__(self, *, max_bytes: int = MAX_BYTES) -> None:
        self.lines = LogLines(max_bytes=max_bytes)
        self.clear()

    def clear(self, *, at_bytes: int = 0, read: Reader | None = None) -> None:
        """Make the log empty.

        Data that is fed from now on begins at offset `at_bytes` in the file; `read` reads earlier parts.
        """
        self._read = read
        self.size_bytes = at_bytes
        """Length of the file in bytes, as far as known."""
        self.fed_lines = 0
        """Number of lines that were fed, including dropped ones."""
        self._move(at_bytes, in_line=at_bytes > 0)

    @property
    def can_read(self) -> bool:
        """Whether lines outside the window can be read at all."""
        return self._read is not None

    @property
    def at_start(self) -> bool:
        """Whether nothing can be read before the window."""
        return self._read is None or self.lines.start_bytes == 0

    @property
    def start_bytes(self) -> int:
        """The offset in the file of the beginning of the window."""
        return self.lines.start_bytes

    @property
    def at_end(self) -> bool:
        """Whether the window reaches the known end of the file."""
        return self.lines.end_bytes >= self.size_bytes

    def feed(self, data: bytes) -> None:
        """Add more of the log, which may be split anywhere."""
        if self.at_end:
            self.lines.append(data)
        self.size_bytes += len(data)
        self.fed_lines += data.count(b"\n")

    def to_start(self) -> None:
        """Move the window to the beginning.

        Unless it is already there it becomes empty, and `read_after` fills it.
        """
        if not self.at_start:
            self._move(0)

    def to_end(self) -> None:
        """Move the window to the end. Unless it is already there it becomes empty, and `read_after` fills
        it.
        """
        if not self.at_end:
            at_bytes = max(0, self.size_bytes - PAGE_BYTES)
            self._move(at_bytes, in_line=at_bytes > 0)

    async def read_before(self) -> bool:
        """Read the page before the window.

        Return False if there is none, and True also if the window has moved meanwhile.
        """
        stop, place = self.lines.start_bytes, self._place
        at_bytes = max(0, stop - PAGE_BYTES)
        data = b"" if self.at_start else await self._page(at_bytes, stop)
        if (place, stop) != (self._place, self.lines.start_bytes):
            return True
        if not data or len(data) < stop - at_bytes:
            return False
        self.lines.prepend(data[_begin(data, at_bytes) :])
        return True

    async def read_after(self) -> bool:
        """Read the page after the window.

        Return False if there is none, and True also if the window has moved meanwhile.
        """
        at_bytes, place = self.lines.end_bytes, self._place
        data = b"" if self.at_end else await self._page(at_bytes, min(at_bytes + PAGE_BYTES, self.size_bytes))
        if (place, at_bytes) != (self._place, self.lines.end_bytes):
            return True
        if not data:
            return False
        self.lines.append(data)
        return True

    async def find(self, pattern: re.Pattern[bytes], number: int, *, forward: bool) -> int | None:
        """Return the nearest matching line from line `number` on, or None.

        After the last line the search continues once at the other end. If the line is outside the window, the
        window moves to it.
        """
        pieces = self.lines.pieces()
        here = max((at for at, piece in enumerate(pieces) if piece.first <= number), default=0)
        ahead, behind = (
            (pieces[here:], pieces[: here + 1]) if forward else (pieces[: here + 1], pieces[here:])
        )
        begins, ends = self.lines.start_bytes, self.lines.end_bytes
        outside = [(ends, self.size_bytes), (0, begins)]
        found = await find_in(ahead, pattern, number, forward=forward)
        if found is None and self._read is not None:
            for start, stop in outside if forward else reversed(outside):
                found = await self._find_outside(pattern, start, stop=stop, forward=forward)
                if found is not None:
                    return found
        return await find_in(behind, pattern, None, forward=forward) if found is None else found

    async def _find_outside(
        self, pattern: re.Pattern[bytes], start: int, *, stop: int, forward: bool
    ) -> int | None:
        """Search a part of the file outside the window. If a line matches, the window moves there."""
        pages = self._pages(start, stop) if forward else self._pages_backwards(start, stop)
        async with contextlib.aclosing(pages):
            async for at_bytes, data in pages:
                if not await asyncio.to_thread(matching_lines, data, pattern):
                    continue
                # Search again in parsed lines, because overwritten text does not count and lines that are too
                # long are broken.
                lines = LogLines()
                lines.append(data)
                found = await find_in(lines.pieces(), pattern, None, forward=forward)
                if found is not None:
                    self._move(at_bytes)
                    self.lines.append(data)
                    return found
        return None

    async def _pages(self, start: int, stop: int) -> AsyncGenerator[tuple[int, bytes], None]:
        """Yield (offset, complete lines) for the pages of a part of the file."""
        while start < stop:
            data = await self._page(start, min(start + PAGE_BYTES, stop))
            if not data:
                return
            data = data[: data.rfind(b"\n") + 1 or len(data)]
            yield start, data
            start += len(data)

    async def _pages_backwards(self, start: int, stop: int) -> AsyncGenerator[tuple[int, bytes], None]:
        while start < stop:
            at_bytes = max(start, stop - PAGE_BYTES)
            data = await self._page(at_bytes, stop)
            if len(data) < stop - at_bytes:
                return
            begin = _begin(data, at_bytes - start)
            yield at_bytes + begin, data[begin:]
            stop = at_bytes + begin

    async def page_before(self, stop: int) -> tuple[int, bytes]:
        """Return (offset, complete lines) of the page that ends at `stop`.

        There are no bytes if it is not available.
        """
        at_bytes = max(0, stop - PAGE_BYTES)
        data = await self._page(at_bytes, stop)
        if len(data) < stop - at_bytes:
            return stop, b""
        begin = _begin(data, at_bytes)
        return at_bytes + begin, data[begin:]

    async def _page(self, start: int, stop: int) -> bytes:
        return b"" if self._read is None else await self._read(start, stop - start)

    def _move(self, at_bytes: int, *, in_line: bool = False) -> None:
        self.lines.clear(at_bytes=at_bytes, in_line=in_line)
        self._place = object()
        """Changes whenever the window moves. A page that was requested before then does not fit any more."""


def _begin(data: bytes, at_bytes: int) -> int:
    """Return the index of the first complete line of a page.

    It is 0 if the page begins with one or contains no second line.
    """
    begin = data.find(b"\n") + 1 if at_bytes else 0
    return begin if begin < len(data) else 0


async def find_in(
    pieces: list[Piece], pattern: re.Pattern[bytes], number: int | None, *, forward: bool
) -> int | None:
    """Return the first matching line, or the last one if not `forward`.

    If `number` is given, lines before or after it are ignored.
    """
    for piece in pieces if forward else reversed(pieces):
        found = await asyncio.to_thread(matching_lines, piece.data, pattern)
        lines = [piece.first + each for each in found]
        if number is not None:
            lines = [each for each in lines if (each >= number if forward else each <= number)]
        if lines:
            return lines[0] if forward else lines[-1]
    return None
