"""Groups of steps' own, below their launch's: for those alone that asked for less memory than the launch has.

Only the memory hierarchy has one; in all others such a step is in its launch's. In cgroup v1 that is all. In v2 a group hands its
controllers down only while no process is in it, so the first such step of a launch moves all that runs there into a group
beside it (REST), where groups.join finds the way from then on.
"""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from typing import Optional, Sequence, Tuple

from warpdeck_agent.isolation import launch_cgroups
from warpdeck_agent.isolation.hold import Hold
from warpdeck_agent.isolation.launch_cgroups import REST, V1, V2
from warpdeck_agent.linux.procfs import text, write

ROUNDS = 20
"""How often it is tried to move all out of a group: who forks meanwhile may leave a child there."""


def held_to(hold: Hold, number: int, mem_bytes: int) -> Hold:
    """What holds a step that may use so much of its launch's memory: a group of its own, else the agent watches it. Blocks."""
    own = _own_groups(hold.groups, number, mem_bytes)
    return replace(hold, watch_mem_bytes=mem_bytes) if own is None else replace(hold, groups=own)


def _own_groups(held: Sequence[str], number: int, mem_bytes: int) -> Optional[Tuple[str, ...]]:
    """The launch's groups, but for one of the step's own; None where the kernel cannot hold it."""
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
    """Moves all that runs in a group into one below it, so that it may hand down the limit of memory. Raises OSError."""
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
