"""What is looked for in a log: somebody's words, or the marks of trouble.

Words are plain text, not a regular expression: what people look for in logs is full of brackets and dots. A capital letter
in them makes the search mind the case, as in less -i and vim's smartcase. Escapes are left out of what is looked at.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .ansi import without_escapes
from .line_buffer import LogLines

MAX_QUERY_CHARACTERS = 200
MAX_LIKE_IT = 200
"""So many lines that say the same are counted below one."""


class Query(NamedTuple):
    """`title` is what the view says of it; the same pattern for bytes that are searched and for text that is drawn."""

    title: str
    data: re.Pattern[bytes]
    text: re.Pattern[str]


def words(text: str) -> Query:
    """A query for that text."""
    text = text[:MAX_QUERY_CHARACTERS]
    flags = re.IGNORECASE if text == text.lower() else re.NOFLAG
    return Query(f"/{text}", re.compile(re.escape(text.encode()), flags), re.compile(re.escape(text), flags))


class Place(NamedTuple):
    """A line by what it says, and how many that say the same stand below it."""

    pattern: re.Pattern[bytes]
    below: int


def place_of(number: int, lines: LogLines) -> Place | None:
    """Where a line stands that is kept; None if too many say the same. All who say the same pass one filter together, so the
    place is the same with and without it."""
    text = without_escapes(lines.line(number))
    pattern = re.compile(rb"^%b\r*$" % re.escape(text), re.MULTILINE)
    found = [piece.first + row for piece in lines.pieces() for row in matching_lines(piece.data, pattern)]
    below = sum(each > number for each in found)
    return Place(pattern, below) if below <= MAX_LIKE_IT else None


_TROUBLE = (
    r"Traceback \(most recent|(?:Error|Exception):|CUDA error|(?:CUDNN|CUBLAS)_STATUS_(?!SUCCESS)"
    r"|NCCL (?:WARN|ERROR|error)|nccl[A-Z]\w*Error|Watchdog caught collective"
    r"|[Oo]ut [Oo]f [Mm]emory|oom-kill|\bOOM\b|^Killed$|Segmentation fault|core dumped|\bXid\b"
    r"|\b(?:nan|NaN|NAN)\b"
)
"""What training jobs die of: Python, CUDA, NCCL, memory, numbers that are none."""
TROUBLE = Query("errors", re.compile(_TROUBLE.encode(), re.MULTILINE), re.compile(_TROUBLE, re.MULTILINE))


def matching_lines(data: bytes, pattern: re.Pattern[bytes]) -> list[int]:
    """The lines that match, counted from 0, in order, each once."""
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
