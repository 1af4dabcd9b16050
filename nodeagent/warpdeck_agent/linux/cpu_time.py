"""CPU time, and how much of it the kernel spent: as /proc, the groups, wait4 and a shell's `times` tell it."""

from __future__ import annotations

from typing import Iterable, NamedTuple


class CpuTime(NamedTuple):
    """Seconds. Of two readings of the same thing the later is the greater one."""

    total_s: float = 0.0
    system_s: float = 0.0


NOTHING = CpuTime()
MOST_S = 1e12
"""More than any processes spend. What `times` says stands in a file of a user's, who may write anything there."""


def sum_of(times: Iterable[CpuTime]) -> CpuTime:
    """Of all together."""
    total_s = system_s = 0.0
    for each in times:
        total_s += each.total_s
        system_s += each.system_s
    return CpuTime(total_s, system_s)


def from_times(words: str) -> CpuTime:
    """The children's in the output of a shell's `times`: the second of two lines "0m1.20s 0m0.02s"; none for anything else."""
    lines = words.splitlines()
    try:
        user_s, system_s = (_seconds(word) for word in lines[1].split())
    except (IndexError, ValueError):
        return CpuTime()
    return CpuTime(user_s + system_s, system_s)


def _seconds(word: str) -> float:
    """Of 0m1.20s; some languages write a comma. Raises ValueError."""
    minutes, _, seconds = word.strip("s").partition("m")
    spent_s = 60.0 * float(minutes) + float(seconds.replace(",", "."))
    if not 0.0 <= spent_s < MOST_S:  # nor a NaN, which no message takes
        raise ValueError(f"{word} is no time")
    return spent_s
