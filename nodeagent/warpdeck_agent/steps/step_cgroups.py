"""Cgroups of individual steps, below the cgroup of their launch.

Steps have one if they asked for less memory than the launch has. A step has its own cgroup only in the memory
hierarchy; in all other hierarchies it is in its launch's. In cgroup v1 nothing else is needed. In v2 a cgroup
passes its controllers to children only while it contains no process. So the first of these steps moves all
running processes of the launch into another child of the launch's cgroup (REST). From then on,
`launch_cgroups.join` puts new processes there.
"""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from typing import Optional, Sequence, Tuple

from warpdeck_agent.isolation import launch_cgroups
from warpdeck_agent.isolation.containment_handle import ContainmentHandle
from warpdeck_agent.isolation.launch_cgroups import REST, V1, V2
from warpdeck_agent.linux.procfs import text, write

ROUNDS = 20
"""Number of attempts to move all processes out of a cgroup. A process that forks meanwhile may leave a child
there.
"""


def held_to(containment: ContainmentHandle, number: int, mem_bytes: int) -> ContainmentHandle:
    """Return the containment of a step that may use `mem_bytes` of its launch's memory.

    Blocks. The step gets a cgroup of its own. If that is not possible, the agent watches its memory.
    """
    own = _own_groups(containment.groups, number, mem_bytes)
    return (
        replace(containment, watch_mem_bytes=mem_bytes) if own is None else replace(containment, groups=own)
    )


def _own_groups(held: Sequence[str], number: int, mem_bytes: int) -> Optional[Tuple[str, ...]]:
    """Return the launch's cgroups, with the memory cgroup replaced by one of the step's own.

    None if the kernel cannot limit the step.
    """
    at = next((at for at, group in enumerate(held) if launch_cgroups.memory_files(group) is not None), None)
    if at is None:
        return None
    names = launch_cgroups.memory_files(held[at]) or V1
    own = f"{held[at]}/step-{number}"
    try:
        if names is V2:
            _divide(held[at])
        os.makedirs(own, exist_ok=True)
        launch_cgroups.limit_memory(own, names, mem_bytes)
    except OSError:
        launch_cgroups.remove([own])
        return None
    return (*held[:at], own, *held[at + 1 :])


def _divide(group: str) -> None:
    """Move all processes of a cgroup into a child of it.

    Only then may the cgroup enable the memory controller for its children. Raises OSError.
    """
    control = f"{group}/cgroup.subtree_control"
    if "memory" in text(control).split():
        return
    rest = f"{group}/{REST}"
    os.makedirs(rest, exist_ok=True)
    for left in reversed(range(ROUNDS)):
        for pid in text(f"{group}/cgroup.procs").split():
            launch_cgroups.join([rest], int(pid))
        try:
            write(control, "+memory")
            return
        except OSError as error:
            if error.errno != errno.EBUSY or not left:
                raise
