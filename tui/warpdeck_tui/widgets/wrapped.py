"""Wraps long lines into rows, and selects the rows of a page. Pure functions that get lines by their
numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from textual.strip import Strip

Lines = Callable[[int], Strip]


class Row(NamedTuple):
    """A part of a line: the line's number, the column at which the part starts, and the part."""

    number: int
    start: int
    strip: Strip


def page_from(line: Lines, numbers: range, *, width: int, rows: int) -> list[Row]:
    """Return the first `rows` rows of these lines."""
    page: list[Row] = []
    for number in numbers:
        page += _rows_of(line, number, width=width)
        if len(page) >= rows:
            break
    return page[:rows]


def page_to_end(line: Lines, numbers: range, *, width: int, rows: int) -> list[Row]:
    """Return the last `rows` rows of these lines."""
    page: list[Row] = []
    for number in reversed(numbers):
        page = _rows_of(line, number, width=width) + page
        if len(page) >= rows:
            break
    return page[-rows:]


def _rows_of(line: Lines, number: int, *, width: int) -> list[Row]:
    strip = line(number)
    length = strip.cell_length
    if length <= width:
        return [Row(number, 0, strip)]
    return [
        Row(number, start, strip.crop(start, min(length, start + width))) for start in range(0, length, width)
    ]
