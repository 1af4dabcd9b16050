"""The groups that one launch is held in: a folder in each cgroup hierarchy that we use. They are known by their paths alone.

What a path can do follows from the files in it, so a restarted agent needs nothing else, whatever hierarchies it finds
itself. All of a launch's groups hold the same processes.
"""

from __future__ import annotations

import errno
import os
import re
import signal
from typing import Dict, FrozenSet, List, NamedTuple, Optional, Pattern, Sequence

from warpdeck_agent.linux.cpu_time import NOTHING, CpuTime
from warpdeck_agent.linux.procfs import entry, number, piece, text, write

KILL_ROUNDS = 20
"""How often a group without cgroup.kill is read and killed. It may not fork meanwhile, where it has a pids controller."""
NO_LIMIT_BYTES = 2**62
"""v1 shows about 2**63 where there is no limit."""
_OWN_FILE_PAGES = re.compile(r"^(?:in)?active_file (\d+)$", re.MULTILINE)
_ALL_FILE_PAGES = re.compile(r"^total_(?:in)?active_file (\d+)$", re.MULTILINE)
"""Of memory.stat: what of files the kernel keeps because nobody else wants the memory. v1 has them with children as total_."""
FEW_BYTES = 1 << 20
"""Where a group has less than this at its end, it is not worth a look at what of it the kernel keeps of files."""
MOST_KNOWN = 64
"""Folders of groups of which it is remembered which files their groups have."""


class MemoryFiles(NamedTuple):
    """What the files of a memory controller are called."""

    now: str
    peak: str
    limit: str
    swap_limit: str
    events: str


V1 = MemoryFiles(
    "memory.usage_in_bytes",
    "memory.max_usage_in_bytes",
    "memory.limit_in_bytes",
    "memory.memsw.limit_in_bytes",
    "memory.oom_control",
)
V2 = MemoryFiles("memory.current", "memory.peak", "memory.max", "memory.swap.max", "memory.events")
REST = "rest"
"""The group below a launch's in which all of it is that has no group of its own, where that may not be beside them (v2)."""
NO_GROUPS_BELOW = 2
"""Links of a group's folder."""


class Usage(NamedTuple):
    """What a launch has used; zeros where the kernel does not say. `oom_kills`: processes killed for their memory; without any
    the limit is not told. The peak is without what the kernel still keeps of files that were read or written; where processes
    were killed, it is all there was. `left_mem_bytes`: what is charged to its group now, or a little more."""

    peak_mem_bytes: int = 0
    oom_kills: int = 0
    limit_bytes: int = 0
    left_mem_bytes: int = 0
    cpu: CpuTime = NOTHING


def join(groups: Sequence[str], pid: int) -> bool:
    """Puts a process into each group. False where it is in none: then its mark alone holds it."""
    joined = False
    for group in groups:
        try:
            write(f"{group}/cgroup.procs", str(pid))
            joined = True
        except OSError as error:
            joined |= error.errno == errno.EBUSY and _written(f"{group}/{REST}/cgroup.procs", str(pid))
    return joined


def pids(groups: Sequence[str]) -> List[int]:
    """The processes in the groups."""
    found: List[int] = []
    for group in [each for first in groups[:1] for each in (first, *below(first))]:
        found += [int(line) for line in text(f"{group}/cgroup.procs").split()]
    return found


def below(group: str) -> List[str]:
    """The groups in one that may be divided: by its memory alone."""
    try:
        if memory_files(group) is None or os.stat(group).st_nlink <= NO_GROUPS_BELOW:
            return []
        return [entry.path for entry in os.scandir(group) if entry.is_dir()]
    except OSError:
        return []


def memory_files(group: str) -> Optional[MemoryFiles]:
    """None where the group has no memory controller."""
    return V2 if has(group, V2.limit) else V1 if has(group, V1.limit) else None


def limit_memory(group: str, names: MemoryFiles, mem_bytes: int) -> None:
    """So much, and none of the swap beside it where the kernel counts that. Raises OSError."""
    write(f"{group}/{names.limit}", str(mem_bytes))
    _written(f"{group}/{names.swap_limit}", "0" if names is V2 else str(mem_bytes))


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


def has(group: str, name: str) -> bool:
    """Whether such a group has that file."""
    return name in _files(group)


def _files(group: str) -> FrozenSet[str]:
    """The names in such a group: asked at every end, they must not cost a look for each that is not there."""
    folder = group.rpartition("/")[0]
    files = _FILES.get(folder)
    if files is None:
        try:
            files = frozenset(os.listdir(group))
        except OSError:
            return frozenset()
        if len(_FILES) >= MOST_KNOWN:
            _FILES.clear()
        _FILES[folder] = files
    return files


_FILES: Dict[str, FrozenSet[str]] = {}
"""By the folder of a group: all groups of a hierarchy have the same, but for its root."""


def usage(groups: Sequence[str]) -> Usage:
    """What the kernel has counted. Only files that the group's hierarchy has are asked for: it is read at every end."""
    cpu, memory = CpuTime(), Usage()
    for group in groups:
        files = _files(group)
        if "cgroup.controllers" in files:  # v2
            cpu = cpu if cpu.total_s else _cpu_v2(group)
            if V2.limit in files:
                memory = _memory(group, V2)
        elif V1.limit in files:
            memory = _memory(group, V1)
        if not cpu.total_s and "cpuacct.usage" in files:
            cpu = _cpu_v1(group)
    return memory._replace(cpu=cpu)


def oom_kills(groups: Sequence[str]) -> int:
    """How many processes of the groups the kernel has killed for their memory."""
    for group in groups:
        names = memory_files(group)
        if names is not None:
            return _oom_kills(group, names)
    return 0


def _oom_kills(group: str, names: MemoryFiles) -> int:
    """In the group, without those in groups of its steps: v2 counts them for all groups above too."""
    files = [f"{group}/{names.events}"]
    if names is V2 and below(group):
        files = [f"{group}/{names.events}.local", f"{group}/{REST}/{names.events}"]
    return sum(entry(piece(file), "oom_kill") for file in files)


def _cpu_v2(group: str) -> CpuTime:
    stat = piece(f"{group}/cpu.stat")
    return CpuTime(entry(stat, "usage_usec") / 1e6, entry(stat, "system_usec") / 1e6)


def _cpu_v1(group: str) -> CpuTime:
    return CpuTime(
        *(number(piece(f"{group}/{name}")) / 1e9 for name in ("cpuacct.usage", "cpuacct.usage_sys"))
    )


def _memory(group: str, names: MemoryFiles) -> Usage:
    """What the group's memory controller says. v2 has no peak before Linux 5.19. The limit is asked for where it was in the way."""
    peak_bytes = number(piece(f"{group}/{names.peak}"))
    # What it has now is no more than its peak, where there is one.
    now_bytes = peak_bytes if 0 < peak_bytes < FEW_BYTES else number(piece(f"{group}/{names.now}"))
    oom_kills = _oom_kills(group, names)
    if not oom_kills:
        kept_bytes = _file_bytes(group) if now_bytes >= FEW_BYTES else 0
        return Usage(max(0, peak_bytes - kept_bytes), left_mem_bytes=now_bytes)
    limit_bytes = number(piece(f"{group}/{names.limit}"))
    return Usage(
        peak_mem_bytes=peak_bytes,
        oom_kills=oom_kills,
        limit_bytes=limit_bytes if limit_bytes < NO_LIMIT_BYTES else 0,
        left_mem_bytes=now_bytes,
    )


def _file_bytes(group: str) -> int:
    stat = piece(f"{group}/memory.stat")
    return _sum(_ALL_FILE_PAGES, stat) or _sum(_OWN_FILE_PAGES, stat)


def _sum(lines: Pattern[str], stat: str) -> int:
    return sum(map(int, lines.findall(stat)))


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


def remove_whole(groups: Sequence[str]) -> bool:
    """The same of launches' groups, with those of their steps."""
    gone = [remove([group]) or (remove(below(group)) and remove([group])) for group in groups]
    return all(gone)


def _written(path: str, words: str) -> bool:
    try:
        write(path, words)
    except OSError:
        return False
    return True
