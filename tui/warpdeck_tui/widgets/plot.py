"""Curves in braille dots, two by four to a character: a pure function from points to cells.

Of many points in one column of dots all heights between the least and the most are drawn, so that a spike is never lost,
and neighbouring columns are joined. Where curves share a character the first one's colour counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

_BRAILLE = 0x2800
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bits of a braille character's dots, by row and column."""


class Frame(NamedTuple):
    """What the drawing shows: from `left` to `right`, from `low` to `high`."""

    left: float
    right: float
    low: float
    high: float


class Dot(NamedTuple):
    """A character of the drawing, and which curve's it is (-1: nobody's)."""

    char: str
    curve: int


def frame_of(curves: Sequence[Sequence[tuple[float, float]]]) -> Frame | None:
    """What shows all points; None where there are none. Flat curves get some room."""
    points = [point for curve in curves for point in curve if math.isfinite(point[1])]
    if not points:
        return None
    along, up = zip(*points, strict=True)
    left, right, low, high = min(along), max(along), min(up), max(up)
    if high == low:
        room = abs(high) / 10 or 1.0
        low, high = low - room, high + room
    return Frame(left, right if right > left else left + 1.0, low, high)


def plot(
    curves: Sequence[Sequence[tuple[float, float]]],
    frame: Frame,
    *,
    width: int,
    height: int,
) -> list[list[Dot]]:
    """`height` rows of `width` characters, the top one first. Curves are points by x; a y that is no number leaves a gap."""
    bits = [[0] * width for _ in range(height)]
    owner = [[-1] * width for _ in range(height)]
    for number, curve in reversed(list(enumerate(curves))):
        for x, least, most in _columns(curve, frame, width=2 * width, height=4 * height):
            for y in range(least, most + 1):
                bits[y // 4][x // 2] |= _DOTS[y % 4][x % 2]
                owner[y // 4][x // 2] = number
    return [
        [Dot(chr(_BRAILLE + each) if each else " ", whose) for each, whose in zip(row, owners, strict=True)]
        for row, owners in zip(bits, owner, strict=True)
    ]


def _columns(
    curve: Sequence[tuple[float, float]], frame: Frame, *, width: int, height: int
) -> list[tuple[int, int, int]]:
    """(column, topmost dot, lowest dot) of the curve; what lies between two points is filled in."""
    reach: dict[int, tuple[int, int]] = {}
    before: tuple[int, int] | None = None
    left, right, high = frame.left, frame.right, frame.high
    per_x, per_y = (width - 1) / (right - left), (height - 1) / (high - frame.low)
    for x, y in curve:
        if not (left <= x <= right and math.isfinite(y)):
            before = None
            continue
        column = round((x - left) * per_x)
        row = min(height - 1, max(0, round((high - y) * per_y)))
        if before is not None and before[0] == column:  # what lies between the two is drawn anyway
            least, most = reach[column]
            if row < least:
                reach[column] = (row, most)
            elif row > most:
                reach[column] = (least, row)
        else:
            for at, dot in _between(before, (column, row)):
                least, most = reach.get(at, (dot, dot))
                reach[at] = (min(least, dot), max(most, dot))
        before = (column, row)
    return [(column, *rows) for column, rows in reach.items()]


def _between(before: tuple[int, int] | None, here: tuple[int, int]) -> list[tuple[int, int]]:
    """The dots on the way; with steep ways a column gets several."""
    if before is None:
        return [here]
    steps = max(abs(here[0] - before[0]), abs(here[1] - before[1]), 1)
    return [
        (
            before[0] + round((here[0] - before[0]) * step / steps),
            before[1] + round((here[1] - before[1]) * step / steps),
        )
        for step in range(steps + 1)
    ]


def means(points: Sequence[tuple[float, float]], frame: Frame, *, width: int) -> list[float | None]:
    """The mean of the points under each character of the same axis; the last one's where they lie further apart.

    None after their end.
    """
    sums = [[0.0, 0.0] for _ in range(width)]
    last = 0.0
    for x, y in points:
        if frame.left <= x <= frame.right and math.isfinite(y):
            column = min(width - 1, int((x - frame.left) / (frame.right - frame.left) * width))
            sums[column][0] += y
            sums[column][1] += 1
            last = max(last, x)
    found: list[float | None] = [total / count if count else None for total, count in sums]
    until = min(width - 1, int((last - frame.left) / (frame.right - frame.left) * width)) if points else -1
    for column in range(1, until):  # points further apart than characters
        if found[column] is None:
            found[column] = found[column - 1]
    return found
