"""Keeps jobs and steps to the memory they asked for where the kernel cannot: every second that of all their processes is summed.

Resident memory counts what processes share once for each of them, so a job that seems to be over its limit is asked again
by proportional shares, which cost more to read. What a job takes and gives back between two looks is not seen; a job that is
over its limit is killed at once, before it takes the node's memory from others.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Callable, Iterable, List, Optional, Tuple

from warpdeck_agent.isolation import job_processes
from warpdeck_agent.isolation.job_processes import Mark
from warpdeck_agent.linux.procfs import number, table, text
from warpdeck_agent.tasks.task import STEP_VARIABLE

LOOK_S = 1.0
"""A look costs 10 us a process of the machine, and 10 us more for each of a watched job."""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Watched:
    """The processes of a mark, or of one step of it. `over` hears once of what is over the limit, `used` of every look."""

    mark: Mark
    limit_bytes: int
    runs: Callable[[], bool]
    used: Callable[[int], None]
    over: Callable[[int], None]
    step: str = ""


class MemoryWatch:
    """Looks for as long as there is something to be watched."""

    def __init__(self, pool: Executor) -> None:
        self._pool = pool
        self._watched: List[Watched] = []
        self._task: Optional[asyncio.Task[None]] = None

    def add(self, watched: Watched) -> None:
        """From now on."""
        self._watched.append(watched)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while self._watched:
            await asyncio.sleep(LOOK_S)
            self._watched = [each for each in self._watched if each.runs()]
            found = await loop.run_in_executor(self._pool, _measure, list(self._watched))
            for each, mem_bytes, is_over in found:
                each.used(mem_bytes)
                if is_over and each.runs():
                    self._watched.remove(each)
                    each.over(mem_bytes)


def _measure(watched: List[Watched]) -> List[Tuple[Watched, int, bool]]:
    """(what, bytes, whether that is over its limit). Runs in a thread."""
    known = job_processes.marked()
    found = []
    for each in watched:
        pids = known.get(each.mark, [])
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
