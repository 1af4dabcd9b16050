"""Points in time in the forms of --begin and --deadline: 16:00, tomorrow, 01/20, 2027-01-20T12:34,
now+2hours.

Times are local. A time of day alone is its next occurrence, a date without a year the next one, and a date
alone means midnight. Date and time may come in either order, separated by blanks, dashes or a T. If a part is
given twice, the last one counts. Source: the man page, and the behavior of sbatch with each form.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from warpdeck.base.errors import UserError

_UNIX = re.compile(r"uts(\d{7,11})", re.IGNORECASE)
"""A Unix time, such as uts1700000000. Smaller numbers are not accepted, because they are typing errors."""
_BETWEEN = re.compile(r"[ \t\-T]+")
_WORDS = re.compile(r"today|tomorrow|midnight|noon|fika|teatime", re.IGNORECASE)
_HOURS = {"midnight": 0, "noon": 12, "fika": 15, "teatime": 16}
_NOW = re.compile(r"now[ \t]*", re.IGNORECASE)
_OFFSET = re.compile(r"([+-])\s*(\d[\d \t]*)(seconds?|minutes?|hours?|days?|weeks?)?", re.IGNORECASE)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?[ \t]*(am|pm)?", re.IGNORECASE)
_HOUR = re.compile(rf"{_CLOCK.pattern}|midnight|noon|fika|teatime", re.IGNORECASE)
"""Matches a time of day without a date."""
_PAST_FORMS = "write 03:12, now-2hours, 11/20 14:00 or 2026-11-20T14:00"
_ISO = re.compile(r"(\d{4})-(\d\d)-(\d{1,2})")
_MONTH_FIRST = re.compile(r"(\d{1,2}+)[./]?(\d{1,2}+)[./]?(?:(\d\d)|(?!\d))")
MAX_DIGITS = 9
"""Maximum number of digits of an offset. Beyond it, no valid date results."""


def parse_moment(text: str, now: float, *, past: bool = False) -> float:
    """Return Unix seconds. Relative forms count from `now`. Raises UserError.

    With `past`, a time of day alone is today's, and a date without a year the most recent one. Otherwise both
    are the next ones.
    """
    unix = _UNIX.fullmatch(text)
    if unix is not None:
        return float(unix[1])
    try:
        return _MomentParser(text, datetime.fromtimestamp(now), past=past).moment()
    except (ValueError, OverflowError, OSError):
        hint = "write 16:00, tomorrow, 2027-01-20T12:34, 01/20/27 or now+2hours"
        raise UserError(f"{text!r} is not a point in time", hint) from None


def parse_past(text: str, now: float) -> float:
    """Return a time in the past, as Unix seconds. A time of day alone is its most recent occurrence. Raises
    UserError.
    """
    try:
        at_unix = parse_moment(text, now, past=True)
    except UserError as error:
        raise UserError(error.message, _PAST_FORMS) from None
    if at_unix > now and _HOUR.fullmatch(text):
        at_unix = (datetime.fromtimestamp(at_unix) - timedelta(days=1)).timestamp()
    if at_unix > now:
        raise UserError(f"{text!r} is in the future", _PAST_FORMS)
    return at_unix


def moment_text(at_unix: float) -> str:
    """Return the local date and time as Slurm prints them."""
    return datetime.fromtimestamp(at_unix).strftime("%Y-%m-%dT%H:%M:%S")


class _MomentParser:
    """Parses a text from the left. Raises ValueError if it is not a point in time."""

    def __init__(self, text: str, now: datetime, *, past: bool) -> None:
        self._now = now
        self._past = past
        self._year: int | None = None
        self._day: tuple[int, int] | None = None
        self._clock: tuple[int, int, int] | None = None
        rest = text
        while rest:
            rest = self._take(rest)
        if self._day is None and self._clock is None:
            raise ValueError(text)

    def moment(self) -> float:
        hour, minute, second = self._clock or (0, 0, 0)
        if self._day is None:
            later = self._past or (hour, minute) > (self._now.hour, self._now.minute)
            self._set_date(self._now if later else self._now + timedelta(days=1))
        assert self._day is not None
        month, day = self._day
        if self._year is None:
            to_come = (month, day, hour, minute) > (
                self._now.month,
                self._now.day,
                self._now.hour,
                self._now.minute,
            )
            self._year = self._now.year - (to_come and self._past) + (not to_come and not self._past)
        first = datetime(self._year, month, 1, hour, minute, second)
        return (first + timedelta(days=day - 1)).timestamp()  # 30 February becomes 2 March, as in mktime.

    def _set_date(self, at: datetime) -> None:
        self._year, self._day = at.year, (at.month, at.day)

    def _take(self, text: str) -> str:
        """Parse the first element of the text and return the rest."""
        if (match := _BETWEEN.match(text)) is not None:
            return text[match.end() :]
        if (match := _WORDS.match(text)) is not None:
            self._named(match[0].lower())
        elif (match := _NOW.match(text)) is not None:
            return self._relative(text[match.end() :])
        elif ":" in text[1:3] and (match := _CLOCK.match(text)) is not None:
            self._clock = _clock(match)
        elif (match := _ISO.match(text)) is not None:
            self._year, self._day = int(match[1]), _day(match[2], match[3])
        elif ":" not in text[1:3] and (match := _MONTH_FIRST.match(text)) is not None:
            self._day = _day(match[1], match[2])
            if match[3] and int(match[3]):
                self._year = 2000 + int(match[3])
        else:
            raise ValueError(text)
        return text[match.end() :]

    def _named(self, word: str) -> None:
        if word in _HOURS:
            self._clock = (_HOURS[word], 0, 0)
        else:
            self._set_date(self._now + timedelta(days=word == "tomorrow"))

    def _relative(self, rest: str) -> str:
        """Parse the text after "now" and return the rest."""
        at = self._now
        if rest:
            match = _OFFSET.match(rest)
            if match is None:
                raise ValueError(rest)
            count = re.sub(r"\s", "", match[2])
            if len(count) > MAX_DIGITS:
                raise ValueError(rest)
            seconds = int(count) * _UNITS[(match[3] or "s")[0].lower()]
            at = datetime.fromtimestamp(at.timestamp() + (seconds if match[1] == "+" else -seconds))
            rest = rest[match.end() :]
        self._set_date(at)
        self._clock = (at.hour, at.minute, at.second)
        return rest


def _day(month: str, day: str) -> tuple[int, int]:
    if not 1 <= int(month) <= 12 or not 1 <= int(day) <= 31:
        raise ValueError(f"{month}/{day}")
    return int(month), int(day)


def _clock(match: re.Match[str]) -> tuple[int, int, int]:
    hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(match[0])
    half = (match[4] or "").lower()
    if half == "pm":
        hour = hour + 12 if hour < 12 else 12 if hour == 12 else 24
    elif half == "am":
        hour = hour if hour < 12 else 0 if hour == 12 else 24
    if hour > 23:
        raise ValueError(match[0])
    return hour, minute, second
