"""CPU time and the kernel's part of it, as read from /proc, cgroups, wait4 and a shell's `times`."""

from __future__ import annotations

from typing import Iterable, NamedTuple


class CpuTime(NamedTuple):
    """CPU time in seconds. Of two readings of the same object, the later one is greater."""

    total_s: float = 0.0
    system_s: float = 0.0


NOTHING = CpuTime()
MOST_S = 1e12
"""An upper limit of plausible values. The output of `times` is in a file of the user, who may write anything
there.
"""


def sum_of(times: Iterable[CpuTime]) -> CpuTime:
    """Return the sum of all."""
    total_s = system_s = 0.0
    for each in times:
        total_s += each.total_s
        system_s += each.system_s
    return CpuTime(total_s, system_s)


def from_times(output: str) -> CpuTime:
    """Return the CPU time of the children from the output of a shell's `times`.

    It is the second of two lines like "0m1.20s 0m0.02s". Zero for any other text.
    """
    lines = output.splitlines()
    try:
        user_s, system_s = (_seconds(text) for text in lines[1].split())
    except (IndexError, ValueError):
        return CpuTime()
    return CpuTime(user_s + system_s, system_s)


def _seconds(text: str) -> float:
    """Parse a time like 0m1.20s; some languages write a comma. Raises ValueError."""
    minutes, _, seconds = text.strip("s").partition("m")
    spent_s = 60.0 * float(minutes) + float(seconds.replace(",", "."))
    if not 0.0 <= spent_s < MOST_S:  # also refuses a NaN, which cannot be sent in a message
        raise ValueError(f"{text} is not a time")
    return spent_s
