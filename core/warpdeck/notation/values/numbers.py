"""Numbers parsed as in C. sbatch's options inherit the behavior of strtol and of 32-bit integers."""

from __future__ import annotations

import re

from .slurm_error import SlurmError

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
    """Parse a count like Slurm's parse_int. `called` is the option's name in errors. Raises SlurmError."""
    word, called = text or "", called or f"--{option}"
    number, rest = strtol(word)
    if rest or number < 0 or (positive and number == 0):
        hint = "write a whole number of at least 1" if positive else "write a whole number"
        raise SlurmError(f'Invalid numeric value "{word}" for {called}.', hint, exit_code=1)
    if number == LONG_MAX:
        words = f"Numeric argument ({number}) to big for {called}."
        raise SlurmError(words, "write a smaller number", exit_code=1)
    return int32(number)


def is_blank(text: str) -> bool:
    """Return whether the text contains only white space."""
    return not text.strip(BLANKS)
