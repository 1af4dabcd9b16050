"""Search patterns for logs: words that the user types, or typical signs of errors.

Words are plain text instead of regular expressions, because the texts that users search in logs are full of
brackets and dots. A capital letter makes the search case-sensitive, as in less -i and the smartcase option of
vim. Escape sequences are removed before the search.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from warpdeck.base.escapes import without_escapes

from .line_buffer import LogLines

MAX_QUERY_CHARACTERS = 200
MAX_LIKE_IT = 200
"""Largest number of equal lines below a line that are counted to find it again."""


class Query(NamedTuple):
    """A search in a log.

    `title` is shown by the view; `data` and `text` are the same pattern for searching bytes and for drawing
    text.
    """

    title: str
    data: re.Pattern[bytes]
    text: re.Pattern[str]


def words(text: str) -> Query:
    """Return a query for this text."""
    text = text[:MAX_QUERY_CHARACTERS]
    flags = re.IGNORECASE if text == text.lower() else re.NOFLAG
    return Query(f"/{text}", re.compile(re.escape(text.encode()), flags), re.compile(re.escape(text), flags))


class LogPosition(NamedTuple):
    """Identifies a line by its text and by the number of equal lines below it."""

    pattern: re.Pattern[bytes]
    below: int


def place_of(number: int, lines: LogLines) -> LogPosition | None:
    """Return the position of a line in the window by its text, or None if too many equal lines follow.

    Equal lines pass or fail a filter together, so the position is the same with and without the filter.
    """
    text = without_escapes(lines.line(number))
    pattern = re.compile(rb"^%b\r*$" % re.escape(text), re.MULTILINE)
    found = [piece.first + row for piece in lines.pieces() for row in matching_lines(piece.data, pattern)]
    below = sum(each > number for each in found)
    return LogPosition(pattern, below) if below <= MAX_LIKE_IT else None


_TROUBLE = (
    r"Traceback \(most recent|(?:Error|Exception):|CUDA error|(?:CUDNN|CUBLAS)_STATUS_(?!SUCCESS)"
    r"|NCCL (?:WARN|ERROR|error)|nccl[A-Z]\w*Error|Watchdog caught collective"
    r"|[Oo]ut [Oo]f [Mm]emory|oom-kill|\bOOM\b|^Killed$|Segmentation fault|core dumped|\bXid\b"
    r"|\b(?:nan|NaN|NAN)\b"
)
"""Messages of failing training jobs: errors of Python, CUDA, NCCL and memory, and NaN values."""
TROUBLE = Query("errors", re.compile(_TROUBLE.encode(), re.MULTILINE), re.compile(_TROUBLE, re.MULTILINE))


def matching_lines(data: bytes, pattern: re.Pattern[bytes]) -> list[int]:
    """Return the indices of the matching lines, counted from 0, in order and without duplicates."""
    data = without_escapes(data)
    numbers: list[int] = []
    at = line = 0
    while found := pattern.search(data, at):
        line += data.count(b"\n", at, found.start())
        numbers.append(line)
        at = data.find(b"\n", found.start()) + 1
        if not at:
            break
        line += 1
    return numbers
