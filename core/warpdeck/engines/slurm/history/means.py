"""Measurements over time in bounded memory: means over equal steps, of a job's whole life or of a node's last hours."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping

from warpdeck.model import UsageCurve

FIRST_STEP_S = 10.0
"""Length of the first steps of a job's curve. Readings come every few seconds."""
MAX_POINTS = 120
"""Maximum number of points of a job's curve, as with the native engine: more than a terminal is wide."""


class LifeCurve:
    """The curve of a job on a node from its start on. When it is full, each two neighboring steps are merged."""

    def __init__(self, begin_unix: float) -> None:
        self.begin_unix = begin_unix
        self.step_s = FIRST_STEP_S
        self._totals: dict[str, list[float]] = {}
        self._counts: dict[str, list[float]] = {}
        self._size = 0

    @classmethod
    def of(cls, curve: UsageCurve) -> LifeCurve:
        """Return a stored curve, to which readings may be added. Each of its means counts as one reading."""
        made = cls(curve.begin_unix)
        made.step_s = curve.step_s
        for name, points in curve.columns.items():
            known = points[:MAX_POINTS]
            made._size = max(made._size, len(known))
            made._totals[name] = _filled([point or 0.0 for point in known])
            made._counts[name] = _filled([float(point is not None) for point in known])
        return made

    def add(self, values: Mapping[str, float], at_unix: float) -> None:
        """Add one reading. One from before the beginning belongs to the first step."""
        while at_unix >= self.begin_unix + MAX_POINTS * self.step_s:
            self._merge_steps()
        step = max(0, int((at_unix - self.begin_unix) // self.step_s))
        self._size = max(self._size, step + 1)
        for name, value in values.items():
            self._totals.setdefault(name, [0.0] * MAX_POINTS)[step] += value
            self._counts.setdefault(name, [0.0] * MAX_POINTS)[step] += 1

    def add_earlier(self, other: LifeCurve) -> None:
        """Add the readings of an earlier recording of the same life."""
        while other.step_s < self.step_s:
            other._merge_steps()
        while self.step_s < other.step_s:
            self._merge_steps()
        self._size = max(self._size, other._size)
        for name, totals in other._totals.items():
            own = self._totals.setdefault(name, [0.0] * MAX_POINTS)
            counts = self._counts.setdefault(name, [0.0] * MAX_POINTS)
            self._totals[name] = [sum(pair) for pair in zip(own, totals, strict=True)]
            self._counts[name] = [sum(pair) for pair in zip(counts, other._counts[name], strict=True)]

    def curve(self) -> UsageCurve:
        """Return the means."""
        columns = {
            name: tuple(
                round(total / count, 1) if count else None
                for total, count in zip(totals[: self._size], self._counts[name], strict=False)
            )
            for name, totals in self._totals.items()
        }
        return UsageCurve(begin_unix=self.begin_unix, step_s=self.step_s, columns=columns)

    def _merge_steps(self) -> None:
        self.step_s *= 2
        self._size = (self._size + 1) // 2
        for name, totals in self._totals.items():
            counts = self._counts[name]
            self._totals[name] = _filled([sum(totals[at : at + 2]) for at in range(0, MAX_POINTS, 2)])
            self._counts[name] = _filled([sum(counts[at : at + 2]) for at in range(0, MAX_POINTS, 2)])


class Ring:
    """The last `size` steps of a node or of one of its GPUs."""

    def __init__(self, step_s: float, size: int) -> None:
        self._step_s = step_s
        self._size = size
        self._first = self._newest = -1
        """The first and the newest step with a reading, as multiples of the step since the epoch."""
        self._columns: dict[str, array[float]] = {}
        self._counts: dict[str, int] = {}
        """Numbers of readings of the newest step."""

    def add(self, values: Mapping[str, float], at_unix: float) -> None:
        """Add one reading. One that is older than the newest step is dropped."""
        step = int(at_unix // self._step_s)
        if step < self._newest:
            return
        if self._newest < 0:
            self._first = step
        elif step > self._newest:
            self._begin(step)
        self._newest = step
        for name, value in values.items():
            column = self._columns.setdefault(name, array("f", [math.nan]) * self._size)
            count = self._counts[name] = self._counts.get(name, 0) + 1
            at = step % self._size
            column[at] = value if count == 1 else column[at] + (value - column[at]) / count

    def _begin(self, step: int) -> None:
        """Begin a step. Clear the places of this step and of the skipped steps in the ring."""
        self._counts.clear()
        for column in self._columns.values():
            for passed in range(max(self._newest + 1, step - self._size + 1), step + 1):
                column[passed % self._size] = math.nan

    def curve(self, *, span_s: float, now: float) -> UsageCurve:
        """Return the means of the last `span_s` seconds. Steps without a reading are unknown."""
        last = int(now // self._step_s)
        count = min(self._size, max(1, round(span_s / self._step_s)))
        steps = range(last - count + 1, last + 1)
        columns = {
            name: tuple(_known(column[step % self._size]) if self._has(step) else None for step in steps)
            for name, column in self._columns.items()
        }
        return UsageCurve(begin_unix=steps[0] * self._step_s, step_s=self._step_s, columns=columns)

    def _has(self, step: int) -> bool:
        """Return whether the place of the step belongs to this step."""
        return max(self._first, self._newest - self._size + 1) <= step <= self._newest


def _filled(points: list[float]) -> list[float]:
    """Return the points of a whole curve."""
    return points + [0.0] * (MAX_POINTS - len(points))


def _known(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 1)
