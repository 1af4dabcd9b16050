"""The groups that one launch is held in: a folder in each cgroup hierarchy that we use. They are known by their paths alone.

What a path can do follows from the files in it, so a restarted agent needs nothing else, whatever hierarchies it finds
itself. All of a launch's groups hold the same processes.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import List, Sequence

from .cgroups import write
from .procfs import number, table, text

KILL_ROUNDS = 20
"""How often a group without cgroup.kill is read and killed. It may not fork meanwhile, where it has a pids controller."""
NO_LIMIT_BYTES = 2**62
"""v1 shows about 2**63 where there is no limit."""


@dataclass(frozen=True)
class Usage:
    """What a launch has used; zeros where the kernel does not say. `oom_kills`: processes killed for their memory."""

    peak_mem_bytes: int = 0
    cpu_seconds: float = 0.0
    oom_kills: int = 0
    limit_bytes: int = 0


def join(groups: Sequence[str], pid: int) -> bool:
    """Puts a process into each group. False where it is in none: then its mark alone holds it."""
    joined = False
    for group in groups:
        try:
            write(os.path.join(group, "cgroup.procs"), str(pid))
            joined = True
        except OSError:
            continue
    return joined


def pids(groups: Sequence[str]) -> List[int]:
    """The processes in the groups."""
    found: List[int] = []
    for group in groups[:1]:
        found += [int(line) for line in text(os.path.join(group, "cgroup.procs")).split()]
    return found


def kill(groups: Sequence[str]) -> None:
    """Ends every process of the groups, and whatever they fork meanwhile."""
    for group in groups:
        if _written(os.path.join(group, "cgroup.kill"), "1"):
            return
    for group in groups:
        _written(os.path.join(group, "pids.max"), "0")
    for _ in range(KILL_ROUNDS):
        left = pids(groups)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if not left:
            return


def usage(groups: Sequence[str]) -> Usage:
    """What the kernel has counted."""
    peak = limit = kills = 0
    cpu_s = 0.0
    for group in groups:
        peak = (
            peak or number(_file(group, "memory.peak")) or number(_file(group, "memory.max_usage_in_bytes"))
        )
        limit = limit or number(_file(group, "memory.max")) or number(_file(group, "memory.limit_in_bytes"))
        for events in ("memory.events", "memory.oom_control"):
            kills = kills or number(table(os.path.join(group, events)).get("oom_kill", ""))
        spent_us = number(table(os.path.join(group, "cpu.stat")).get("usage_usec", ""))
        cpu_s = cpu_s or spent_us / 1e6 or number(_file(group, "cpuacct.usage")) / 1e9
    return Usage(peak, cpu_s, kills, limit if limit < NO_LIMIT_BYTES else 0)


def remove(groups: Sequence[str]) -> bool:
    """Removes empty groups; False if one is left because something in it still dies."""
    gone = True
    for group in groups:
        try:
            os.rmdir(group)
        except FileNotFoundError:
            continue
        except OSError:
            gone = False
    return gone


def _file(group: str, name: str) -> str:
    return text(os.path.join(group, name))


def _written(path: str, words: str) -> bool:
    try:
        write(path, words)
    except OSError:
        return False
    return True
