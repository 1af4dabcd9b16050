"""Numbers as Slurm prints them: sizes with a letter, TRES lists, clocks, moments. Source: Slurm's slurm_protocol_defs, parse_time."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar

from warpdeck.notation.values.arrays import number_ranges
from warpdeck.notation.values.durations import format_clock

from .timestamps import STANDARD, Stamps

LETTERS = "\0KMGTP"
UNKNOWN = "Unknown"
MIB = 2**20
FIRST = ("cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages")
"""TRES in the order of their numbers in Slurm; others follow by name."""


def exact(number: int, letter: str = "") -> str:
    """As large a unit as says it exactly, to the half: 64000M is 62.50G, 999999M stays. `letter` is the unit of the number."""
    place = LETTERS.index(letter or "\0")
    value = float(number)
    while value >= 1024 and int(value) % 512 == 0 and value == int(value) and place < len(LETTERS) - 1:
        value /= 1024
        place += 1
    return _shown(value, place)


def rounded(number: float, letter: str = "", *, unit: str = "") -> str:
    """In the largest unit that leaves 1 or more, or in `unit` (K, M, G, T, P), with two places where it is not whole."""
    place = LETTERS.index(letter or "\0")
    value = float(number)
    if unit:
        wanted = LETTERS.index(unit)
        value *= 1024.0 ** (place - wanted)
        return _shown(value, wanted)
    while value >= 1024 and place < len(LETTERS) - 1:
        value /= 1024
        place += 1
    return _shown(value, place)


def _shown(value: float, place: int) -> str:
    letter = LETTERS[place].strip("\0")
    return f"{int(value)}{letter}" if value == int(value) else f"{value:.2f}{letter}"


def tres_text(tres: Mapping[str, int], *, none: str = "", by_name: bool = False, unit: str = "") -> str:
    """cpu=4,mem=200M,node=1,billing=4,gres/gpu=1. `by_name`: as sacct sorts them."""
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
    """00:10:00, 7-00:00:00."""
    return none if seconds is None or math.isinf(seconds) else format_clock(seconds)


_STAMPS: ContextVar[Stamps | None] = ContextVar("stamps", default=None)


@contextlib.contextmanager
def stamped(env: Mapping[str, str]) -> Iterator[Stamps | None]:
    """As long as it lasts `moment` speaks as the caller's SLURM_TIME_FORMAT has it, if there is one."""
    stamps = Stamps(env, time.time()) if env.get("SLURM_TIME_FORMAT") else None
    token = _STAMPS.set(stamps)
    try:
        yield stamps
    finally:
        _STAMPS.reset(token)


def moment(at: float | None, *, none: str = UNKNOWN) -> str:
    """2026-11-21T14:10:27 in local time, or as `stamped` says."""
    stamps = _STAMPS.get()
    if stamps is not None:
        return stamps.text(at, unknown=none)
    return none if not at else time.strftime(STANDARD, time.localtime(at))


def or_null(text: str | None) -> str:
    """What is not there is "(null)", as C's printf has it."""
    return text or "(null)"


def gpus_text(kind: str, indices: Iterable[int]) -> str:
    """gpu:a100:2(IDX:0-1): GPUs of one type on one node."""
    held = list(indices)
    return f"gpu:{kind + ':' if kind else ''}{len(held)}(IDX:{number_ranges(held) or 'N/A'})"
