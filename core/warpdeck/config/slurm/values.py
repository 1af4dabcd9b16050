"""Parse values of slurm.conf and sacctmgr where their format differs from users' input.

The functions raise UserError for invalid values.
"""

from __future__ import annotations

from warpdeck.base.errors import UserError
from warpdeck.notation.values.durations import parse_limit
from warpdeck.notation.values.tres_counts import parse_tres, tres_name

UNLIMITED = ("", "infinite", "unlimited", "-1", "none", "n/a", "4294967295", "4294967294")


def word_set(text: str) -> frozenset[str]:
    """Return the set of words of a text."""
    return frozenset(text.split())


def limit_s(text: str) -> int | None:
    """Parse a time limit to seconds; None for UNLIMITED and its synonyms."""
    return None if text.lower() in UNLIMITED else parse_limit(text)


def exact_s(text: str) -> int:
    """Parse a number of seconds or H:MM:SS to seconds, the format of GraceTime."""
    if ":" not in text and "-" not in text:
        return whole(text)
    days, _, clock = text.rpartition("-")
    parts = [whole(part) for part in clock.split(":")]
    if len(parts) > 3:
        raise UserError(f"{text!r} is not a time")
    hours, minutes, seconds = [0] * (3 - len(parts)) + parts
    return whole(days or "0") * 86_400 + hours * 3600 + minutes * 60 + seconds


def whole(text: str) -> int:
    """Parse a whole number."""
    word = text.strip()
    if not word.isdigit() or len(word) > 15:
        raise UserError(f"{text!r} is not a whole number")
    return int(word)


def count(text: str) -> int | None:
    """Parse a whole number; None for UNLIMITED and its synonyms."""
    return None if text.lower() in UNLIMITED else whole(text)


def names(text: str) -> tuple[str, ...] | None:
    """Parse a comma-separated list; None for ALL."""
    found = tuple(word.strip() for word in text.split(",") if word.strip())
    return None if any(word.upper() == "ALL" for word in found) else found


def yes(text: str) -> bool:
    """Parse YES, NO, TRUE, FALSE, 1, 0."""
    return text.strip().lower() in ("yes", "true", "1", "y")


def tres(text: str) -> tuple[dict[str, int], list[str]]:
    """Parse a TRES list.

    Returns the TRES that warpdeck counts, and the names of the unknown TRES. A count of -1 removes a limit.
    """
    kept: list[str] = []
    unknown: list[str] = []
    for item in text.split(",") if text.strip() else ():
        name, _, value = item.partition("=")
        if value.strip() == "-1":
            continue
        try:
            tres_name(name)
        except UserError:
            unknown.append(name)
        else:
            kept.append(item)
    return parse_tres(",".join(kept)), unknown
