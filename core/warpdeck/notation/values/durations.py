"""Slurm's durations: minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S. Time limits are rounded up to whole
minutes.
"""

from __future__ import annotations

import re

from warpdeck.base.errors import UserError

from .numbers import strtol

MAX_SECONDS = 2**31
"""Maximum duration: 68 years. Larger numbers are typing errors."""
UNLIMITED, NO_TIME = -1, -2
TIME_HINT = "write MINUTES, H:MM:SS, D-H or D-HH:MM:SS"
_TIMES = re.compile(r"[0-9:-]+")
_FIRST = re.compile(r"-?\d+")


def read_seconds(text: str) -> int:
    """Return the seconds of a duration as Slurm reads it; UNLIMITED, or NO_TIME if the text is not a duration.

    Slurm keeps the lowest 32 bits of the result.
    """
    if text.lower() in ("-1", "infinite", "unlimited"):
        return UNLIMITED
    if not _is_time(text):
        return NO_TIME
    if "-" in text:
        days, hours, minutes, seconds = _numbers(text, "-::")
        return days * 86_400 + hours * 3600 + minutes * 60 + seconds
    first, second, third = _numbers(text, "::")
    return first * 3600 + second * 60 + third if text.count(":") == 2 else first * 60 + second


def _is_time(text: str) -> bool:
    if not _TIMES.fullmatch(text) or not any(char.isdigit() for char in text):
        return False
    dashes, colons = text.count("-"), text.count(":")
    if dashes > 1 or colons > 2 or "-" in text.partition(":")[2]:
        return False
    groups = len(re.findall(r"\d+", text))
    return not colons or groups >= colons + (2 if dashes else 1)


def _numbers(text: str, marks: str) -> list[int]:
    """Parse whole numbers separated by these marks, like sscanf. Numbers after a mismatch are 0."""
    found = [0] * (len(marks) + 1)
    for at in range(len(found)):
        if at:
            if not text.startswith(marks[at - 1]):
                break
            text = text[1:]
        match = _FIRST.match(text)
        if match is None:
            break
        found[at] = strtol(match[0])[0]
        text = text[match.end() :]
    return found


def parse_limit(text: str) -> int | None:
    """Return seconds, a multiple of 60; None for no limit (0, -1, INFINITE, UNLIMITED). Raises UserError.

    "24:00" is 24 minutes, not hours, as in Slurm.
    """
    return limit_of(parse_seconds(text))


def limit_of(seconds: int | None) -> int | None:
    """Return a time limit in seconds, rounded up to whole minutes; None for no limit."""
    return None if seconds is None else -(-seconds // 60) * 60 or None


def parse_seconds(text: str) -> int | None:
    """Return seconds without rounding; None for no limit. Raises UserError."""
    return checked_seconds(read_seconds(text.strip()), repr(text))


def checked_seconds(seconds: int, called: str) -> int | None:
    """Return the seconds that were read; None for no limit. `called` names the text in errors. Raises UserError."""
    if seconds == UNLIMITED:
        return None
    if seconds < 0:
        raise UserError(f"{called} is not a time", TIME_HINT)
    if seconds > MAX_SECONDS:
        raise UserError(f"{called} is longer than 68 years", "write UNLIMITED for no limit")
    return seconds


def time_text(total_s: int) -> str:
    """Format a duration as sbatch prints it: 1-02:03:04, 02:03:04 or UNLIMITED."""
    if total_s in (UNLIMITED, 2**32 - 1):
        return "UNLIMITED"
    return "INVALID" if total_s < 0 else format_clock(total_s)


def format_clock(seconds: float) -> str:
    """Format a duration with two-digit hours: 00:10:00, 7-00:00:00."""
    minutes, second = divmod(max(0, int(seconds)), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return (f"{days}-" if days else "") + f"{hour:02d}:{minute:02d}:{second:02d}"


def format_duration(seconds: float | None) -> str:
    """Format a duration as squeue prints it: 5:03, 1:02:03, 2-01:02:03; None is UNLIMITED."""
    if seconds is None:
        return "UNLIMITED"
    total = max(0, int(seconds))
    days, rest = divmod(total, 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, secs = divmod(rest, 60)
    if days:
        return f"{days}-{hours:02d}:{minutes:02d}:{secs:02d}"
    if hours:
        return f"{hours}:{minutes:02d}:{secs:02d}"
    return f"{minutes}:{secs:02d}"


def roughly(seconds: float) -> str:
    """Format an approximate duration: "40 s", "12 min", "2 h 10 min", "3 d 4 h"."""
    total = max(0, round(seconds))
    if total < 90:
        return f"{total} s"
    minutes = round(total / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"
