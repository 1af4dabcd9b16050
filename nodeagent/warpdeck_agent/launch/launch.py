"""A launch in memory: what the agent knows of it, and its word on it."""

from __future__ import annotations

import asyncio
import os
from typing import Dict, List, Optional, Sequence, Set, Tuple

from warpdeck_agent.isolation import job_processes, launch_cgroups
from warpdeck_agent.isolation.hold import Hold
from warpdeck_agent.linux.cpu_time import CpuTime, sum_of
from warpdeck_agent.metrics.metering import Meter
from warpdeck_agent.storage.spool import Folder, LaunchFolder, Meta
from warpdeck_agent.tasks.per_task_spread import spreads
from warpdeck_agent.tasks.pmi_exchange import Exchange
from warpdeck_agent.tasks.task import RANK_VARIABLE, STEP_VARIABLE, Task
from warpdeck_agent.wire.messages import JobReport, Key, OwnUse
from warpdeck_agent.wire.steps import StepReport, TaskEnded

from .time_limit import TimeLimit

KILLED = ((0, 9), (137, 0))
"""How a task ends that was killed, or whose shell tells of what was."""
StepKey = Tuple[int, int, int]


class Job:
    """`phase`: running, ending (its supervisor has ended, how is not read yet), exited or lost."""

    def __init__(self, folder: LaunchFolder, meta: Meta, *, agent: str) -> None:
        self.folder = folder
        self.meta = meta
        launch = job_processes.launch_name(meta.job_id, meta.restarts, agent=agent)
        self.mark = job_processes.Mark(launch, meta.token, meta.uid)
        self.phase = "running"
        self.ended_at = 0.0
        self.status: Tuple[int, int] = (0, 0)
        self.message = ""
        self.cause = ""
        self.drain = ""
        self.last_words: Optional[asyncio.Future[None]] = None
        """Done when its standard error says why it ends."""
        self.is_out = False
        """Nothing of it is left on the node: its place is another's."""
        self.is_followed = False
        """And the other has it: a launch that was handed ahead of time."""
        self.peak_mem_bytes = 0
        self.cpu = CpuTime()
        self.own_cpu = CpuTime()
        self.own_peak_mem_bytes = 0
        """These two without what its steps have used."""
        self.steps_cpu = CpuTime()
        """Of its steps that have ended."""
        self.limit: Optional[TimeLimit] = None
        self.meter = Meter(begin_unix=meta.started_at, share_pct=meta.gpu_share_pct)
        self.done = asyncio.Event()
        self.grace_until = 0.0
        """Of one that is being ended: when its grace time is over, on the monotonic clock."""
        self.steps: Dict[int, Step] = {}
        self.had_steps = False
        self.may_have_ungrouped = False
        """Of a share without a process of its own: tasks of steps may have begun outside its groups."""
        self._callers: Dict[int, int] = {}
        """Its processes that talk to the controller, and over how many connections: signals are for what they started, and reach
        that by itself."""

    @property
    def key(self) -> Key:
        return self.meta.job_id, self.meta.restarts

    def output(self, channel: str) -> str:
        """The file that holds this channel."""
        kept = self.meta.stdout if channel == "out" else self.meta.stderr or self.meta.stdout
        return kept or self.folder.file("out" if channel == "out" else "err")

    @property
    def grouped(self) -> bool:
        """Began inside its group: what the group does not hold has left it."""
        if self.meta.role == "hold":
            return bool(self.meta.hold.groups) and not self.may_have_ungrouped
        return self.folder.record is not None and self.folder.record.process()[1]

    def has_running_steps(self) -> bool:
        """Whether tasks of a step still run."""
        return any(not step.done.is_set() for step in self.steps.values())

    def step_supervisors(self) -> Set[int]:
        """The supervisors of its steps' tasks, those too that have not written their pid yet."""
        tasks = [task for step in self.steps.values() for task in step.tasks.values()]
        own = {task.process.pid for task in tasks if task.process is not None}
        return own | {task.folder.pid() for task in tasks}

    def members(self) -> Tuple[int, ...]:
        """Its processes, less those that have to tell an end (of its terminal, of its steps), and its callers. One walk over /proc."""
        found = set(job_processes.marked().get(self.mark, ()))
        found.update(launch_cgroups.pids(self.meta.hold.groups))
        if self.meta.pty:
            found.discard(self.folder.pid())
        found -= self.step_supervisors() | self._callers.keys()
        return tuple(sorted(found))

    def owns(self, pid: int) -> bool:
        """Whether that process, if there is one, is the launch's: pids are given out again."""
        return job_processes.mark_of(pid) == self.mark or pid in launch_cgroups.pids(self.meta.hold.groups)

    def note_memory(self, mem_bytes: int) -> None:
        """All its processes have had so much."""
        self.peak_mem_bytes = max(self.peak_mem_bytes, mem_bytes)

    def call_begins(self, pid: int) -> None:
        """A process of it has a connection to the controller from here on."""
        self._callers[pid] = self._callers.get(pid, 0) + 1

    def call_ends(self, pid: int) -> None:
        """One of that process's connections is over."""
        self._callers[pid] -= 1
        if not self._callers[pid]:
            del self._callers[pid]

    def batch_shell(self, members: Tuple[int, ...]) -> int:
        """Of its processes the one that runs the script, or the terminal's first. 0 if that is gone."""
        first = self.folder.pid()
        if not self.meta.pty:
            return first if first in members else 0
        return next((pid for pid in members if job_processes.parent_of(pid) == first), 0)

    def report(self, *, curve: bool = True) -> JobReport:
        """The agent's word on it. Output that only the agent keeps is told as "spool:..."."""
        kept = "" if self.meta.role == "hold" else "spool:" + self.folder.file("out")
        stdout = self.meta.stdout or kept
        return JobReport(
            job_id=self.meta.job_id,
            restarts=self.meta.restarts,
            phase="running" if self.phase == "ending" else self.phase,
            pid=self.folder.pid() if self.phase == "running" else 0,
            started_at=self.meta.started_at,
            ended_at=self.ended_at,
            exit_code=self.status[0],
            signal=self.status[1],
            cause=self.cause,
            message=self.message,
            stdout_path=stdout,
            stderr_path=self.meta.stderr,
            work_dir=self.meta.work_dir,
            peak_mem_bytes=self.peak_mem_bytes,
            cpu_seconds=self.cpu.total_s,
            system_s=self.cpu.system_s,
            own=None if not self.had_steps else OwnUse(*self.own_cpu, self.own_peak_mem_bytes),
            drain=self.drain,
            gpu=self.meter.usage() if self.phase in ("exited", "lost") else None,
            curve=self.meter.curve() if curve and self.phase in ("exited", "lost") else None,
            suspended=self.limit is not None and self.limit.suspended,
            time_limit_s=-1.0 if self.limit is None else self.limit.limit_s or 0.0,
        )


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
        self.oom_kills = launch_cgroups.oom_kills(self.hold.groups)
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
        return self.out_of_memory or launch_cgroups.oom_kills(self.hold.groups) > self.oom_kills

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
            self.note_memory(launch_cgroups.usage(own).peak_mem_bytes)

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
        for pid in job_processes.marked().get(self.job.mark, ()):
            if pid in supervisors or job_processes.variable(pid, STEP_VARIABLE) != str(self.number):
                continue
            rank = job_processes.numbered(pid, RANK_VARIABLE)
            found.setdefault(int(rank) if rank else -1, []).append(pid)
        return found


def step_folder(job: Job, number: int) -> str:
    """Where a step's files are."""
    return os.path.join(job.folder.path, "steps", str(number))
