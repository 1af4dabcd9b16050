"""A launch on this node and its steps: the agent's state of them in memory, and their reports."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Sequence, Set, Tuple

from warpdeck_agent.isolation import job_processes, launch_cgroups
from warpdeck_agent.linux.cpu_time import CpuTime, sum_of
from warpdeck_agent.metrics.metering import UsageMeter
from warpdeck_agent.storage.spool import Folder, LaunchFolder, Meta
from warpdeck_agent.tasks.pmi_exchange import PmiExchange
from warpdeck_agent.tasks.task import RANK_VARIABLE, STEP_VARIABLE, Task
from warpdeck_agent.wire.messages import JobReport, Key
from warpdeck_agent.wire.steps import StepReport, TaskEnded

from .checkpoints import Checkpoints
from .launch_processes import LaunchProcesses
from .launch_usage import LaunchUsage, ProcessUsage, per_task_minmax
from .step_containment import StepContainment
from .time_limit import TimeLimit

StepKey = Tuple[int, int, int]


class LaunchEnd:
    """How and why a launch ends."""

    def __init__(self) -> None:
        self.at_unix = 0.0
        self.status: Tuple[int, int] = (0, 0)
        """(exit code, signal) of its first process."""
        self.cause = ""
        """Why it is ended, for example "timeout"; "" if it ends by itself."""
        self.message = ""
        self.drain_reason = ""
        """Why the node should be drained; "" if it should not."""
        self.grace_until = 0.0
        """End of the grace time of a launch that is being ended, on the monotonic clock."""
        self.is_saving = False
        """Whether the launch saves its work before it is ended."""
        self.termination_message: Optional[asyncio.Future[None]] = None
        """A future that is done when the reason for the end has been written to the launch's standard
        error.
        """
        self.reported = asyncio.Event()
        """Set when the end was reported to the controller."""


class LocalLaunch:
    """One launch on this node.

    `phase` is "running", "ending" (its supervisor has ended, but its exit status has not been read yet),
    "exited" or "lost".
    """

    def __init__(self, folder: LaunchFolder, meta: Meta, *, agent: str) -> None:
        self.folder = folder
        self.meta = meta
        self.phase = "running"
        self.end = LaunchEnd()
        self.usage = LaunchUsage(UsageMeter(begin_unix=meta.started_at, share_pct=meta.gpu_share_pct))
        self.processes = LaunchProcesses(folder, meta, self.tasks, agent=agent)
        self.steps: Dict[int, LocalStep] = {}
        self.limit: Optional[TimeLimit] = None
        self.checkpoints = Checkpoints(folder, meta)
        self.resources_free = False
        """Whether nothing of the launch is left on the node, so that another launch may take its
        resources.
        """
        self.has_successor = False
        """Whether another launch, which was prefetched, has taken its resources."""

    @property
    def key(self) -> Key:
        return self.meta.job_id, self.meta.restarts

    def output(self, channel: str) -> str:
        """Return the path of the file for `channel` ("out" or "err")."""
        kept = self.meta.stdout if channel == "out" else self.meta.stderr or self.meta.stdout
        return kept or self.folder.file("out" if channel == "out" else "err")

    def has_running_steps(self) -> bool:
        """Return whether tasks of any of its steps still run."""
        return any(not step.is_done for step in self.steps.values())

    def tasks(self) -> List[Task]:
        """Return the tasks of all its steps."""
        return [task for step in self.steps.values() for task in step.tasks.values()]

    def report(self, *, curve: bool = True) -> JobReport:
        """Return the report of the launch for the controller.

        Output that only the agent keeps is given as "spool:...".
        """
        kept = "" if self.meta.role == "hold" else "spool:" + self.folder.file("out")
        stdout = self.meta.stdout or kept
        is_over = self.phase in ("exited", "lost")
        usage = self.usage
        return JobReport(
            job_id=self.meta.job_id,
            restarts=self.meta.restarts,
            phase="running" if self.phase == "ending" else self.phase,
            pid=self.folder.pid() if self.phase == "running" else 0,
            started_at=self.meta.started_at,
            ended_at=self.end.at_unix,
            exit_code=self.end.status[0],
            signal=self.end.status[1],
            cause=self.end.cause,
            message=self.end.message,
            stdout_path=stdout,
            stderr_path=self.meta.stderr,
            work_dir=self.meta.work_dir,
            peak_mem_bytes=usage.peak_mem_bytes,
            cpu_seconds=usage.cpu.total_s,
            system_s=usage.cpu.system_s,
            own=usage.own if usage.had_steps else None,
            drain=self.end.drain_reason,
            gpu=usage.meter.usage() if is_over else None,
            curve=usage.meter.curve() if curve and is_over else None,
            suspended=self.limit is not None and self.limit.suspended,
            time_limit_s=-1.0 if self.limit is None else self.limit.limit_s or 0.0,
            checkpoint_at=self.checkpoints.look(),
            proof=self.meta.proof,
        )


@dataclass
class StepFailure:
    """Why a step failed on this node."""

    message: str = ""
    check: str = ""
    """The health check of the node that fails, if the node is the reason for `message`."""
    abort: Optional[TaskEnded] = None
    """The end of the rank that aborted the step."""


@dataclass
class StepProgress:
    """How far a step has come."""

    started: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)
    listeners: Set[asyncio.Event] = field(default_factory=set)
    """Events that are set whenever a task has ended."""
    timer: Optional[asyncio.TimerHandle] = None
    """The timer of its time limit."""
    is_ending: bool = False
    """Whether the step was told to end, so that ends of its ranks are expected."""


class LocalStep:
    """A step's share of this node."""

    def __init__(
        self, launch: LocalLaunch, number: int, folder: Folder, *, gpus: Sequence[str], begin_unix: float
    ) -> None:
        self.launch = launch
        self.number = number
        self.folder = folder
        self.gpus = tuple(gpus)
        self.cpus: Tuple[int, ...] = ()
        """The launch's CPUs that are reserved for the step; () for all."""
        self.begin_unix = begin_unix
        self.tasks: Dict[int, Task] = {}
        self.containment = StepContainment(launch.meta.hold)
        self.usage = ProcessUsage(UsageMeter(begin_unix=begin_unix, share_pct=launch.meta.gpu_share_pct))
        """CPU time is that of the running step. Its tasks know their CPU time only at the end."""
        self.progress = StepProgress()
        self.failure = StepFailure()
        self.exchange: Optional[PmiExchange] = None

    @property
    def is_done(self) -> bool:
        return self.progress.done.is_set()

    def note_memory(self, mem_bytes: int) -> None:
        """Record that all processes of the step together used `mem_bytes`.

        If it has a single task, this is also the task's usage.
        """
        self.usage.note_memory(mem_bytes)
        if len(self.tasks) == 1:
            (task,) = self.tasks.values()
            task.peak_mem_bytes = max(task.peak_mem_bytes, mem_bytes)

    def note_process(self, task: Task, mem_bytes: int) -> None:
        """Record that a process of the task used `mem_bytes`, including memory shared with other processes.

        This value is used if the step has no cgroup of its own. A step shorter than a second has no better
        measurement.
        """
        if self.containment.own_groups:
            return
        task.peak_mem_bytes = max(task.peak_mem_bytes, mem_bytes)
        self.usage.note_memory(task.peak_mem_bytes)

    def take_memory(self) -> None:
        """Read the peak memory that the kernel has counted in the step's own cgroup."""
        if own := self.containment.own_groups:
            self.note_memory(launch_cgroups.usage(own).peak_mem_bytes)

    def take_usage(self) -> None:
        """Add up the usage of the tasks, once, when all have ended."""
        if not self.is_done:
            self.take_memory()
            self.usage.cpu = sum_of(task.cpu() for task in self.tasks.values())
            self.launch.usage.note_step(self.usage.cpu)

    def report(self, ends: Optional[List[TaskEnded]] = None, *, curve: bool = True) -> StepReport:
        """Return the report of the step for the controller, with the given ends or all."""
        if ends is None:
            ends = [task.end() for _, task in sorted(self.tasks.items()) if task.ended is not None]
        over, usage, failure = self.is_done, self.usage, self.failure
        cpu = usage.cpu if over else CpuTime()
        return StepReport(
            job_id=self.launch.meta.job_id,
            restarts=self.launch.meta.restarts,
            step=self.number,
            phase="exited" if over else "running",
            ends=ends,
            cpu_seconds=cpu.total_s,
            system_s=cpu.system_s,
            spreads=per_task_minmax(self.tasks) if over else [],
            peak_mem_bytes=usage.peak_mem_bytes if over else 0,
            gpu=usage.meter.usage() if over else None,
            curve=usage.meter.curve() if over and curve else None,
            message=failure.message,
            check=failure.check,
            abort=failure.abort,
        )

    def pids(self, rank: int = -1) -> List[int]:
        """Return the pids of the step, or of one task, without the supervisors. Walks /proc once."""
        found = self.pids_by_rank()
        return found.get(rank, []) if rank >= 0 else [pid for pids in found.values() for pid in pids]

    def pids_by_rank(self) -> Dict[int, List[int]]:
        """Return the pids of the step's processes by rank, with -1 for processes without one."""
        supervisors = self.launch.processes.step_supervisors()
        found: Dict[int, List[int]] = {}
        for pid in job_processes.pids_by_job_tag().get(self.launch.processes.tag, ()):
            if pid in supervisors or job_processes.variable(pid, STEP_VARIABLE) != str(self.number):
                continue
            rank = job_processes.numeric_variable(pid, RANK_VARIABLE)
            found.setdefault(int(rank) if rank else -1, []).append(pid)
        return found


def step_folder(launch: LocalLaunch, number: int) -> str:
    """Return the folder of a step's files."""
    return os.path.join(launch.folder.path, "steps", str(number))
