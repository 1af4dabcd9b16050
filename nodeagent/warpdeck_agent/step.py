"""One step's share of this node: its tasks, what it was given of its job, and its report."""

from __future__ import annotations

import asyncio
import os
from typing import Dict, List, Optional, Sequence, Set, Tuple

from . import groups, processes
from .cputime import CpuTime, sum_of
from .exchange import Exchange
from .hold import Hold
from .job import Job
from .metering import Meter
from .spool import Folder
from .spreads import spreads
from .tasks import Task
from .taskstarter import RANK_VARIABLE, STEP_VARIABLE
from .wire.steps import StepReport, TaskEnded

KILLED = ((0, 9), (137, 0))
"""How a task ends that was killed, or whose shell tells of what was."""
StepKey = Tuple[int, int, int]


class Step:
    """A step's share of this node. `listeners` are set whenever a task has ended."""

    def __init__(
        self, job: Job, number: int, folder: Folder, *, gpus: Sequence[str], begin_unix: float
    ) -> None:
        self.job = job
        self.gpus = tuple(gpus)
        self.begin_unix = begin_unix
        self.meter = Meter(begin_unix=begin_unix, share_pct=job.meta.gpu_share_pct)
        self.peak_mem_bytes = 0
        self.cpu = CpuTime()
        """While it runs; its tasks know it at the end."""
        self.number = number
        self.hold = job.meta.hold
        """Its job's; with a group of its own where it asked for less memory."""
        self.oom_kills = groups.oom_kills(self.hold.groups)
        """Those of the job before it began."""
        self.out_of_memory = False
        """It was found over its limit where the kernel does not see to that."""
        self.cpus: Tuple[int, ...] = ()
        """Its own of the job's; () for all."""
        self.folder = folder
        self.tasks: Dict[int, Task] = {}
        self.message = ""
        self.check = ""
        """That of the node's health that fails, where the node is to blame for the message."""
        self.failed = False
        self.started = asyncio.Event()
        self.done = asyncio.Event()
        self.listeners: Set[asyncio.Event] = set()
        self.timer: Optional[asyncio.TimerHandle] = None
        self.exchange: Optional[Exchange] = None
        self.abort: Optional[TaskEnded] = None
        self.is_ending = False
        """It was told to end: that its ranks end is no news."""

    @property
    def phase(self) -> str:
        return "exited" if self.done.is_set() else "running"

    @property
    def own_groups(self) -> List[str]:
        """Those that are not its job's."""
        return [group for group in self.hold.groups if group not in self.job.meta.hold.groups]

    def hold_in(self, hold: Hold) -> None:
        """From here on; nothing of it runs yet, or all of it does there already."""
        self.hold = hold
        if self.own_groups:
            self.oom_kills = 0

    def ran_out_of_memory(self, task: Task) -> bool:
        """Whether a task that has ended was killed for that, or what it waited for was."""
        if task.ended not in KILLED:
            return False
        return self.out_of_memory or groups.oom_kills(self.hold.groups) > self.oom_kills

    def note_memory(self, mem_bytes: int) -> None:
        """All its processes have had so much; of a task alone, that is its own."""
        self.peak_mem_bytes = max(self.peak_mem_bytes, mem_bytes)
        if len(self.tasks) == 1:
            (task,) = self.tasks.values()
            task.peak_mem_bytes = max(task.peak_mem_bytes, mem_bytes)

    def note_process(self, task: Task, mem_bytes: int) -> None:
        """A process of that task has had so much, with what it shares with others: no step of a second has been looked at more
        closely, where it has no group of its own."""
        if self.own_groups:
            return
        task.peak_mem_bytes = max(task.peak_mem_bytes, mem_bytes)
        self.peak_mem_bytes = max(self.peak_mem_bytes, task.peak_mem_bytes)

    def take_memory(self) -> None:
        """What the kernel has counted in a group of its own."""
        if own := self.own_groups:
            self.note_memory(groups.usage(own).peak_mem_bytes)

    def take_usage(self) -> None:
        """Counts what its tasks have used, now that all have ended: once."""
        if not self.done.is_set():
            self.take_memory()
            self.cpu = sum_of(task.cpu() for task in self.tasks.values())
            self.job.steps_cpu = sum_of((self.job.steps_cpu, self.cpu))

    def report(self, ends: Optional[List[TaskEnded]] = None, *, curve: bool = True) -> StepReport:
        """The agent's word on it: these ends, or all."""
        if ends is None:
            ends = [task.end() for _, task in sorted(self.tasks.items()) if task.ended is not None]
        over = self.done.is_set()
        cpu = self.cpu if over else CpuTime()
        return StepReport(
            job_id=self.job.meta.job_id,
            restarts=self.job.meta.restarts,
            step=self.number,
            phase=self.phase,
            ends=ends,
            cpu_seconds=cpu.total_s,
            system_s=cpu.system_s,
            spreads=spreads(self.tasks) if over else [],
            peak_mem_bytes=self.peak_mem_bytes if over else 0,
            gpu=self.meter.usage() if over else None,
            curve=self.meter.curve() if over and curve else None,
            message=self.message,
            check=self.check,
            abort=self.abort,
        )

    def members(self, rank: int = -1) -> List[int]:
        """The processes of the step, or of one task, less the supervisors. One walk over /proc."""
        found = self.members_by_rank()
        return found.get(rank, []) if rank >= 0 else [pid for pids in found.values() for pid in pids]

    def members_by_rank(self) -> Dict[int, List[int]]:
        """The same, task by task."""
        supervisors = self.job.step_supervisors()
        found: Dict[int, List[int]] = {}
        for pid in processes.marked().get(self.job.mark, ()):
            if pid in supervisors or processes.variable(pid, STEP_VARIABLE) != str(self.number):
                continue
            rank = processes.numbered(pid, RANK_VARIABLE)
            found.setdefault(int(rank) if rank else -1, []).append(pid)
        return found


def step_folder(job: Job, number: int) -> str:
    """Where a step's files are."""
    return os.path.join(job.folder.path, "steps", str(number))
