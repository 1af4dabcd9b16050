"""The groups that one launch is held in: a folder in each cgroup hierarchy that we use. They are known by their paths alone.

What a path can do follows from the files in it, so a restarted agent needs nothing else, whatever hierarchies it finds
itself. All of a launch's groups hold the same processes.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, replace
from typing import List, Sequence, Tuple

from .procfs import number, table, text, write

KILL_ROUNDS = 20
"""How often a group without cgroup.kill is read and killed. It may not fork meanwhile, where it has a pids controller."""
NO_LIMIT_BYTES = 2**62
"""v1 shows about 2**63 where there is no limit."""
FILE_PAGES = ("inactive_file", "active_file")
"""Of memory.stat: what of files the kernel keeps because nobody else wants the memory. v1 has them with children as total_."""


@dataclass(frozen=True)
class Usage:
    """What a launch has used; zeros where the kernel does not say. `oom_kills`: processes killed for their memory. The peak
    is without what the kernel still keeps of files that were read or written; where processes were killed, it is all there was."""

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
    """What the kernel has counted. Only files that the group's hierarchy can have are asked for: it is read at every end."""
    found = Usage()
    for group in groups:
        spent = table(os.path.join(group, "cpu.stat"))
        if spent:  # v2
            found = replace(found, cpu_seconds=number(spent.get("usage_usec", "")) / 1e6)
            found = _memory(found, group, ("memory.peak", "memory.max", "memory.events"))
        elif not found.limit_bytes:
            found = _memory(
                found, group, ("memory.max_usage_in_bytes", "memory.limit_in_bytes", "memory.oom_control")
            )
        if not found.cpu_seconds:
            found = replace(found, cpu_seconds=number(_file(group, "cpuacct.usage")) / 1e9)
    return found


def _memory(found: Usage, group: str, names: Tuple[str, str, str]) -> Usage:
    """With what the group's memory controller says, if it has one. v2 has no peak before Linux 5.19."""
    peak, limit, events = names
    limit_words = _file(group, limit)
    if not limit_words:
        return found
    limit_bytes, peak_bytes = number(limit_words), number(_file(group, peak))
    oom_kills = number(table(os.path.join(group, events)).get("oom_kill", ""))
    return replace(
        found,
        peak_mem_bytes=peak_bytes if oom_kills else max(0, peak_bytes - _file_bytes(group)),
        limit_bytes=limit_bytes if limit_bytes < NO_LIMIT_BYTES else 0,
        oom_kills=oom_kills,
    )


def _file_bytes(group: str) -> int:
    stat = table(os.path.join(group, "memory.stat"))
    return sum(number(stat.get(f"total_{each}", "") or stat.get(each, "")) for each in FILE_PAGES)


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
