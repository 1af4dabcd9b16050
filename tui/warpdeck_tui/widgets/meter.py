"""Pure functions that draw numbers as text: a bar, a sparkline, and the step of the heat ramp."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .glyphs import EIGHTHS, SPARK, THICK, THICK_HALF, THIN, UNKNOWN

HEAT_STEPS = 8
"""Number of colors of the ramp. It is small enough that most updates change no cell, and that 256 colors can
show each step.
"""
LEAST_SPAN = 0.1
"""A sparkline of a metric covers at least this share of its largest value, so that noise does not look like a trend."""
LOWEST_PCT = 10.0
"""Height of the smallest value of a metric. A blank would look like a gap."""


def share(percent: float) -> float:
    """Return the percentage as a number in 0..1. Values outside are clamped."""
    return min(1.0, max(0.0, percent / 100.0))


def bar(percent: float | None, width: int) -> str:
    """Return a bar of exactly `width` characters, in eighths of a character, or dots if the value is
    unknown.
    """
    if percent is None:
        return UNKNOWN * width
    full, rest = divmod(round(share(percent) * width * 8), 8)
    tip = EIGHTHS[rest] if rest else ""
    return (EIGHTHS[8] * full + tip).ljust(width)


def thin(percent: float, width: int) -> tuple[str, str]:
    """Return the filled and the empty part of a thin bar of exactly `width` characters, in halves of a character."""
    halves = round(share(percent) * width * 2)
    if percent > 0 and width > 0:
        halves = max(1, halves)
    full = THICK * (halves // 2) + THICK_HALF * (halves % 2)
    return full, THIN * (width - len(full))


def sparkline(values: Sequence[float | None], width: int) -> str:
    """Return the last `width` percentages as a sparkline, with the newest at the right.

    None is drawn as a dot. A value above 0 is always visible, and only 100 % fills the whole height: a constant 95 %
    must not look like a full bar.
    """
    shown = values[-width:] if width > 0 else ()
    drawn = "".join(UNKNOWN if value is None else SPARK[_eighths(value, 1)] for value in shown)
    return drawn.rjust(width)


def _eighths(percent: float, height: int) -> int:
    """Return the height of a column in eighths of a line."""
    most = (len(SPARK) - 1) * height
    return 1 + int(share(percent) * (most - 1)) if percent > 0 else 0


def scaled(values: Sequence[float]) -> list[float | None]:
    """Return the values of any metric as percentages of the range that they cover, for a sparkline.

    Nearly equal values are in the middle of the range. A value that is not finite becomes None.
    """
    known = [value for value in values if math.isfinite(value)]
    low, high = min(known, default=0.0), max(known, default=0.0)
    least = LEAST_SPAN * max(abs(low), abs(high))
    if high - low < least:
        low, high = (low + high - least) / 2, (low + high + least) / 2
    span = high - low
    if not span:
        return [50.0 if math.isfinite(value) else None for value in values]
    height = 100.0 - LOWEST_PCT
    return [LOWEST_PCT + height * (value - low) / span if math.isfinite(value) else None for value in values]


def tall_sparkline(values: Sequence[float | None], width: int, height: int) -> list[str]:
    """Return the last `width` percentages as columns in `height` lines, the top line first.

    The newest value is at the right. A value above 0 is always visible.
    """
    if height == 1:
        return [sparkline(values, width)]
    steps = len(SPARK) - 1
    shown = values[-width:] if width > 0 else ()
    eighths = [None if value is None else _eighths(value, height) for value in shown]
    return [
        "".join(
            (UNKNOWN if below == 0 else " ")
            if each is None
            else SPARK[min(steps, max(0, each - steps * below))]
            for each in eighths
        ).rjust(width)
        for below in range(height - 1, -1, -1)
    ]


def heat_step(percent: float | None) -> int:
    """Return the heat step 0..7 from cold to hot, or -1 if the value is unknown."""
    return -1 if percent is None else min(HEAT_STEPS - 1, int(share(percent) * HEAT_STEPS))
