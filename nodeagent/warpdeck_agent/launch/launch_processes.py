"""Finds the processes of one launch: by its job tag and in its cgroups."""

from __future__ import annotations

from typing import Callable, Dict, Iterable, Set, Tuple

from warpdeck_agent.isolation import job_processes, launch_cgroups
from warpdeck_agent.storage.spool import LaunchFolder, Meta
from warpdeck_agent.tasks.task import Task


class LaunchProcesses:
    """The processes of a launch. `tasks` returns the tasks of its steps; `agent` is the agent's identity."""

    def __init__(
        self, folder: LaunchFolder, meta: Meta, tasks: Callable[[], Iterable[Task]], *, agent: str
    ) -> None:
        name = job_processes.launch_name(meta.job_id, meta.restarts, agent=agent)
        self.tag = job_processes.JobTag(name, meta.token, meta.uid)
        self.may_have_ungrouped = False
        """For a "hold" launch, which has no process of its own: whether tasks of its steps may have begun
        outside of the launch's cgroups.
        """
        self._folder = folder
        self._meta = meta
        self._tasks = tasks
        self._callers: Dict[int, int] = {}
        """Number of connections to the controller, by the pid of each process of the launch that has any.

        Signals to the launch skip these processes. They are meant for the tasks that the processes started,
        and reach them through the controller.
        """

    @property
    def grouped(self) -> bool:
        """Whether the launch began inside its cgroup.

        If so, every process outside of the cgroup has left it.
        """
        if self._meta.role == "hold":
            return bool(self._meta.hold.groups) and not self.may_have_ungrouped
        return self._folder.record is not None and self._folder.record.process()[1]

    def step_supervisors(self) -> Set[int]:
        """Return the pids of the supervisors of the tasks of the launch's steps.

        The result includes supervisors that have not written their pid yet.
        """
        tasks = list(self._tasks())
        own = {task.process.pid for task in tasks if task.process is not None}
        return own | {task.folder.pid() for task in tasks}

    def pids(self) -> Tuple[int, ...]:
        """Return the pids of the launch's processes, with one walk over /proc.

        The result omits the processes that must report an end (the terminal's host and the supervisors of
        steps) and the processes that have a connection to the controller.
        """
        found = set(job_processes.pids_by_job_tag().get(self.tag, ()))
        found.update(launch_cgroups.pids(self._meta.hold.groups))
        if self._meta.pty:
            found.discard(self._folder.pid())
        found -= self.step_supervisors() | self._callers.keys()
        return tuple(sorted(found))

    def owns(self, pid: int) -> bool:
        """Return whether the process `pid` exists and belongs to the launch.

        Needed because the kernel reuses pids.
        """
        return job_processes.job_tag_of(pid) == self.tag or pid in launch_cgroups.pids(self._meta.hold.groups)

    def first_is_alive(self) -> bool:
        """Return whether the launch's first process exists."""
        return self.owns(self._folder.pid())

    def batch_shell(self, pids: Tuple[int, ...]) -> int:
        """Return the pid of the batch script's shell, or of the first process on the terminal.

        `pids` are the processes of the launch. Returns 0 if the process is gone.
        """
        first = self._folder.pid()
        if not self._meta.pty:
            return first if first in pids else 0
        return next((pid for pid in pids if job_processes.parent_of(pid) == first), 0)

    def call_begins(self, pid: int) -> None:
        """Record that the launch's process `pid` has opened a connection to the controller."""
        self._callers[pid] = self._callers.get(pid, 0) + 1

    def call_ends(self, pid: int) -> None:
        """Record that one connection of the launch's process `pid` has closed."""
        self._callers[pid] -= 1
        if not self._callers[pid]:
            del self._callers[pid]
