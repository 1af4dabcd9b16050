"""A launch in memory: the agent's state of it, and its report."""

from __future__ import annotations

import asyncio
import os
from typing import Dict, List, Optional, Sequence, Set, Tuple

from warpdeck_agent.isolation import job_processes, launch_cgroups
from warpdeck_agent.isolation.hold import ContainmentHandle
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
"""Exit statuses of a task that was killed, or whose shell reports a killed program."""
StepKey = Tuple[int, int, int]


class Job:
    """One launch on this node.

    `phase` is "running", "ending" (its supervisor has ended, but its exit status has not been read yet),
    "exited" or "lost".
    """

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
        """A future that is done when the reason for the end has been written to the launch's standard
        error.
        """
        self.is_out = False
        """Whether nothing of the launch is left on the node, so that another launch may take its
        resources.
        """
        self.is_followed = False
        """Whether another launch, which was prefetched, has taken its resources."""
        self.peak_mem_bytes = 0
        self.cpu = CpuTime()
        self.own_cpu = CpuTime()
        self.own_peak_mem_bytes = 0
        """`own_cpu` and `own_peak_mem_bytes` do not include the usage of the launch's steps."""
        self.steps_cpu = CpuTime()
        """CPU time of its ended steps."""
        self.limit: Optional[TimeLimit] = None
        self.meter = Meter(begin_unix=meta.started_at, share_pct=meta.gpu_share_pct)
        self.done = asyncio.Event()
        self.grace_until = 0.0
        """For a launch that is being ended: the end of its grace time, on the monotonic clock."""
        self.steps: Dict[int, Step] = {}
        self.had_steps = False
        self.may_have_ungrouped = False
        """For a "hold" launch, which has no process of its own: whether tasks of steps may have begun outside
        of its cgroups.
        """
        self._callers: Dict[int, int] = {}
        """Number of connections to the controller for each of its processes that has any.

        Signals to the launch skip these processes. They are meant for the tasks that the processes started,
        and reach them through the controller.
        """

    @property
    def key(self) -> Key:
        return self.meta.job_id, self.meta.restarts

    def output(self, channel: str) -> str:
        """Return the path of the file for `channel` ("out" or "err")."""
        kept = self.meta.stdout if channel == "out" else self.meta.stderr or self.meta.stdout
        return kept or self.folder.file("out" if channel == "out" else "err")

    @property
    def grouped(self) -> bool:
        """Whether the launch began inside its cgroup.

        If so, every process outside of the cgroup has left it.
        """
        if self.meta.role == "hold":
            return bool(self.meta.hold.groups) and not self.may_have_ungrouped
        return self.folder.record is not None and self.folder.record.process()[1]

    def has_running_steps(self) -> bool:
        """Return whether tasks of any of its steps still run."""
        return any(not step.done.is_set() for step in self.steps.values())

    def step_supervisors(self) -> Set[int]:
        """Return the pids of the supervisors of its steps' tasks.

        The result includes supervisors that have not written their pid yet.
        """
        tasks = [task for step in self.steps.values() for task in step.tasks.values()]
        own = {task.process.pid for task in tasks if task.process is not None}
        return own | {task.folder.pid() for task in tasks}

    def members(self) -> Tuple[int, ...]:
        """Return the pids of its processes, with one walk over /proc.

        The result omits the processes that must report an end (the terminal's host and the supervisors of
        steps) and the processes that have a connection to the controller.
        """
        found = set(job_processes.marked().get(self.mark, ()))
        found.update(launch_cgroups.pids(self.meta.hold.groups))
        if self.meta.pty:
            found.discard(self.folder.pid())
        found -= self.step_supervisors() | self._callers.keys()
        return tuple(sorted(found))

    def owns(self, pid: int) -> bool:
        """Return whether the process `pid` exists and belongs to the launch.

        Needed because the kernel reuses pids.
        """
        return job_processes.mark_of(pid) == self.mark or pid in launch_cgroups.pids(self.meta.hold.groups)

    def note_memory(self, mem_bytes: int) -> None:
        """Record that all its processes together used `mem_bytes` of memory."""
        self.peak_mem_bytes = max(self.peak_mem_bytes, mem_bytes)

    def call_begins(self, pid: int) -> None:
        """Record that its process `pid` has opened a connection to the controller."""
        self._callers[pid] = self._callers.get(pid, 0) + 1

    def call_ends(self, pid: int) -> None:
        """Record that one connection of the process `pid` has closed."""
        self._callers[pid] -= 1
        if not self._callers[pid]:
            del self._callers[pid]

    def batch_shell(self, members: Tuple[int, ...]) -> int:
        """Return the pid of the batch script's shell, or of the first process on the terminal.

        `members` are the pids of the launch. Returns 0 if the process is gone.
        """
        first = self.folder.pid()
        if not self.meta.pty:
            return first if first in members else 0
        return next((pid for pid in members if job_processes.parent_of(pid) == first), 0)

    def report(self, *, curve: bool = True) -> JobReport:
        """Return the report of the launch for the controller.

        Output that only the agent keeps is given as "spool:...".
        """
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
        """CPU time of the running step. Its tasks know their CPU time only at the end."""
        self.number = number
        self.hold = job.meta.hold
        """Its job's containment, with a cgroup of its own if it asked for less memory."""
        self.oom_kills = launch_cgroups.oom_kills(self.hold.groups)
        """Number of out-of-memory kills in the job before the step began."""
        self.out_of_memory = False
        """Whether the agent found it over its memory limit, if the kernel does not enforce the limit."""
        self.cpus: Tuple[int, ...] = ()
        """The job's CPUs that are reserved for the step; () for all."""
        self.folder = folder
        self.tasks: Dict[int, Task] = {}
        self.message = ""
        self.check = ""
        """The health check of the node that fails, if the node is the reason for `message`."""
        self.failed = False
        self.started = asyncio.Event()
        self.done = asyncio.Event()
        self.listeners: Set[asyncio.Event] = set()
        self.timer: Optional[asyncio.TimerHandle] = None
        self.exchange: Optional[Exchange] = None
        self.abort: Optional[TaskEnded] = None
        self.is_ending = False
        """Whether the step was told to end, so that ends of its ranks are expected."""

    @property
    def phase(self) -> str:
        return "exited" if self.done.is_set() else "running"

    @property
    def own_groups(self) -> List[str]:
        """The cgroups of the step that are not its job's."""
        return [group for group in self.hold.groups if group not in self.job.meta.hold.groups]

    def hold_in(self, hold: ContainmentHandle) -> None:
        """Set the step's containment. None of its processes run yet, or all of them are already inside."""
        self.hold = hold
        if self.own_groups:
            self.oom_kills = 0

    def ran_out_of_memory(self, task: Task) -> bool:
        """Return whether an ended task, or a process for which it waited, was killed for lack of memory."""
        if task.ended not in KILLED:
            return False
        return self.out_of_memory or launch_cgroups.oom_kills(self.hold.groups) > self.oom_kills

    def note_memory(self, mem_bytes: int) -> None:
        """Record that all processes of the step together used `mem_bytes`.

        If it has a single task, this is also the task's usage.
        """
        self.peak_mem_bytes = max(self.peak_mem_bytes, mem_bytes)
        if len(self.tasks) == 1:
            (task,) = self.tasks.values()
            task.peak_mem_bytes = max(task.peak_mem_bytes, mem_bytes)

    def note_process(self, task: Task, mem_bytes: int) -> None:
        """Record that a process of the task used `mem_bytes`, including memory shared with other processes.

        This value is used if the step has no cgroup of its own. A step shorter than a second has no better
        measurement.
        """
        if self.own_groups:
            return
        task.peak_mem_bytes = max(task.peak_mem_bytes, mem_bytes)
        self.peak_mem_bytes = max(self.peak_mem_bytes, task.peak_mem_bytes)

    def take_memory(self) -> None:
        """Read the peak memory that the kernel has counted in the step's own cgroup."""
        if own := self.own_groups:
            self.note_memory(launch_cgroups.usage(own).peak_mem_bytes)

    def take_usage(self) -> None:
        """Add up the usage of the tasks, once, when all have ended."""
        if not self.done.is_set():
            self.take_memory()
            self.cpu = sum_of(task.cpu() for task in self.tasks.values())
            self.job.steps_cpu = sum_of((self.job.steps_cpu, self.cpu))

    def report(self, ends: Optional[List[TaskEnded]] = None, *, curve: bool = True) -> StepReport:
        """Return the report of the step for the controller, with the given ends or all."""
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
        """Return the pids of the step, or of one task, without the supervisors. Walks /proc once."""
        found = self.members_by_rank()
        return found.get(rank, []) if rank >= 0 else [pid for pids in found.values() for pid in pids]

    def members_by_rank(self) -> Dict[int, List[int]]:
        """Return the pids of the step's processes by rank, with -1 for processes without one."""
        supervisors = self.job.step_supervisors()
        found: Dict[int, List[int]] = {}
        for pid in job_processes.marked().get(self.job.mark, ()):
            if pid in supervisors or job_processes.variable(pid, STEP_VARIABLE) != str(self.number):
                continue
            rank = job_processes.numbered(pid, RANK_VARIABLE)
            found.setdefault(int(rank) if rank else -1, []).append(pid)
        return found


def step_folder(job: Job, number: int) -> str:
    """Return the folder of a step's files."""
    return os.path.join(job.folder.path, "steps", str(number))
