"""Compute the occurrences of a recurring reservation: hourly, daily, on weekdays or weekends, or weekly.

As in Slurm, each occurrence begins at the same local time. Days are counted on the calendar of this machine,
so a reservation at nine o'clock stays at nine o'clock when daylight saving time begins or ends.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from warpdeck.model.reservation import PERIOD_S, Repeat

HOUR_S = 3600
_DAYS = {"weekday": range(5), "weekend": range(5, 7)}
SLACK_DAYS = 8
"""Number of periods before `after_unix` at which the search begins.

It allows for a weekend and for clock changes.
"""


def occurrences(first_unix: float, repeat: Repeat, *, after_unix: float) -> Iterator[float]:
    """Yield the start times without end and in ascending order, beginning with the last start at or before
    `after_unix`.

    The very first occurrence is at `first_unix`.
    """
    period_s = PERIOD_S[repeat]
    skipped = max(0, int((after_unix - first_unix) // period_s) - SLACK_DAYS)
    before: float | None = None
    number = skipped
    while True:
        begin = _begin(first_unix, repeat, number)
        number += 1
        if begin is None:
            continue
        if begin <= after_unix:
            before = begin
            continue
        if before is not None:
            yield before
            before = None
        yield begin


def _begin(first_unix: float, repeat: Repeat, number: int) -> float | None:
    """Return the start of the given period; None if it falls on a weekday that the recurrence excludes."""
    if repeat == "hourly":
        return first_unix + number * HOUR_S
    days = number * (7 if repeat == "weekly" else 1)
    at = time.localtime(first_unix)
    begin = time.mktime(
        (at.tm_year, at.tm_mon, at.tm_mday + days, at.tm_hour, at.tm_min, at.tm_sec, 0, 0, -1)
    )
    allowed = _DAYS.get(repeat, range(7))
    return begin + first_unix % 1.0 if time.localtime(begin).tm_wday in allowed else None
