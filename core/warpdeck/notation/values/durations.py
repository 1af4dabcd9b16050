"""Slurm's durations: minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S. Time limits are rounded up to whole
minutes.
"""

from __future__ import annotations

import re

from warpdeck.base.errors import UserError

_PLAIN = re.compile(r"(?:(\d{1,9})-)?(\d{1,9})?(?::(\d{1,9}))?(?::(\d{1,9}))?")
MAX_SECONDS = 2**31
"""Maximum duration: 68 years. Larger numbers are typing errors."""


def parse_limit(text: str) -> int | None:
    """Return seconds, a multiple of 60; None for no limit (0, -1, INFINITE, UNLIMITED). Raises UserError.

    "24:00" is 24 minutes, not hours, as in Slurm.
    """
    seconds = parse_seconds(text)
    return None if seconds is None else -(-seconds // 60) * 60 or None


def parse_seconds(text: str) -> int | None:
    """Return seconds without rounding; None for no limit. Raises UserError."""
    word = text.strip()
    if word.lower() in ("infinite", "unlimited", "-1"):
        return None
    match = _PLAIN.fullmatch(word)
    if match is None or (match[1] is None and match[2] is None) or (match[2] is None and match[3]):
        raise UserError(f"{text!r} is no time", "write MINUTES, H:MM:SS, D-H or D-HH:MM:SS")
    seconds = _seconds(match)
    if seconds > MAX_SECONDS:
        raise UserError(f"{text!r} is too long a time", "write UNLIMITED for no limit")
    return seconds


def _seconds(match: re.Match[str]) -> int:
    days, first, second, third = (int(group) if group else 0 for group in match.groups())
    if match[1] is not None:
        return days * 86_400 + first * 3600 + second * 60 + third
    if match[4] is not None:
        return first * 3600 + second * 60 + third
    return first * 60 + second


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
