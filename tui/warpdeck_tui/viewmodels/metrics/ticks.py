"""Positions and labels of the ticks of an axis. All ticks have the same distance, and each label is exact."""

from __future__ import annotations

import math
from typing import NamedTuple

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400
TIME_STEPS_S = (
    *(1, 2, 5, 10, 15, 30),
    *(each * MINUTE_S for each in (1, 2, 5, 10, 15, 30)),
    *(each * HOUR_S for each in (1, 2, 3, 6, 12)),
)
"""Distances between two ticks, in seconds. Longer ones are days."""


class Tick(NamedTuple):
    """A tick with its label, `column` characters from the left end of the axis."""

    column: int
    label: str


def ticks(left: float, right: float, width: int, *, apart: int, is_time: bool) -> list[Tick]:
    """Return the ticks of an axis from `left` to `right` on `width` characters, at least `apart` characters apart."""
    per_column = (right - left) / max(1, width)
    step = _time_step(per_column * apart) if is_time else _round_step(per_column * apart)
    found = []
    for number in range(math.ceil(left / step - 1e-9), math.floor(right / step + 1e-9) + 1):
        column = round((number * step - left) / per_column)
        if column < width:
            found.append(Tick(column, elapsed(number * step) if is_time else f"{number * step:.0f}"))
    return found


def _time_step(least: float) -> int:
    days = _round_step(least / DAY_S) * DAY_S
    return next((step for step in TIME_STEPS_S if step >= least), days)


def _round_step(least: float) -> int:
    """Return the smallest of 1, 2, 5, 10, 20, 50 and so on that is not less than `least`."""
    power = 10 ** max(0, math.floor(math.log10(max(1.0, least))))
    return int(next(step * power for step in (1, 2, 5, 10) if step * power >= least or step == 10))


def elapsed(seconds: float) -> str:
    """Return an exact time since the start, such as 45s, 1m30, 2h, 2h30, 1d or 1d6h."""
    total = round(seconds)
    for unit_s, unit, part_s, part in (
        (DAY_S, "d", HOUR_S, "h"),
        (HOUR_S, "h", MINUTE_S, ""),
        (MINUTE_S, "m", 1, ""),
    ):
        if total >= unit_s:
            rest = total % unit_s // part_s
            more = f"{rest}{part}" if part else f"{rest:02d}"
            return f"{total // unit_s}{unit}{more if rest else ''}"
    return f"{total}s"
