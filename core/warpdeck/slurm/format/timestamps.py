"""Timestamps as Slurm's commands print them: 2026-11-20T10:00:00, or in the format of SLURM_TIME_FORMAT."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

STANDARD = "%Y-%m-%dT%H:%M:%S"
RELATIVE = "relative"
UNKNOWN = "Unknown"
_DAYS = {-1: "Ystday", 0: "", 1: "Tomorr"}
_WEEK = 7


class Stamps:
    """Formats timestamps.

    An error in SLURM_TIME_FORMAT is passed to `complain` when the first time is formatted, as in Slurm.
    """

    def __init__(
        self,
        env: Mapping[str, str],
        *,
        complain: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._form = env.get("SLURM_TIME_FORMAT", "") or "standard"
        self._complain = complain
        self._clock = clock
        self._wrong = ""
        if self._form == "standard":
            self._form = STANDARD
        elif self._form != RELATIVE and "%" not in self._form:
            self._wrong = f"invalid SLURM_TIME_FORMAT = '{self._form}'"
            self._form = STANDARD

    def text(self, at_unix: float | None, *, unknown: str = "N/A") -> str:
        """Format a Unix time. `unknown` is returned for a missing time."""
        if not at_unix:
            return unknown
        if self._wrong and self._complain is not None:
            self._complain(self._wrong)
            self._complain = None
        moment = time.localtime(at_unix)
        if self._form != RELATIVE:
            return time.strftime(self._form, moment)
        return self._relative(moment)

    def _relative(self, moment: time.struct_time) -> str:
        """Format a time relative to today.

        Times of today have no date, near days have a name, and other days have a date.
        """
        from datetime import date  # This import takes a millisecond, and few calls need it.

        today = date.fromtimestamp(self._clock())
        day = date(moment.tm_year, moment.tm_mon, moment.tm_mday)
        ahead = (day - today).days
        if ahead == 0:
            return time.strftime("%H:%M:%S", moment)
        if ahead in _DAYS:
            return f"{_DAYS[ahead]} {time.strftime('%H:%M', moment)}"
        if day.year != today.year:
            return time.strftime("%-d %b %Y", moment)
        if 0 < ahead < _WEEK:
            return time.strftime("%a %H:%M", moment)
        return time.strftime("%-d %b %H:%M", moment)


def ctime(at_unix: float) -> str:
    """Format a time like "Sat Nov 21 14:16:12 2026", the headline of a repeated listing."""
    return time.strftime("%a %b %d %H:%M:%S %Y", time.localtime(at_unix))
