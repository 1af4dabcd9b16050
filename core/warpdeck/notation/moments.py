"""Points in time as --begin and --deadline write them: 16:00, tomorrow, 01/20, 2027-01-20T12:34, now+2hours.

Times are local. An hour alone is the next such hour, a day without its year the next such day; a day alone is its midnight.
Source: Slurm's parse_time, measured with sbatch.
"""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta

from warpdeck.errors import UserError

_FROM_NOW = re.compile(r"now(?:\s*([+-])\s*(\d{1,9})\s*(seconds?|minutes?|hours?|days?|weeks?)?)?")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_UNIX = re.compile(r"uts(\d{1,11})")
_CLOCK = re.compile(r"t?(\d{1,2}):(\d{2})(?::(\d{2}))?(?:\s*([ap])m)?(?!\w)")
_ISO = re.compile(r"(\d{4})-(\d{2})-(\d{2})t?")
_AMERICAN = re.compile(r"(\d{2})[/.](\d{2})(?:[/.](\d{2}))?(?!\d)|(\d{2})(\d{2})(\d{2})(?!\d)")
_HOURS = {"midnight": 0, "noon": 12, "fika": 15, "teatime": 16}
_WORD = re.compile("midnight|noon|fika|teatime|today|tomorrow")


def parse_moment(text: str, now: float) -> float:
    """Unix seconds; `now` is what relative forms count from. Raises UserError."""
    word = text.strip().lower()
    try:
        from_now, unix = _FROM_NOW.fullmatch(word), _UNIX.fullmatch(word)
        if from_now is not None:
            return now + _offset_s(from_now)
        if unix is not None:
            return float(unix[1])
        return _Reader(word, datetime.fromtimestamp(now)).moment().timestamp()
    except (ValueError, OverflowError):
        hint = "write 16:00, tomorrow, 2027-01-20T12:34, 01/20/27 or now+2hours"
        raise UserError(f"{text!r} is no point in time", hint) from None


def _offset_s(match: re.Match[str]) -> int:
    seconds = int(match[2] or 0) * _UNITS[(match[3] or "s")[0]]
    return -seconds if match[1] == "-" else seconds


class _Reader:
    """A day and a time of day, in either order. Raises ValueError for anything else."""

    def __init__(self, word: str, now: datetime) -> None:
        self._now = now
        self._day: date | None = None
        self._clock: time | None = None
        rest = word
        while rest:
            rest = self._take(rest).lstrip()
        if self._day is None and self._clock is None:
            raise ValueError(word)

    def moment(self) -> datetime:
        clock = self._clock or time()
        if self._day is not None:
            return datetime.combine(self._day, clock)
        today = datetime.combine(self._now.date(), clock)
        return today if today > self._now else today + timedelta(days=1)

    def _take(self, rest: str) -> str:
        """Reads what stands first; the rest."""
        if (match := _ISO.match(rest)) is not None:
            self._day = date(int(match[1]), int(match[2]), int(match[3]))
        elif (match := _CLOCK.match(rest)) is not None:
            self._clock = _clock(match)
        elif (match := _AMERICAN.match(rest)) is not None:
            self._day = self._american(match)
        elif (match := _WORD.match(rest)) is not None:
            self._named(match[0])
        else:
            raise ValueError(rest)
        return rest[match.end() :]

    def _american(self, match: re.Match[str]) -> date:
        """Month, day and perhaps the year's last two digits."""
        month, day, year = match[1] or match[4], match[2] or match[5], match[3] or match[6]
        if year is not None:
            return date(2000 + int(year), int(month), int(day))
        found = date(self._now.year, int(month), int(day))
        return found if found > self._now.date() else found.replace(year=found.year + 1)

    def _named(self, word: str) -> None:
        if word in _HOURS:
            self._clock = time(_HOURS[word])
        else:
            self._day = self._now.date() + timedelta(days=word == "tomorrow")


def _clock(match: re.Match[str]) -> time:
    hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
    if match[4]:
        if not 1 <= hour <= 12:
            raise ValueError(match[0])
        hour = hour % 12 + (12 if match[4] == "p" else 0)
    return time(hour, minute, second)
