"""Enforces the memory limits of jobs and steps if the kernel cannot.

The memory of all their processes is summed every second. Resident memory counts shared memory once for each
process. So if a job seems to exceed its limit, it is measured again by proportional shares, which are more
expensive to read. Memory that a job allocates and frees between two checks is not seen. A job that exceeds
its limit is killed at once, before it takes memory from other jobs.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Callable, Iterable, List, Optional, Tuple

from warpdeck_agent.isolation import job_processes
from warpdeck_agent.isolation.job_processes import JobTag
from warpdeck_agent.linux.procfs import number, table, text
from warpdeck_agent.tasks.task import STEP_VARIABLE

CHECK_S = 1.0
"""Interval in seconds between checks. A check costs 10 us for each process of the machine, and another 10 us for
each process of a watched job.
"""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class WatchedProcesses:
    """The processes with one job tag, or of one step among them.

    `over` is called once when the limit is exceeded, `used` at every check.
    """

    tag: JobTag
    limit_bytes: int
    runs: Callable[[], bool]
    used: Callable[[int], None]
    over: Callable[[int], None]
    step: str = ""


class MemoryWatch:
    """Checks memory as long as there is anything to watch."""

    def __init__(self, pool: Executor) -> None:
        self._pool = pool
        self._watched: List[WatchedProcesses] = []
        self._task: Optional[asyncio.Task[None]] = None

    def add(self, watched: WatchedProcesses) -> None:
        """Start to watch the memory of these processes."""
        self._watched.append(watched)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while self._watched:
            await asyncio.sleep(CHECK_S)
            self._watched = [each for each in self._watched if each.runs()]
            found = await loop.run_in_executor(self._pool, _measure, list(self._watched))
            for each, mem_bytes, is_over in found:
                each.used(mem_bytes)
                if is_over and each.runs():
                    self._watched.remove(each)
                    each.over(mem_bytes)


def _measure(watched: List[WatchedProcesses]) -> List[Tuple[WatchedProcesses, int, bool]]:
    """Return (the watched processes, the bytes they use, whether these exceed the limit). Runs in a thread."""
    known = job_processes.pids_by_job_tag()
    found = []
    for each in watched:
        pids = known.get(each.tag, [])
        if each.step:
            pids = [pid for pid in pids if job_processes.variable(pid, STEP_VARIABLE) == each.step]
        mem_bytes = sum(map(_resident, pids))
        if mem_bytes > each.limit_bytes:
            mem_bytes = _proportional(pids)
        found.append((each, mem_bytes, mem_bytes > each.limit_bytes))
    return found


def _resident(pid: int) -> int:
    fields = text(f"/proc/{pid}/statm").split()
    return int(fields[1]) * PAGE_BYTES if len(fields) > 1 else 0


def _proportional(pids: Iterable[int]) -> int:
    return sum(
        number(table(f"/proc/{pid}/smaps_rollup").get("Pss", "")) * 1024 or _resident(pid) for pid in pids
    )
