"""Numbers as Slurm prints them: sizes with a unit letter, TRES lists, durations and timestamps.

Source: Slurm's slurm_protocol_defs and parse_time.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar

from warpdeck.notation.values.arrays import number_ranges
from warpdeck.notation.values.durations import format_clock

from .timestamps import STANDARD, Stamps

LETTERS = "\0KMGTP"
UNKNOWN = "Unknown"
MIB = 2**20
FIRST = ("cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages")
"""TRES in the order of their Slurm IDs. Other TRES follow, sorted by name."""


def exact(number: int, letter: str = "") -> str:
    """Format a number with the largest unit in which it is a multiple of one half.

    64000M becomes 62.50G; 999999M stays. `letter` is the unit of `number`.
    """
    return _scaled(number, letter, lambda value: value == int(value) and int(value) % 512 == 0)


def rounded(number: float, letter: str = "", *, unit: str = "") -> str:
    """Format a number with the largest unit in which it is at least 1, or with `unit` (K, M, G, T, P).

    Numbers that are not whole have two decimals. `letter` is the unit of `number`.
    """
    if unit:
        place, wanted = LETTERS.index(letter or "\0"), LETTERS.index(unit)
        return _shown(number * 1024.0 ** (place - wanted), wanted)
    return _scaled(number, letter, lambda value: True)


def _scaled(number: float, letter: str, may_divide: Callable[[float], bool]) -> str:
    value, place = float(number), LETTERS.index(letter or "\0")
    while value >= 1024 and may_divide(value) and place < len(LETTERS) - 1:
        value /= 1024
        place += 1
    return _shown(value, place)


def _shown(value: float, place: int) -> str:
    letter = LETTERS[place].strip("\0")
    return f"{int(value)}{letter}" if value == int(value) else f"{value:.2f}{letter}"


def tres_text(tres: Mapping[str, int], *, none: str = "", by_name: bool = False, unit: str = "") -> str:
    """Format TRES counts, for example cpu=4,mem=200M,node=1,billing=4,gres/gpu=1. Zero counts are left out.

    With `by_name` they are sorted by name, as in sacct. Otherwise they are in Slurm's order.
    """
    parts = [
        f"{name}={_tres_value(name, tres[name], unit)}"
        for name in _in_order(tres, by_name=by_name)
        if tres[name]
    ]
    return ",".join(parts) or none


def _tres_value(name: str, count: int, unit: str) -> str:
    if name != "mem":
        return str(count)
    return rounded(count, "M", unit=unit) if unit else exact(count, "M")


def _in_order(names: Iterable[str], *, by_name: bool) -> list[str]:
    if by_name:
        return sorted(names)
    return sorted(names, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))


def clock(seconds: float | None, *, none: str = "UNLIMITED") -> str:
    """Format a duration as 00:10:00 or 7-00:00:00. `none` is returned for no limit."""
    return none if seconds is None or math.isinf(seconds) else format_clock(seconds)


_STAMPS: ContextVar[Stamps | None] = ContextVar("stamps", default=None)


@contextlib.contextmanager
def stamped(env: Mapping[str, str], complain: Callable[[str], None] | None = None) -> Iterator[None]:
    """Within this context, `moment` uses the caller's SLURM_TIME_FORMAT, if it is set.

    `complain` receives the error in that variable, once a time is formatted.
    """
    token = _STAMPS.set(Stamps(env, complain=complain) if env.get("SLURM_TIME_FORMAT") else None)
    try:
        yield
    finally:
        _STAMPS.reset(token)


def moment(at: float | None, *, none: str = UNKNOWN) -> str:
    """Format a Unix time as 2026-11-21T14:10:27 in local time, or in the format that `stamped` set."""
    stamps = _STAMPS.get()
    if stamps is not None:
        return stamps.text(at, unknown=none)
    return none if not at else time.strftime(STANDARD, time.localtime(at))


def or_null(text: str | None) -> str:
    """Return the text, or "(null)" if it is empty, as C's printf does."""
    return text or "(null)"


def gres_text(counts: Mapping[str, int]) -> str:
    """Format numbers of GPUs by type, for example gpu:a100:4,gpu:h100:2. A type of "" is left out."""
    return ",".join(f"gpu:{kind}:{count}" if kind else f"gpu:{count}" for kind, count in counts.items())


def gpus_text(kind: str, indices: Iterable[int]) -> str:
    """Format the GPUs of one type on one node, for example gpu:a100:2(IDX:0-1)."""
    held = list(indices)
    return f"{gres_text({kind: len(held)})}(IDX:{number_ranges(held) or 'N/A'})"
