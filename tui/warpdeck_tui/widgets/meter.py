"""Small pictures of numbers, as text: a bar, a sparkline, and the step of the heat ramp. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from .glyphs import EIGHTHS, SPARK, UNKNOWN

HEAT_STEPS = 8
"""Colours of the ramp: few enough that most ticks change no cell, and that 256 colours show each of them."""


def share(percent: float) -> float:
    """The percentage as 0..1; what lies outside is taken to the border."""
    return min(1.0, max(0.0, percent / 100.0))


def bar(percent: float | None, width: int) -> str:
    """A bar of exactly `width` characters, in eighths of one; dots where the value is unknown."""
    if percent is None:
        return UNKNOWN * width
    full, rest = divmod(round(share(percent) * width * 8), 8)
    tip = EIGHTHS[rest] if rest else ""
    return (EIGHTHS[8] * full + tip).ljust(width)


def sparkline(values: Sequence[float | None], width: int) -> str:
    """The last `width` percentages, the newest at the right; None leaves a dot, a value above 0 is never invisible."""
    shown = values[-width:] if width > 0 else ()
    drawn = "".join(
        UNKNOWN if value is None else SPARK[max(1 if value > 0 else 0, round(share(value) * 8))]
        for value in shown
    )
    return drawn.rjust(width)


def heat_step(percent: float | None) -> int:
    """0..7, cold to hot; -1 where the value is unknown."""
    return -1 if percent is None else min(HEAT_STEPS - 1, int(share(percent) * HEAT_STEPS))
