"""Amounts as Slurm prints them: 2G, 1536M, 62.50G, and lists of trackable resources: cpu=2,mem=200M,node=1,billing=2."""

from __future__ import annotations

from collections.abc import Mapping

MIB = 2**20
_UNITS = "MGTPE"
_ORDER = ("cpu", "mem", "node", "billing")
"""Of the resources that every job has; GPUs and licences follow."""


def megabytes(size: int, *, convert: bool = True) -> str:
    """So many MiB, in the largest unit that holds them exactly; `convert` False leaves them MiB (--noconvert)."""
    unit = 0
    while convert and size and size % 1024 == 0 and unit < len(_UNITS) - 1:
        size //= 1024
        unit += 1
    return f"{size}{_UNITS[unit]}"


def rounded(size_mib: float) -> str:
    """So many MiB in the largest unit that makes one of them, with two digits where they are needed: 62.50G."""
    unit = 0
    while size_mib >= 1024 and unit < len(_UNITS) - 1:
        size_mib /= 1024
        unit += 1
    number = str(int(size_mib)) if size_mib == int(size_mib) else f"{size_mib:.2f}"
    return number + _UNITS[unit]


def tres_text(counts: Mapping[str, int]) -> str:
    """As in TRES_ALLOC; what is 0 is left out, memory is in MiB."""
    names = [*_ORDER, *(name for name in counts if name not in _ORDER)]
    words = (
        f"{name}={rounded(counts[name]) if name == 'mem' else counts[name]}"
        for name in names
        if counts.get(name)
    )
    return ",".join(words)
