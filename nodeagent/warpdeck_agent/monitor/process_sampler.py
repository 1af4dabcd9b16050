"""Looks at the processes of all launches, in a thread: what each launch, step and task has spent, and has of memory.

One walk over /proc serves all. What has just begun is looked at soon, for it may end soon: then again when it is twice as old, and
so on up to PROCESSES_S. A look may take no more than a small part of the time. A peak between two looks is seen in the
kernel's own high-water mark of each process; those of several processes may have been at different times, and are not added.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import Callable, Dict, List, NamedTuple, Tuple

from warpdeck_agent.isolation import job_processes
from warpdeck_agent.isolation.job_processes import Mark
from warpdeck_agent.launch.launch import Job
from warpdeck_agent.linux.cpu_time import NOTHING, CpuTime, sum_of
from warpdeck_agent.linux.procfs import number, table
from warpdeck_agent.tasks.task import RANK_VARIABLE, STEP_VARIABLE
from warpdeck_agent.wire.messages import Key

PROCESSES_S = 10.0
"""Between two looks at what is old. A walk takes 10 us a process of the machine."""
SOON_S = 1.0
"""Between two looks at what is new: readings come no faster."""
SHARE = 50
"""A walk that took a second is followed by so many seconds without one."""
OWN = "batch"
"""The part of a launch that is outside of its steps."""

Part = Tuple[Key, str, str]
"""A launch; a step of it by its number, OWN, or "" for all of it; a rank of the step, "" for all."""


class Spent(NamedTuple):
    """What processes have spent so far, what memory they have now, and the most that one of them ever had."""

    cpu: CpuTime = NOTHING
    mem_bytes: int = 0
    largest_bytes: int = 0

    @property
    def peak_bytes(self) -> int:
        """What all of them had at some moment, at least."""
        return max(self.mem_bytes, self.largest_bytes)

    def plus(self, other: Spent) -> Spent:
        """Of both."""
        return Spent(
            sum_of((self.cpu, other.cpu)),
            self.mem_bytes + other.mem_bytes,
            max(self.largest_bytes, other.largest_bytes),
        )


class Looks:
    """One at a time. `note` hears at once what a look has found: who was seen may end before the next reading."""

    def __init__(self, note: Callable[[Dict[Part, Spent]], None]) -> None:
        self._note = note
        self._found: Dict[Part, Spent] = {}
        self._began_at = self._ended_at = -math.inf
        self._looks = False

    def take(self, running: List[Job], now: float) -> Dict[Part, Spent]:
        """What was found since this was last asked; begins another look when it is time. `now` in unix seconds."""
        found, self._found = self._found, {}
        clock = time.monotonic()
        rests = clock < self._ended_at + SHARE * (self._ended_at - self._began_at)
        if (
            running
            and not self._looks
            and not rests
            and clock >= self._began_at + pause_s(_begins(running), now)
        ):
            self._looks, self._began_at = True, clock
            marks = {job.mark: (job.key, job.has_running_steps()) for job in running}
            looking = asyncio.get_running_loop().run_in_executor(None, look, marks)
            looking.add_done_callback(self._take_found)
        return found

    def _take_found(self, looking: asyncio.Future[Dict[Part, Spent]]) -> None:
        self._looks, self._ended_at = False, time.monotonic()
        if not looking.cancelled():
            self._found = looking.result()
            self._note(self._found)


def pause_s(begins_unix: List[float], now: float) -> float:
    """From one look to the next: half as long as the youngest has run."""
    return min(PROCESSES_S, max(SOON_S, (now - max(begins_unix)) / 2))


def look(marks: Dict[Mark, Tuple[Key, bool]]) -> Dict[Part, Spent]:
    """`marks`: mark -> (launch, whether it has steps)."""
    found: Dict[Part, Spent] = {}
    for mark, pids in job_processes.marked().items():
        if mark not in marks:
            continue
        key, has_steps = marks[mark]
        for pid in pids:
            spent = spent_by(pid)
            for part in _parts(key, pid) if has_steps else [(key, "", ""), (key, OWN, "")]:
                found[part] = found.get(part, Spent()).plus(spent)
    return found


def spent_by(pid: int) -> Spent:
    """Of one process; nothing of one that is gone."""
    largest_bytes = number(table(f"/proc/{pid}/status").get("VmHWM", "")) * 1024
    return Spent(job_processes.cpu_time(pid), job_processes.resident_bytes(pid), largest_bytes)


def _begins(running: List[Job]) -> List[float]:
    """Of what runs: launches, and their steps."""
    steps = [step for job in running for step in job.steps.values() if not step.done.is_set()]
    return [job.meta.started_at for job in running] + [step.begin_unix for step in steps]


def _parts(key: Key, pid: int) -> List[Part]:
    step, rank = job_processes.numbered(pid, STEP_VARIABLE), job_processes.numbered(pid, RANK_VARIABLE)
    whole = (key, "", "")
    return [whole, (key, step, ""), (key, step, rank)] if step else [whole, (key, OWN, "")]
