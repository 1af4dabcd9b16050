"""Memory sizes as Slurm reads them: 64G, 64GB, 64gb, 512000 (MB). 100K is rounded up to a megabyte."""

from __future__ import annotations

from warpdeck.base.errors import UserError

from .numbers import LONG_MAX, strtol

MIB = 2**20
SIZE_HINT = "write a whole number with K, M, G or T, such as 64G"
_POWERS = {"": 0, "k": -1, "m": 0, "g": 1, "t": 2}
"""Units, as powers of 1024 relative to a megabyte."""


def megabytes(text: str) -> int | None:
    """Return the size in megabytes, rounded up; None if the text is not a size."""
    number, rest = strtol(text)
    if rest == text or number < 0 or number == LONG_MAX:
        return None
    unit = rest.lower()
    if len(unit) == 2 and unit[1] == "b":
        unit = unit[0]
    power = _POWERS.get(unit)
    if power is None:
        return None
    return -(-number // 1024) if power < 0 else number * 1024**power % 2**64


def parse_memory(text: str) -> int:
    """Return the size in bytes, a multiple of 1 MiB. Raises UserError."""
    size_mb = megabytes(text)
    if size_mb is None:
        raise UserError(f"{text!r} is not a memory size", SIZE_HINT)
    return size_mb * MIB


def format_memory(size: int | None) -> str:
    """Format a size, for example "79.6G" or "512M"; "" if it is unknown."""
    if size is None:
        return ""
    for unit, factor in (("T", 2**40), ("G", 2**30), ("M", 2**20), ("K", 2**10)):
        if size >= factor:
            value = size / factor
            return f"{value:.0f}{unit}" if value >= 100 or value == int(value) else f"{value:.1f}{unit}"
    return str(size)


def size_text(size_mb: int) -> str:
    """Format megabytes as sbatch prints them: in the largest unit that needs no fraction, without the letter M.
    Zero is "0?".
    """
    for unit in "MGTP":
        if size_mb and size_mb % 1024:
            return f"{size_mb}" if unit == "M" else f"{size_mb}{unit}"
        size_mb //= 1024
    return f"{size_mb}?"
