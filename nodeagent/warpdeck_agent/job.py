"""A launch in memory: what the agent knows of it, and its word on it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Dict, Optional, Set, Tuple

from . import groups, processes
from .cputime import CpuTime
from .limit import TimeLimit
from .metering import Meter
from .spool import LaunchFolder, Meta
from .wire.messages import JobReport, OwnUse

if TYPE_CHECKING:
    from .step import Step

Key = Tuple[int, int]
"""(job id, restarts): one launch."""


class Job:
    """`phase`: running, ending (its supervisor has ended, how is not read yet), exited or lost."""

    def __init__(self, folder: LaunchFolder, meta: Meta, *, agent: str) -> None:
        self.folder = folder
        self.meta = meta
        launch = processes.launch_name(meta.job_id, meta.restarts, agent=agent)
        self.mark = processes.Mark(launch, meta.token, meta.uid)
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
        found = set(processes.marked().get(self.mark, ()))
        found.update(groups.pids(self.meta.hold.groups))
        if self.meta.pty:
            found.discard(self.folder.pid())
        found -= self.step_supervisors() | self._callers.keys()
        return tuple(sorted(found))

    def owns(self, pid: int) -> bool:
        """Whether that process, if there is one, is the launch's: pids are given out again."""
        return processes.mark_of(pid) == self.mark or pid in groups.pids(self.meta.hold.groups)

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
        return next((pid for pid in members if processes.parent_of(pid) == first), 0)

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
