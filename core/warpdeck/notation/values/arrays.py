"""Parses --array ("0-9:2,12%4") as slurmctld does, and the array tasks of a job id, which are parsed
strictly.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

from warpdeck.base.errors import UserError

MAX_TASKS = 1_000_000
"""Maximum number of tasks in one array. Folded tasks cost nothing; the limit only catches typing errors."""
MAX_LIMIT_DIGITS = 19
"""A limit with this many digits is larger than strtol can read."""
MAX_DIGITS = 9
"""Maximum number of digits of a number in an array."""
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?")
_NUMBER = r"[ \t]*\+?(\d{1,9})\]?"
_OPTION_RANGE = re.compile(rf"\[?(?:\]?|{_NUMBER}(?:-{_NUMBER}(?::{_NUMBER})?)?)\]?")
"""One element of the option, as strtol reads it, with optional brackets. An empty element means task 0."""
_LIMIT = re.compile(r"[ \t]*\+?0*(\d+)")
_WORD = 2**32


def parse_array_option(text: str) -> tuple[list[tuple[int, int, int]], int] | None:
    """Parse the value of --array in the same way as Slurm. The result is that of `parse_array`; None means no
    array. Raises UserError.

    Slurm accepts missing or extra brackets, empty elements and repeated numbers. The limit follows the first
    %, wherever that is: all digits after it, reduced to 32 bits. A value that is not a positive number means
    no limit.
    """
    pieces = [piece for piece in text.split(",") if piece]
    if not pieces:
        return None
    ranges = [_option_range(piece.partition("%")[0], text) for piece in pieces]
    return _checked(ranges, text), _limit(text.partition("%")[2])


def _limit(text: str) -> int:
    match = _LIMIT.match(text)
    number = int(match[1]) % _WORD if match and len(match[1]) < MAX_LIMIT_DIGITS else 0
    return number if number < _WORD // 2 else 0


def _option_range(piece: str, text: str) -> tuple[int, int, int]:
    match = _OPTION_RANGE.fullmatch(piece)
    if match is None:
        raise _no_range(piece, text)
    return _range(match[1] or "0", match[2], match[3], piece, text)


def parse_array(text: str) -> tuple[list[tuple[int, int, int]], int]:
    """Return (ranges, limit). Raises UserError.

    The ranges are (first, last, step), ascending and disjoint. The limit is the number of tasks that run at
    once; 0 means no limit.
    """
    body, percent, limit = text.partition("%")
    if percent and not (limit.isascii() and limit.isdigit() and len(limit) <= MAX_DIGITS):
        raise UserError(f"--array={text}: {limit!r} is not a limit", "write such as 0-99%4")
    ranges = [_parse_range(piece, text) for piece in body.removeprefix("[").removesuffix("]").split(",")]
    return _checked(ranges, text), int(limit) if limit else 0


def _checked(ranges: list[tuple[int, int, int]], text: str) -> list[tuple[int, int, int]]:
    if sum((last - first) // step + 1 for first, last, step in ranges) > MAX_TASKS:
        raise UserError(f"--array={text}: more than {MAX_TASKS:,} tasks", "split the array")
    return _disjoint(ranges)


def _parse_range(piece: str, text: str) -> tuple[int, int, int]:
    match = _RANGE.fullmatch(piece.strip())
    if match is None:
        raise _no_range(piece, text)
    return _range(match[1], match[2], match[3], piece, text)


def _no_range(piece: str, text: str) -> UserError:
    return UserError(f"--array={text}: {piece!r} is not a range", "write such as 0-9, 1-100:5 or 4,7,22")


def _range(low: str, high: str | None, by: str | None, piece: str, text: str) -> tuple[int, int, int]:
    first, last, step = int(low), int(high or low), int(by or 1)
    if last < first or step < 1:
        raise UserError(f"--array={text}: the range {piece} is empty", "write the smaller number first")
    return first, first + (last - first) // step * step, step if last > first else 1


def _disjoint(ranges: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Return the ranges in ascending order. Overlapping ranges are replaced by ranges of their numbers."""
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
    """Format numbers as ranges, for example 0-2,5."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
