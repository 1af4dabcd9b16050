"""Reads Slurm's notation of times, sizes, trackable resources and array tasks in the output of its commands.

All commands run with TZ=UTC, so that times are unambiguous.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

from warpdeck.base.errors import UserError
from warpdeck.model import Ranges
from warpdeck.notation.values.durations import parse_seconds

MIB = 1024 * 1024
_cached = lru_cache(maxsize=20_000)
"""The same times, sizes and resources occur again and again in a queue of many jobs."""
_SCALES = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4, "P": 1024**5}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)[BcnN]?")
_GPU = re.compile(r"(?:gres[/:])?gpu(?::([^:=,()]+))?[:=](\d+)")
_RANGE = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")


@_cached
def unix_time(text: str) -> float | None:
    """Return a time of the form 2026-11-27T17:52:38 as Unix seconds, or None if the text is no time."""
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


@_cached
def duration_s(text: str) -> int | None:
    """Return a duration in seconds, or None for no limit and for a text that is no duration."""
    try:
        return parse_seconds(text)
    except UserError:
        return None


def cpu_seconds(text: str) -> float:
    """Return a CPU time of sacct such as 1-02:03:04 or 02:03.456 in seconds, or 0 if the text is no time."""
    days, _, clock = text.rpartition("-")
    parts = clock.split(":")
    try:
        seconds = sum(float(part) * 60.0**power for power, part in enumerate(reversed(parts)))
        return float(seconds + 86_400 * int(days or 0))
    except ValueError:
        return 0.0


@_cached
def size_bytes(text: str, *, default_unit: str = "M") -> int:
    """Return a size such as 200M, 62.50G or 64000 in bytes, or 0 if the text is no size."""
    match = _SIZE.fullmatch(text)
    return int(float(match[1]) * _SCALES[match[2] or default_unit]) if match else 0


def tres(text: str) -> dict[str, str]:
    """Return the trackable resources of a text such as cpu=2,mem=200M,gres/gpu:a100=2."""
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)


@_cached
def gpus(text: str) -> tuple[int, str]:
    """Return the number of GPUs that a text requests or allocates, and their type if it names a single one.

    The text is a list such as gres/gpu:a100:2, gpu:2 or gres/gpu=2,gres/gpu:a100=2. An entry without a type counts
    the GPUs of all types, so it is ignored if entries with types exist.
    """
    entries = [(kind, int(count)) for kind, count in _GPU.findall(text)]
    typed = [(kind, count) for kind, count in entries if kind]
    kinds = {kind for kind, _ in typed}
    return sum(count for _, count in typed or entries), kinds.pop() if len(kinds) == 1 else ""


@_cached
def task_ranges(text: str) -> tuple[Ranges, int]:
    """Return the ranges of a list of array tasks such as 2-9%2 or 1,5,7-20:2, and the limit of running tasks (0: none).

    An incomplete last range such as "..." is left out.
    """
    listed, _, limit = text.partition("%")
    found = [_RANGE.fullmatch(part) for part in listed.split(",")]
    ranges = tuple((int(m[1]), int(m[2] or m[1]), int(m[3] or 1)) for m in found if m is not None)
    return ranges, int(limit) if limit.isdigit() else 0
