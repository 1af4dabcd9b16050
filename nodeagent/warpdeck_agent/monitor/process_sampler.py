"""Samples the processes of all launches, in a thread: CPU time and memory of each launch, step and task.

One walk over /proc serves all launches. A launch or step that has just begun is sampled soon, because it may
end soon, and again when it is twice as old, and so on up to MAX_PAUSE_S. Walks may only take a small part of
the time. The memory peak between two walks is read from the kernel's high-water mark of each process. The
peaks of several processes may have been at different times, so they are not added.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import Callable, Dict, List, NamedTuple, Tuple

from warpdeck_agent.isolation import job_processes
from warpdeck_agent.isolation.job_processes import JobTag
from warpdeck_agent.launch.launch import LocalLaunch
from warpdeck_agent.linux.cpu_time import NOTHING, CpuTime, sum_of
from warpdeck_agent.linux.procfs import number, table
from warpdeck_agent.tasks.task import RANK_VARIABLE, STEP_VARIABLE
from warpdeck_agent.wire.messages import Key

MAX_PAUSE_S = 10.0
"""Interval in seconds between walks when all launches are old. A walk takes 10 us for each process of the
machine.
"""
MIN_PAUSE_S = 1.0
"""Shortest interval in seconds between walks. Readings are no more frequent."""
PAUSE_FACTOR = 50
"""A walk that took one second is followed by this many seconds without one."""
OUTSIDE_STEPS = "batch"
"""The part of a launch outside of its steps."""

Part = Tuple[Key, str, str]
"""(launch, step, rank). The step is its number, OWN, or "" for the whole launch. The rank is "" for the whole
step.
"""


class SampledUsage(NamedTuple):
    """The usage of some processes.

    It has their CPU time so far, their present memory, and the peak memory of the largest one of them.
    """

    cpu: CpuTime = NOTHING
    mem_bytes: int = 0
    largest_bytes: int = 0

    @property
    def peak_bytes(self) -> int:
        """A lower bound of the largest total memory at one time."""
        return max(self.mem_bytes, self.largest_bytes)

    def plus(self, other: SampledUsage) -> SampledUsage:
        """Return the sum of both."""
        return SampledUsage(
            sum_of((self.cpu, other.cpu)),
            self.mem_bytes + other.mem_bytes,
            max(self.largest_bytes, other.largest_bytes),
        )


class ProcessSampler:
    """Runs one walk at a time.

    `note` gets the result at once, because a process may end before the next reading.
    """

    def __init__(self, note: Callable[[Dict[Part, SampledUsage]], None]) -> None:
        self._note = note
        self._found: Dict[Part, SampledUsage] = {}
        self._began_at = self._ended_at = -math.inf
        self._is_walking = False

    def take(self, running: List[LocalLaunch], now: float) -> Dict[Part, SampledUsage]:
        """Return the results since the last call, and start another walk when it is due.

        `now` is in unix seconds.
        """
        found, self._found = self._found, {}
        clock = time.monotonic()
        is_resting = clock < self._ended_at + PAUSE_FACTOR * (self._ended_at - self._began_at)
        if (
            running
            and not self._is_walking
            and not is_resting
            and clock >= self._began_at + pause_s(_begins(running), now)
        ):
            self._is_walking, self._began_at = True, clock
            parts_by_tag = {
                launch.processes.tag: (launch.key, launch.has_running_steps()) for launch in running
            }
            walk = asyncio.get_running_loop().run_in_executor(None, sample_processes, parts_by_tag)
            walk.add_done_callback(self._take_found)
        return found

    def _take_found(self, walk: asyncio.Future[Dict[Part, SampledUsage]]) -> None:
        self._is_walking, self._ended_at = False, time.monotonic()
        if not walk.cancelled():
            self._found = walk.result()
            self._note(self._found)


def pause_s(begins_unix: List[float], now: float) -> float:
    """Return the time in seconds from one walk to the next.

    It is half the age of the youngest launch or step, within limits.
    """
    return min(MAX_PAUSE_S, max(MIN_PAUSE_S, (now - max(begins_unix)) / 2))


def sample_processes(parts_by_tag: Dict[JobTag, Tuple[Key, bool]]) -> Dict[Part, SampledUsage]:
    """Walk over /proc and return the usage by part. `parts_by_tag` is {job tag: (launch, whether it has steps)}."""
    found: Dict[Part, SampledUsage] = {}
    for tag, pids in job_processes.pids_by_job_tag().items():
        if tag not in parts_by_tag:
            continue
        key, has_steps = parts_by_tag[tag]
        for pid in pids:
            spent = usage_of_process(pid)
            for part in _parts(key, pid) if has_steps else [(key, "", ""), (key, OUTSIDE_STEPS, "")]:
                found[part] = found.get(part, SampledUsage()).plus(spent)
    return found


def usage_of_process(pid: int) -> SampledUsage:
    """Return the usage of one process; zeros if it is gone."""
    largest_bytes = number(table(f"/proc/{pid}/status").get("VmHWM", "")) * 1024
    return SampledUsage(job_processes.cpu_time(pid), job_processes.resident_bytes(pid), largest_bytes)


def _begins(running: List[LocalLaunch]) -> List[float]:
    """Return the start times of running launches and steps."""
    steps = [step for launch in running for step in launch.steps.values() if not step.is_done]
    return [launch.meta.started_at for launch in running] + [step.begin_unix for step in steps]


def _parts(key: Key, pid: int) -> List[Part]:
    step, rank = (
        job_processes.numeric_variable(pid, STEP_VARIABLE),
        job_processes.numeric_variable(pid, RANK_VARIABLE),
    )
    whole = (key, "", "")
    return [whole, (key, step, ""), (key, step, rank)] if step else [whole, (key, OUTSIDE_STEPS, "")]
