"""Numbers parsed as in C. sbatch's options inherit the behavior of strtol, sscanf and 32-bit integers."""

from __future__ import annotations

import re

from .refusal import Refusal

LONG_MAX = 2**63 - 1
INT_MAX = 2**31 - 1
BLANKS = " \t\n\v\f\r"
_LEADING = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)")
MAX_DIGITS = 40
"""More digits do not fit into strtol's range, and Python refuses to parse very long numbers."""


def strtol(text: str) -> tuple[int, str]:
    """Return (the leading number or 0, the rest of the text). Without a number the rest is the whole text.

    The number is clamped to 64 bits.
    """
    match = _LEADING.match(text)
    if match is None:
        return 0, text
    sign, digits = (match[1][0], match[1][1:]) if match[1][0] in "+-" else ("", match[1])
    digits = digits.lstrip("0")
    number = LONG_MAX if len(digits) > MAX_DIGITS else int(digits or "0")
    number = -number if sign == "-" else number
    return min(max(number, -LONG_MAX - 1), LONG_MAX), text[match.end() :]


def int32(number: int) -> int:
    """Return the number truncated to 32 bits, like a C int."""
    return (number + 2**31) % 2**32 - 2**31


def count(option: str, text: str | None, *, positive: bool = True, called: str = "") -> int:
    """Parse a count like Slurm's parse_int. `called` is the option's name in errors. Raises Refusal."""
    word, called = text or "", called or f"--{option}"
    number, rest = strtol(word)
    if rest or number < 0 or (positive and number == 0):
        raise Refusal(f'Invalid numeric value "{word}" for {called}.', "write a whole number", exit_code=1)
    if number == LONG_MAX:
        raise Refusal(
            f"Numeric argument ({number}) to big for {called}.", "write a smaller number", exit_code=1
        )
    return int32(number)


def is_blank(text: str) -> bool:
    """Return whether the text contains only white space."""
    return not text.strip(BLANKS)


SIZES = {"": 0, "k": -1, "m": 0, "g": 1, "t": 2}
"""Units of sizes, as powers of 1024 relative to a megabyte."""


def megabytes(text: str) -> int | None:
    """Return a size such as 64G, 64gb, 100K or 512 in megabytes, rounded up; None if it is invalid."""
    number, rest = strtol(text)
    if rest == text or number < 0 or number == LONG_MAX:
        return None
    unit = rest.lower()
    if len(unit) == 2 and unit[1] == "b":
        unit = unit[0]
    power = SIZES.get(unit)
    if power is None:
        return None
    return -(-number // 1024) if power < 0 else number * 1024**power % 2**64


def size_text(size_mb: int) -> str:
    """Format a size in the largest unit that needs no fraction; megabytes have no letter. Zero is "0?", as in
    sbatch.
    """
    units = "MGTP"
    for unit in units:
        if size_mb and size_mb % 1024:
            return f"{size_mb}" if unit == "M" else f"{size_mb}{unit}"
        size_mb //= 1024
    return f"{size_mb}?"


UNLIMITED, NO_TIME = -1, -2
_TIMES = re.compile(r"[0-9:-]+")
_FIRST = re.compile(r"-?\d+")


def seconds(text: str) -> int:
    """Parse a duration: minutes, M:S, H:M:S, D-H[:M[:S]]. Returns seconds, UNLIMITED, or NO_TIME if it is
    invalid.
    """
    if text.lower() in ("-1", "infinite", "unlimited"):
        return UNLIMITED
    if not _is_time(text):
        return NO_TIME
    if "-" in text:
        days, hours, minutes, rest = _fields(text, "-::")
        return int32(int32(days * 86_400) + int32(hours * 3600) + int32(minutes * 60) + rest)
    first, second, third = _fields(text, "::")
    if text.count(":") == 2:
        return int32(int32(first * 3600) + int32(second * 60) + third)
    return int32(int32(first * 60) + second)


def _is_time(text: str) -> bool:
    if not _TIMES.fullmatch(text) or not any(char.isdigit() for char in text):
        return False
    dashes, colons = text.count("-"), text.count(":")
    if dashes > 1 or colons > 2 or "-" in text.partition(":")[2]:
        return False
    groups = len(re.findall(r"\d+", text))
    return not colons or groups >= colons + (2 if dashes else 1)


def _fields(text: str, marks: str) -> list[int]:
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
        found[at] = int32(strtol(match[0])[0])
        text = text[match.end() :]
    return found


def minutes(text: str) -> int:
    """Return the duration in whole minutes, rounded up."""
    found = seconds(text)
    if found in (UNLIMITED, NO_TIME):
        return found
    return int(int32(found + 59) / 60)  # int() truncates towards zero, like division in C.


def time_text(total_s: int) -> str:
    """Format a duration as 1-02:03:04, 02:03:04 or UNLIMITED."""
    if total_s in (UNLIMITED, 2**32 - 1):
        return "UNLIMITED"
    days, rest = divmod(abs(total_s), 86_400)
    if total_s < 0:
        return "INVALID"
    hours, rest = divmod(rest, 3600)
    mins, secs = divmod(rest, 60)
    return f"{days}-{hours:02d}:{mins:02d}:{secs:02d}" if days else f"{hours:02d}:{mins:02d}:{secs:02d}"
