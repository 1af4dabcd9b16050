"""Keeps jobs to the memory they asked for where the kernel cannot: every second the memory of all their processes is summed.

Resident memory counts what processes share once for each of them, so a job that seems to be over its limit is asked again
by proportional shares, which cost more to read. What a job takes and gives back between two looks is not seen; a job that is
over its limit is killed at once, before it takes the node's memory from others.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import Executor
from typing import Callable, Dict, Iterable, List, Optional, Tuple

from . import processes
from .job import Job
from .procfs import number, table, text

LOOK_S = 1.0
"""A look costs 10 us a process of the machine, and 10 us more for each of a watched job."""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class MemoryWatch:
    """Calls `over` with a job and how many bytes it has, once."""

    def __init__(self, pool: Executor, over: Callable[[Job, int], None]) -> None:
        self._pool = pool
        self._over = over
        self._watched: List[Job] = []
        self._task: Optional[asyncio.Task[None]] = None

    def add(self, job: Job) -> None:
        """From now on, if the kernel does not see to its limit."""
        if not job.meta.hold.watch_mem_bytes:
            return
        self._watched.append(job)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while self._watched:
            await asyncio.sleep(LOOK_S)
            self._watched = [job for job in self._watched if job.phase == "running"]
            used = await loop.run_in_executor(self._pool, _measure, list(self._watched))
            for job, mem_bytes, is_over in used:
                job.peak_mem_bytes = max(job.peak_mem_bytes, mem_bytes)
                if is_over and job.phase == "running" and not job.cause:
                    self._over(job, mem_bytes)


def _measure(jobs: List[Job]) -> List[Tuple[Job, int, bool]]:
    """(job, bytes, whether that is over its limit). Runs in a thread."""
    known: Dict[str, List[int]] = processes.marked()
    found = []
    for job in jobs:
        pids = known.get(job.mark, [])
        mem_bytes, limit = sum(map(_resident, pids)), job.meta.hold.watch_mem_bytes
        if mem_bytes > limit:
            mem_bytes = _proportional(pids)
        found.append((job, mem_bytes, mem_bytes > limit))
    return found


def _resident(pid: int) -> int:
    fields = text(f"/proc/{pid}/statm").split()
    return int(fields[1]) * PAGE_BYTES if len(fields) > 1 else 0


def _proportional(pids: Iterable[int]) -> int:
    return sum(
        number(table(f"/proc/{pid}/smaps_rollup").get("Pss", "")) * 1024 or _resident(pid) for pid in pids
    )
