"""--array: "0-9:2,12%4"."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

from warpdeck.errors import UserError

MAX_TASKS = 1_000_000
"""Tasks of one array. Folded they cost nothing; the limit catches a slip of the keyboard."""
MAX_DIGITS = 9
"""Of a number in an array."""
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?")


def parse_array(text: str) -> tuple[list[tuple[int, int, int]], int]:
    """(ranges as (first, last, step), ascending and disjoint; how many at once, 0 for any). Raises UserError."""
    body, percent, limit = text.partition("%")
    if percent and not (limit.isascii() and limit.isdigit() and len(limit) <= MAX_DIGITS):
        raise UserError(f"--array={text}: {limit!r} is no limit", "write such as 0-99%4")
    ranges = [_parse_range(piece, text) for piece in body.removeprefix("[").removesuffix("]").split(",")]
    if sum((last - first) // step + 1 for first, last, step in ranges) > MAX_TASKS:
        raise UserError(f"--array={text}: over {MAX_TASKS:,} tasks", "split the array")
    return _disjoint(ranges), int(limit) if limit else 0


def _parse_range(piece: str, text: str) -> tuple[int, int, int]:
    match = _RANGE.fullmatch(piece.strip())
    if match is None:
        raise UserError(f"--array={text}: {piece!r} is no range", "write such as 0-9, 1-100:5 or 4,7,22")
    first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
    if last < first or step < 1:
        raise UserError(f"--array={text}: the range {piece} is empty", "write the smaller number first")
    return first, first + (last - first) // step * step, step if last > first else 1


def _disjoint(ranges: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Ascending; where ranges overlap, the numbers themselves are gathered."""
    ordered = sorted(ranges)
    if all(left[1] < right[0] for left, right in itertools.pairwise(ordered)):
        return ordered
    numbers = sorted({number for first, last, step in ordered for number in range(first, last + 1, step)})
    merged: list[tuple[int, int, int]] = []
    for number in numbers:
        if merged and number == merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], number, 1)
        else:
            merged.append((number, number, 1))
    return merged


def number_ranges(numbers: Iterable[int]) -> str:
    """0-2,5."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
