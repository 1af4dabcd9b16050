"""The containment of a step.

It is the containment of its launch. A step that asked for less memory has a memory cgroup of its own.
"""

from __future__ import annotations

from typing import List

from warpdeck_agent.isolation import launch_cgroups
from warpdeck_agent.isolation.containment_handle import ContainmentHandle
from warpdeck_agent.tasks.task import Task

KILLED = ((0, 9), (137, 0))
"""Exit statuses of a task that was killed, or of its shell if that reports a killed program."""


class StepContainment:
    """The containment of one step, and whether its tasks ran out of memory."""

    def __init__(self, handle: ContainmentHandle) -> None:
        self.handle = handle
        self.exceeded_limit = False
        """Whether the agent found the step over a memory limit that the kernel does not enforce."""
        self._launch_groups = handle.groups
        self._earlier_oom_kills = launch_cgroups.oom_kills(handle.groups)
        """Number of out-of-memory kills in the launch before the step began."""

    @property
    def own_groups(self) -> List[str]:
        """The cgroups that the step does not share with its launch."""
        return [group for group in self.handle.groups if group not in self._launch_groups]

    def replace(self, handle: ContainmentHandle) -> None:
        """Set the step's containment. None of its processes run yet, or all of them are already inside."""
        self.handle = handle
        if self.own_groups:
            self._earlier_oom_kills = 0

    def ran_out_of_memory(self, task: Task) -> bool:
        """Return whether an ended task, or a process for which it waited, was killed for lack of memory."""
        if task.ended not in KILLED:
            return False
        return self.exceeded_limit or launch_cgroups.oom_kills(self.handle.groups) > self._earlier_oom_kills
