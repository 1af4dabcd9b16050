"""Measurements over time in little memory: a launch's whole life in a bounded record, a node's last day in rings.

A record begins with steps of a second; when it is full, neighbours are joined and its steps are twice as long. So however long
a launch runs, its curve has between half and all of MOST points. Rings keep the last ten minutes by the second, two hours by
ten seconds and a day by the minute. A value is the mean of what was known in its step; NaN, and None on the wire, is unknown.
"""

from __future__ import annotations

import math
from array import array
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from warpdeck_agent.wire.messages import COLUMNS, RINGS, Curve

MOST = 120
"""Points of a record: more than a terminal is wide."""
NONE = math.nan
Values = Dict[str, Optional[float]]
"""Column -> what was measured just now."""


class Span(NamedTuple):
    """A step of a ring."""

    begin_unix: float
    step_s: float


class _Column:
    """Means of steps, and what came in the step that is not over."""

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
        """The step is over."""
        self.points.append(self.total / self.count if self.count else NONE)
        self.total, self.count = 0.0, 0

    def halve(self) -> None:
        """Neighbours become one."""
        points = self.points
        self.points = array("d", (_mean(points[at - 1], points[at]) for at in range(1, len(points), 2)))


class Record:
    """The curves of one launch, or of a step."""

    def __init__(self, begin_unix: float, *, step_s: float = 1.0) -> None:
        self.begin_unix = begin_unix
        self.step_s = step_s
        self._columns: Dict[str, _Column] = {}
        self._size = 0

    def add(self, values: Values, now: float) -> None:
        """What was measured at `now`, in unix seconds. A clock that went back adds to the step that is open."""
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
        """After a long sleep of the machine: the steps become long enough, instead of many being made."""
        while now - self.begin_unix > (self._size + MOST) * self.step_s:
            if self._size % 2:
                self._close_step()
            self._double()

    def curve(self, uuid: str = "") -> Curve:
        """For the wire; the step that is open is left out, unless only there something is known."""
        if self._columns and not self._knows():
            self._close_step()
        given = {name: plain(column.points, name) for name, column in self._columns.items()}
        return Curve(begin_unix=self.begin_unix, step_s=self.step_s, uuid=uuid, **given)

    def _knows(self) -> bool:
        """Whether a step that is over holds anything."""
        return any(not math.isnan(point) for column in self._columns.values() for point in column.points)

    @property
    def size(self) -> int:
        """Steps that are over."""
        return self._size

    def kept(self) -> Dict[str, Any]:
        """For a file; `restored` makes the record of it again."""
        columns = {name: plain(column.points, name) for name, column in self._columns.items()}
        return {
            "begin_unix": self.begin_unix,
            "step_s": self.step_s,
            "size": self._size,
            "columns": columns,
        }

    @classmethod
    def restored(cls, kept: Dict[str, Any]) -> Record:
        """Raises KeyError, TypeError or ValueError for what `kept` did not make."""
        made = cls(float(kept["begin_unix"]), step_s=float(kept["step_s"]))
        made._size = int(kept["size"])
        for name, points in kept["columns"].items():
            if name in COLUMNS and len(points) == made._size:
                column = made._columns[name] = _Column()
                column.points.extend(NONE if each is None else float(each) for each in points)
        return made


class _Ring:
    """The last points of one step's length."""

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
            if len(column.points) > self._most * 2:  # rarely, so that it costs nothing
                del column.points[: -self._most]

    def span(self, at_unix: float) -> Span:
        """The step that holds the moment; of the one that is open the one before it."""
        step = int(at_unix // self.step_s)
        return Span((step - (step == self._step)) * self.step_s, self.step_s)

    def during(self, begin_unix: float) -> Values:
        """What is known of the step that begins then."""
        back = self._step - round(begin_unix / self.step_s)
        if not 0 < back <= self._most:
            return {}
        kept = {
            name: column.points[-back] for name, column in self._columns.items() if len(column.points) >= back
        }
        return {name: point for name, point in kept.items() if not math.isnan(point)}

    def since(self) -> float:
        """When the first step begins of which anything is known; infinite if there is none."""
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
    """One thing's last day."""

    def __init__(self) -> None:
        self._rings = [_Ring(step_s, size) for step_s, size in RINGS]

    def add(self, values: Values, now: float) -> None:
        """What was measured at `now`, in unix seconds."""
        for ring in self._rings:
            ring.add(values, now)

    def recall(self, values: Values, at_unix: float) -> None:
        """What is known of a minute before all that was added: from a file, oldest first."""
        self._rings[-1].add(values, at_unix)

    def span(self, at_unix: float) -> Optional[Span]:
        """The shortest step that holds the moment and in which anything was measured."""
        for ring in self._rings:
            span = ring.span(at_unix)
            if ring.during(span.begin_unix):
                return span
        return None

    def during(self, span: Span) -> Values:
        """What was measured in that step; without what is not known."""
        (ring,) = (ring for ring in self._rings if ring.step_s == span.step_s)
        return ring.during(span.begin_unix)

    def since(self) -> float:
        """From when on anything is known; infinite: nothing yet."""
        return min(ring.since() for ring in self._rings)

    def curve(self, step_s: float, uuid: str = "") -> Curve:
        """With the nearest steps that are no shorter than asked."""
        fitting = [ring for ring in self._rings if ring.step_s >= step_s]
        return (fitting[0] if fitting else self._rings[-1]).curve(uuid)


def plain(points: array[float], name: str) -> List[Optional[float]]:
    """Numbers as short as they are true: bytes whole, the others to a tenth."""
    places = None if name.endswith("_bytes") else 1
    return [None if math.isnan(each) else round(each, places) for each in points]


def _padded(points: array[float], size: int, name: str) -> List[Optional[float]]:
    """What was first measured later than the others."""
    return [None] * (size - len(points)) + plain(points, name)


def _mean(left: float, right: float) -> float:
    if math.isnan(left):
        return right
    return left if math.isnan(right) else (left + right) / 2


def known(values: List[Tuple[Optional[float], float]]) -> Optional[float]:
    """The sum of those that are known, each times its factor; None if none is."""
    found = [value * factor for value, factor in values if value is not None]
    return sum(found) if found else None
