"""Memory sizes: 64G, 64GB, 64gb, 512000 (MB). 100K is rounded up to a megabyte."""

from __future__ import annotations

import re

from warpdeck.base.errors import UserError

_SIZE = re.compile(r"(\d{1,15})([KMGT]?)B?", re.IGNORECASE)
_KIB = {"K": 1, "": 1024, "M": 1024, "G": 1024**2, "T": 1024**3}


def parse_memory(text: str) -> int:
    """Return the size in bytes, a multiple of 1 MiB. Raises UserError."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise UserError(
            f"{text!r} is no amount of memory", "write a whole number with K, M, G or T, such as 64G"
        )
    kib = int(match[1]) * _KIB[match[2].upper()]
    return -(-kib // 1024) * 2**20


def format_memory(size: int | None) -> str:
    """Format a size, for example "79.6G" or "512M"; "" if it is unknown."""
    if size is None:
        return ""
    for unit, factor in (("T", 2**40), ("G", 2**30), ("M", 2**20), ("K", 2**10)):
        if size >= factor:
            value = size / factor
            return f"{value:.0f}{unit}" if value >= 100 or value == int(value) else f"{value:.1f}{unit}"
    return str(size)
