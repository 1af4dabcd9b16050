"""Draws curves with braille characters of two by four dots: a pure function from points to characters.

If several points fall into one column of dots, all heights between their minimum and maximum are drawn, so
that no spike is lost. Adjacent columns are joined. If curves share a character, it has the color of the first
curve. The columns of a curve are computed with one lookup per column instead of one per point, and cached for
the same curve, frame and size.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate, compress, groupby, pairwise
from typing import NamedTuple

_BRAILLE = 0x2800
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bits of a braille character's dots, by row and column."""
DOTS_DOWN = len(_DOTS)
KEPT_REACHES = 16
"""Number of cached results: the curves on the screen, in two sizes. Each takes a few kilobytes."""
NOBODY = -1
SMOOTHED_LEAST, SMOOTHED_SHARE = 2, 50
"""Number of points on each side that are averaged when smoothing: at least SMOOTHED_LEAST, or one
SMOOTHED_SHARE-th of all points.
"""


class Frame(NamedTuple):
    """The range of the axes: x from `left` to `right`, y from `low` to `high`."""

    left: float
    right: float
    low: float
    high: float


class Curve:
    """Points ordered by x, which can be drawn at any size. A y that is not finite leaves a gap.

    A curve never changes and is compared by identity, so that results computed from it can be cached.
    """

    def __init__(self, xs: Sequence[float] = (), ys: Sequence[float] = ()) -> None:
        known = list(map(math.isfinite, ys))
        self.xs: Sequence[float] = xs
        self.ys: Sequence[float] = ys
        self.parts: list[tuple[int, int]] = [(0, len(xs))]
        """Index ranges (first, one past the last) of the points between two gaps."""
        self.gaps: Sequence[float] = ()
        """The x values at which y was not finite."""
        if not all(known):
            self.gaps = [x for x, is_known in zip(xs, known, strict=True) if not is_known]
            self.xs, self.ys = list(compress(xs, known)), list(compress(ys, known))
            lengths = [sum(same) for is_known, same in groupby(known) if is_known]
            self.parts = list(pairwise(accumulate(lengths, initial=0)))
        self.least, self.most = (min(self.ys), max(self.ys)) if self.ys else (math.nan, math.nan)

    @classmethod
    def of(cls, points: Iterable[tuple[float, float]]) -> Curve:
        """Return the curve of these points (x, y), which must be ordered by x."""
        return cls(*zip(*points, strict=True))

    def smoothed(self) -> Curve:
        """Return a smoothed curve, in which each point is the mean of the points around it.

        At the ends there are fewer points. Gaps stay.
        """
        made = Curve(self.xs, self.ys)
        made.parts, made.gaps = self.parts, self.gaps
        aside = max(SMOOTHED_LEAST, len(self.xs) // SMOOTHED_SHARE)
        ys: list[float] = []
        for first, end in self.parts:
            sums = list(accumulate(self.ys[first:end], initial=0.0))
            for at in range(end - first):
                left, right = max(0, at - aside), min(end - first, at + aside + 1)
                ys.append((sums[right] - sums[left]) / (right - left))
        made.ys = ys
        made.least, made.most = min(ys, default=math.nan), max(ys, default=math.nan)
        return made

    def __bool__(self) -> bool:
        """Return whether there is anything to draw."""
        return bool(self.xs)


class Row(NamedTuple):
    """A row of the drawing: its characters and, for each, the index of its curve or NOBODY."""

    text: str
    curves: list[int]

    def with_sign(self, column: int, *, char: str, curve: int) -> Row:
        """Return a copy with this character at this column."""
        owners = [*self.curves[:column], curve, *self.curves[column + 1 :]]
        return Row(self.text[:column] + char + self.text[column + 1 :], owners)

    def pieces(self) -> list[tuple[str, int]]:
        """Return (text, curve) pairs from left to right."""
        found, at = [], 0
        for curve, same in groupby(self.curves):
            width = len(list(same))
            found.append((self.text[at : at + width], curve))
            at += width
        return found


def frame_of(curves: Sequence[Curve]) -> Frame | None:
    """Return the frame that contains all points, or None if there are none. Flat curves get some margin."""
    known = [curve for curve in curves if curve]
    if not known:
        return None
    left, right = min(curve.xs[0] for curve in known), max(curve.xs[-1] for curve in known)
    low, high = min(curve.least for curve in known), max(curve.most for curve in known)
    if high == low:
        room = abs(high) / 10 or 1.0
        low, high = low - room, high + room
    return Frame(left, right if right > left else left + 1.0, low, high)


def plot(curves: Sequence[Curve], frame: Frame, *, width: int, height: int) -> list[Row]:
    """Draw the curves in `height` rows of `width` characters, the top row first."""
    # A column of dots is one number, with the topmost dot in its highest bit. So a hexadecimal digit is half
    # a character.
    dots = [0] * (2 * width)
    owner = [[NOBODY] * height for _ in range(width)]
    last = DOTS_DOWN * height - 1
    for number, curve in reversed(list(enumerate(curves))):
        tops, bottoms = reach(curve, frame, 2 * width, DOTS_DOWN * height)
        for column, (top, bottom) in enumerate(zip(tops, bottoms, strict=True)):
            if top <= bottom:
                dots[column] |= (2 << (last - top)) - (1 << (last - bottom))
                rows = slice(top // DOTS_DOWN, bottom // DOTS_DOWN + 1)
                owner[column // 2][rows] = [number] * (rows.stop - rows.start)
    digits = [f"{column:0{height}x}" for column in dots]
    chars = [map(_CHARS.__getitem__, zip(*digits[at : at + 2], strict=True)) for at in range(0, 2 * width, 2)]
    texts, owners = zip(*chars, strict=True), zip(*owner, strict=True)
    return [Row("".join(text), list(curves)) for text, curves in zip(texts, owners, strict=True)]


def _braille(left: int, right: int) -> str:
    """Return the character for two columns of four dots, with the topmost dot in the highest bit."""
    bits = 0
    for row, (at_left, at_right) in enumerate(_DOTS):
        dot = 1 << (DOTS_DOWN - 1 - row)
        bits |= (at_left if left & dot else 0) | (at_right if right & dot else 0)
    return chr(_BRAILLE + bits) if bits else " "


_CHARS = {(f"{left:x}", f"{right:x}"): _braille(left, right) for left in range(16) for right in range(16)}


@lru_cache(maxsize=KEPT_REACHES)
def reach(curve: Curve, frame: Frame, width: int, height: int) -> tuple[list[int], list[int]]:
    """Return (topmost, lowest) dot for each of `width` columns with `height` dots.

    The space between two points is filled. In a column without dots, the topmost is below the lowest.
    """
    tops, bottoms = [height] * width, [-1] * width
    begin, stop = bisect_left(curve.xs, frame.left), bisect_right(curve.xs, frame.right)
    for first, end in curve.parts:
        _draw_part(curve, frame, (max(first, begin), min(end, stop)), tops, bottoms, height=height)
    return tops, bottoms


def _draw_part(
    curve: Curve, frame: Frame, part: tuple[int, int], tops: list[int], bottoms: list[int], *, height: int
) -> None:
    """Draw the points of one part and the lines that join them into `tops` and `bottoms`.

    No y may be outside the frame.
    """
    xs, per_y = curve.xs, (height - 1) / (frame.high - frame.low)
    per_column = (frame.right - frame.left) / (len(tops) - 1)
    ends = [frame.left + (column + 0.5) * per_column for column in range(len(tops))]
    at, end = part
    before: tuple[int, int] | None = None
    column = 0
    while at < end:
        column = bisect_right(ends, xs[at], column)
        stop = bisect_left(xs, ends[column], at, end)
        ys = curve.ys[at:stop]
        # Of many points in a column, only the highest and the lowest are visible, and the first and the last
        # join it to its neighbors.
        top = bottom = first = last = round((frame.high - ys[0]) * per_y)
        if stop > at + 1:
            top, bottom = round((frame.high - max(ys)) * per_y), round((frame.high - min(ys)) * per_y)
            last = round((frame.high - ys[-1]) * per_y)
        if before is not None:
            _join(before, (column, first), tops, bottoms)
        if top < tops[column]:
            tops[column] = top
        if bottom > bottoms[column]:
            bottoms[column] = bottom
        before = column, last
        at = stop


def _join(before: tuple[int, int], here: tuple[int, int], tops: list[int], bottoms: list[int]) -> None:
    """Draw the dots between two columns.

    Where the line is steep, each of two adjacent columns gets the nearer half.
    """
    (first, start), (last, goal) = before, here
    begin = start
    for column in range(first, last):
        end = start + round((goal - start) * (column + 1 - first) / (last - first))
        middle = begin + int((end - begin) / 2)
        if end >= begin:
            halves = (column, begin, middle), (column + 1, middle + (end > begin), end)
        else:
            halves = (column, middle, begin), (column + 1, end, middle - 1)
        for at, top, bottom in halves:
            if top < tops[at]:
                tops[at] = top
            if bottom > bottoms[at]:
                bottoms[at] = bottom
        begin = end


def means(curve: Curve, frame: Frame, *, width: int) -> list[float | None]:
    """Return the mean of the points under each character of the same axis.

    A character without points repeats the previous value. After the last point the values are None.
    """
    xs, ys = curve.xs, curve.ys
    per_x = (frame.right - frame.left) / width
    at, end = bisect_left(xs, frame.left), bisect_right(xs, frame.right)
    found: list[float | None] = []
    for column in range(width):
        if at == end:
            return found + [None] * (width - column)
        stop = end if column == width - 1 else bisect_left(xs, frame.left + (column + 1) * per_x, at, end)
        here = ys[at:stop]
        found.append(sum(here) / len(here) if here else (found[-1] if found else None))
        at = stop
    return found
