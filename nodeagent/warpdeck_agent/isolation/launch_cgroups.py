"""The cgroups of one launch: a folder in each cgroup hierarchy that we use.

A cgroup is identified by the path of its folder alone. The files in the folder show what the cgroup supports. So
a restarted agent needs only the paths, whatever hierarchies it finds. All of a launch's cgroups hold the same
processes.
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
"""Number of rounds of reading and killing a cgroup without the file cgroup.kill. With a pids controller, its
processes cannot fork meanwhile.
"""
NO_LIMIT_BYTES = 2**62
"""v1 shows about 2**63 if there is no limit."""
_OWN_FILE_PAGES = re.compile(r"^(?:in)?active_file (\d+)$", re.MULTILINE)
_ALL_FILE_PAGES = re.compile(r"^total_(?:in)?active_file (\d+)$", re.MULTILINE)
"""Lines of memory.stat with the size of the page cache of files. The kernel keeps this cache only as long as the
memory is not needed otherwise. In v1, the lines that include child cgroups begin with total_.
"""
FEW_BYTES = 1 << 20
"""If a cgroup has less memory than this when its launch ends, the size of its page cache is not read."""
MOST_KNOWN = 64
"""The most parent folders of cgroups for which the file names are cached."""


class MemoryFiles(NamedTuple):
    """The names of the files of a memory controller."""

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
"""In v2, the child of a launch's cgroup for all processes that are in no step's cgroup. They may not stay in the
launch's cgroup itself once that has children with controllers.
"""
NO_GROUPS_BELOW = 2
"""Number of links of the folder of a cgroup without children."""


class CgroupUsage(NamedTuple):
    """The usage of a launch; zeros where the kernel does not report a value.

    `oom_kills` is the number of processes that were killed for lack of memory. If it is 0, the limit is not read,
    and the peak excludes the page cache of files that were read or written. Otherwise the peak includes this
    cache. `left_mem_bytes` is the memory that is charged to the cgroup now, or a little more.
    """

    peak_mem_bytes: int = 0
    oom_kills: int = 0
    limit_bytes: int = 0
    left_mem_bytes: int = 0
    cpu: CpuTime = NOTHING


def join(groups: Sequence[str], pid: int) -> bool:
    """Put a process into each cgroup.

    Returns False if no cgroup has accepted it; then only its job tag identifies it.
    """
    joined = False
    for group in groups:
        try:
            write(f"{group}/cgroup.procs", str(pid))
            joined = True
        except OSError as error:
            joined |= error.errno == errno.EBUSY and _written(f"{group}/{REST}/cgroup.procs", str(pid))
    return joined


def pids(groups: Sequence[str]) -> List[int]:
    """Return the pids of the processes in the cgroups and their child cgroups."""
    found: List[int] = []
    for group in [each for first in groups[:1] for each in (first, *below(first))]:
        found += [int(line) for line in text(f"{group}/cgroup.procs").split()]
    return found


def below(group: str) -> List[str]:
    """Return the child cgroups. Only a cgroup with a memory controller may have any."""
    try:
        if memory_files(group) is None or os.stat(group).st_nlink <= NO_GROUPS_BELOW:
            return []
        return [entry.path for entry in os.scandir(group) if entry.is_dir()]
    except OSError:
        return []


def memory_files(group: str) -> Optional[MemoryFiles]:
    """Return the names of the memory controller's files, or None if the cgroup has no memory controller."""
    return V2 if has(group, V2.limit) else V1 if has(group, V1.limit) else None


def limit_memory(group: str, names: MemoryFiles, mem_bytes: int) -> None:
    """Limit the memory to `mem_bytes`, with no swap in addition if the kernel counts swap. Raises OSError."""
    write(f"{group}/{names.limit}", str(mem_bytes))
    _written(f"{group}/{names.swap_limit}", "0" if names is V2 else str(mem_bytes))


def kill(groups: Sequence[str]) -> None:
    """Kill every process of the cgroups, and all processes that they fork meanwhile."""
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
    """Return whether a cgroup in this hierarchy has that file."""
    return name in _files(group)


def _files(group: str) -> FrozenSet[str]:
    """Return the file names of a cgroup in this hierarchy.

    They are cached, because they are needed at every end, and a system call for each missing file would be
    too slow.
    """
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
"""File names by parent folder: all cgroups of a hierarchy have the same files, except its root."""


def usage(groups: Sequence[str]) -> CgroupUsage:
    """Return the usage that the kernel has counted.

    It reads only existing files, because it is called at every end.
    """
    cpu, memory = CpuTime(), CgroupUsage()
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
    """Return how many processes of the cgroups the kernel has killed for lack of memory."""
    for group in groups:
        names = memory_files(group)
        if names is not None:
            return _oom_kills(group, names)
    return 0


def _oom_kills(group: str, names: MemoryFiles) -> int:
    """Count the kills in the cgroup itself, without the cgroups of its steps.

    v2 would count the kills of children as well.
    """
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


def _memory(group: str, names: MemoryFiles) -> CgroupUsage:
    """Read the memory controller's values. v2 has no peak before Linux 5.19.

    The limit is only read if a process was killed.
    """
    peak_bytes = number(piece(f"{group}/{names.peak}"))
    # The present usage is at most the peak, so a small peak replaces it.
    now_bytes = peak_bytes if 0 < peak_bytes < FEW_BYTES else number(piece(f"{group}/{names.now}"))
    oom_kills = _oom_kills(group, names)
    if not oom_kills:
        kept_bytes = _file_bytes(group) if now_bytes >= FEW_BYTES else 0
        return CgroupUsage(max(0, peak_bytes - kept_bytes), left_mem_bytes=now_bytes)
    limit_bytes = number(piece(f"{group}/{names.limit}"))
    return CgroupUsage(
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
    """Remove empty cgroups. Returns False if one stays because a process in it is still dying."""
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
    """Remove the cgroups of launches together with those of their steps. Returns False if one stays."""
    gone = [remove([group]) or (remove(below(group)) and remove([group])) for group in groups]
    return all(gone)


def _written(path: str, value: str) -> bool:
    try:
        write(path, value)
    except OSError:
        return False
    return True
