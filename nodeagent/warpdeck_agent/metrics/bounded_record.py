"""Measurements over time in bounded memory.

A BoundedRecord covers the whole life of a launch, and Rings cover the last day of a node. A record begins with
intervals of one second. When it is full, adjacent intervals are merged, so that each is twice as long. So the
curve of a launch has between MOST / 2 and MOST points, no matter how long the launch runs. Rings keep the last
ten minutes by the second, two hours by ten seconds and a day by the minute. A value is the mean of the known
values in its interval. An unknown value is NaN here and None on the wire.
"""

from __future__ import annotations

import math
from array import array
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from warpdeck_agent.wire.messages import COLUMNS, RINGS, Curve

MOST = 120
"""The most points of a record, which is more than the width of a terminal."""
NONE = math.nan
Values = Dict[str, Optional[float]]
"""Column -> newly measured value"""


class Interval(NamedTuple):
    """An interval of a ring."""

    begin_unix: float
    step_s: float


class _Column:
    """The means of the finished intervals of one column, and the values of the current interval."""

    __slots__ = ("count", "points", "total")

    def __init__(self) -> None:
        self.points = array("d")
        self.total = 0.0
        self.count = 0

    def add(self, value: Optional[float]) -> None:
        if value is not None:
            self.total += value
            self.count += 1

    def close(self) -> None:
        """Finish the current interval."""
        self.points.append(self.total / self.count if self.count else NONE)
        self.total, self.count = 0.0, 0

    def halve(self) -> None:
        """Merge each pair of adjacent intervals."""
        points = self.points
        self.points = array("d", (_mean(points[at - 1], points[at]) for at in range(1, len(points), 2)))


class BoundedRecord:
    """The curves of one launch, or of a step."""

    def __init__(self, begin_unix: float, *, step_s: float = 1.0) -> None:
        self.begin_unix = begin_unix
        self.step_s = step_s
        self._columns: Dict[str, _Column] = {}
        self._size = 0

    def add(self, values: Values, now: float) -> None:
        """Add the values that were measured at `now`, in unix seconds.

        If the clock has been set back, they are added to the current interval.
        """
        if now - self.begin_unix > (self._size + MOST) * self.step_s:
            self._skip(now)
        while now >= self.begin_unix + (self._size + 1) * self.step_s:
            self._close_step()
        for name, value in values.items():
            column = self._columns.get(name)
            if column is None:
                if value is None:
                    continue
                column = self._columns[name] = _Column()
                column.points.extend([NONE] * self._size)
            column.add(value)

    def _close_step(self) -> None:
        self._size += 1
        for column in self._columns.values():
            column.close()
        if self._size == MOST:
            self._double()

    def _double(self) -> None:
        self._size //= 2
        self.step_s *= 2
        for column in self._columns.values():
            column.halve()

    def _skip(self, now: float) -> None:
        """Lengthen the intervals after a long sleep of the machine, instead of adding many empty ones."""
        while now - self.begin_unix > (self._size + MOST) * self.step_s:
            if self._size % 2:
                self._close_step()
            self._double()

    def curve(self, uuid: str = "") -> Curve:
        """Return the curve for the wire.

        The current interval is omitted, unless no finished interval has a known value.
        """
        if self._columns and not self._knows():
            self._close_step()
        given = {name: plain(column.points, name) for name, column in self._columns.items()}
        return Curve(begin_unix=self.begin_unix, step_s=self.step_s, uuid=uuid, **given)

    def _knows(self) -> bool:
        """Return whether any finished interval has a known value."""
        return any(not math.isnan(point) for column in self._columns.values() for point in column.points)

    @property
    def size(self) -> int:
        """Number of finished intervals."""
        return self._size

    def kept(self) -> Dict[str, Any]:
        """Return the record as JSON values for a file, from which `restored` makes it again."""
        columns = {name: plain(column.points, name) for name, column in self._columns.items()}
        return {
            "begin_unix": self.begin_unix,
            "step_s": self.step_s,
            "size": self._size,
            "columns": columns,
        }

    @classmethod
    def restored(cls, kept: Dict[str, Any]) -> BoundedRecord:
        """Return the record that `kept` was made from.

        Raises KeyError, TypeError or ValueError for other values.
        """
        made = cls(float(kept["begin_unix"]), step_s=float(kept["step_s"]))
        made._size = int(kept["size"])
        for name, points in kept["columns"].items():
            if name in COLUMNS and len(points) == made._size:
                column = made._columns[name] = _Column()
                column.points.extend(NONE if each is None else float(each) for each in points)
        return made


class _Ring:
    """The last points at one interval length."""

    def __init__(self, step_s: float, size: int) -> None:
        self.step_s = step_s
        self._most = size
        self._step = -1
        self._columns: Dict[str, _Column] = {}

    def add(self, values: Values, now: float) -> None:
        step = int(now // self.step_s)
        if self._step >= 0 and step > self._step:
            self._advance(min(step - self._step, self._most))
        self._step = max(self._step, step)
        for name, value in values.items():
            self._columns.setdefault(name, _Column()).add(value)

    def _advance(self, steps: int) -> None:
        for column in self._columns.values():
            for _ in range(steps):
                column.close()
            if len(column.points) > self._most * 2:  # done rarely, so that it costs almost nothing
                del column.points[: -self._most]

    def span(self, at_unix: float) -> Interval:
        """Return the interval that contains the moment.

        If that is the current one, return the interval before it.
        """
        step = int(at_unix // self.step_s)
        return Interval((step - (step == self._step)) * self.step_s, self.step_s)

    def during(self, begin_unix: float) -> Values:
        """Return the known values of the interval that begins at `begin_unix`."""
        back = self._step - round(begin_unix / self.step_s)
        if not 0 < back <= self._most:
            return {}
        kept = {
            name: column.points[-back] for name, column in self._columns.items() if len(column.points) >= back
        }
        return {name: point for name, point in kept.items() if not math.isnan(point)}

    def since(self) -> float:
        """Return the start of the first interval with a known value, or infinity if there is none."""
        for back in range(min(self._most, self._longest()), 0, -1):
            begin_unix = (self._step - back) * self.step_s
            if self.during(begin_unix):
                return begin_unix
        return math.inf

    def _longest(self) -> int:
        return max((len(column.points) for column in self._columns.values()), default=0)

    def curve(self, uuid: str) -> Curve:
        size = min(self._most, self._longest())
        given = {name: _padded(column.points[-size:], size, name) for name, column in self._columns.items()}
        return Curve(
            begin_unix=max(0, self._step - size) * self.step_s,
            step_s=self.step_s,
            uuid=uuid,
            **(given if size else {}),
        )


class Rings:
    """The measurements of the last day of a node or a GPU, in three resolutions."""

    def __init__(self) -> None:
        self._rings = [_Ring(step_s, size) for step_s, size in RINGS]

    def add(self, values: Values, now: float) -> None:
        """Add the values that were measured at `now`, in unix seconds."""
        for ring in self._rings:
            ring.add(values, now)

    def recall(self, values: Values, at_unix: float) -> None:
        """Add stored values of an earlier minute, read from a file, oldest first.

        Must precede all calls of `add`.
        """
        self._rings[-1].add(values, at_unix)

    def span(self, at_unix: float) -> Optional[Interval]:
        """Return the shortest interval that contains the moment and has a known value, or None."""
        for ring in self._rings:
            span = ring.span(at_unix)
            if ring.during(span.begin_unix):
                return span
        return None

    def during(self, span: Interval) -> Values:
        """Return the known values of that interval."""
        (ring,) = (ring for ring in self._rings if ring.step_s == span.step_s)
        return ring.during(span.begin_unix)

    def since(self) -> float:
        """Return the start of the known measurements, or infinity if there are none."""
        return min(ring.since() for ring in self._rings)

    def curve(self, step_s: float, uuid: str = "") -> Curve:
        """Return the curve at the nearest resolution that is no finer than `step_s`."""
        fitting = [ring for ring in self._rings if ring.step_s >= step_s]
        return (fitting[0] if fitting else self._rings[-1]).curve(uuid)


def plain(points: array[float], name: str) -> List[Optional[float]]:
    """Return the points for the wire.

    Bytes are whole numbers, other values have one decimal, and unknown ones are None.
    """
    places = None if name.endswith("_bytes") else 1
    return [None if math.isnan(each) else round(each, places) for each in points]


def _padded(points: array[float], size: int, name: str) -> List[Optional[float]]:
    """Return `points` padded on the left with None to `size`.

    Needed for a column that was first measured later than the others.
    """
    return [None] * (size - len(points)) + plain(points, name)


def _mean(left: float, right: float) -> float:
    if math.isnan(left):
        return right
    return left if math.isnan(right) else (left + right) / 2


def known(values: List[Tuple[Optional[float], float]]) -> Optional[float]:
    """Return the sum of the known values, each times its factor; None if no value is known."""
    found = [value * factor for value, factor in values if value is not None]
    return sum(found) if found else None
