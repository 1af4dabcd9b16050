"""The CPUs of each task of a step: chosen from the step's own CPUs (--exact) as srun's --cpu-bind asks."""

from __future__ import annotations

import os
from typing import Collection, List, Tuple


def bind(kind: str, tasks: int, *, cpus_per_task: int, allowed: List[int]) -> List[List[int]]:
    """Return the CPUs of each task, in the order of the tasks on this node.

    A task with an empty list is not bound. `allowed` is ascending. The kinds cores, threads and rank give each
    task a share of its own, in order. map_cpu and mask_cpu list the CPUs of each task, and the list is repeated
    if there are more tasks. CPUs that the job may not use are omitted.
    """
    name, _, value = kind.partition(":")
    if not allowed or name in ("", "none", "no", "sockets", "ldoms", "boards"):
        return [[] for _ in range(tasks)]
    if name == "map_cpu":
        named = [[int(item)] for item in value.split(",")]
    elif name == "mask_cpu":
        named = [_of_mask(int(item, 16)) for item in value.split(",")]
    else:
        each = max(1, min(cpus_per_task, len(allowed)))
        named = [
            [allowed[(at * each + offset) % len(allowed)] for offset in range(each)] for at in range(tasks)
        ]
    known = set(allowed)
    return [[cpu for cpu in named[at % len(named)] if cpu in known] for at in range(tasks)]


BOUND = "WARPDECK_BOUND"
"""Variable with the text that a task prints before it begins (see `task.TASK_SCRIPT`)."""
PID = "@"
"""Placeholder for the task's pid in the value of BOUND."""
_KINDS = {"none": "NONE", "no": "NONE", "rank": "RANK", "map_cpu": "MAP "}


def describe_binding(kind: str, cpus: Collection[int], *, node: str, rank: int, local: int) -> str:
    """Return slurmstepd's line for --cpu-bind=verbose, with PID in place of the process id."""
    label = _KINDS.get(kind.partition(":")[0], "MASK")
    mask = 0 if label == "NONE" else sum(1 << cpu for cpu in cpus)
    done = "" if label == "NONE" else " set"
    return f"cpu-bind={label} - {node}, task {rank:2} {local:2} [{PID}]: mask 0x{mask:X}{done}"


def own_cpus(count: int, *, allowed: List[int], taken: Collection[int]) -> Tuple[int, ...]:
    """Return `count` allowed CPUs that no other step of the job has.

    Returns () if too few are free, or if these are all of the allowed CPUs. Then the step is not pinned.
    """
    free = [cpu for cpu in allowed if cpu not in taken]
    return tuple(free[:count]) if 0 < count < len(allowed) and count <= len(free) else ()


def allowed_cpus() -> List[int]:
    """Return the CPUs that this process may use."""
    return sorted(os.sched_getaffinity(0))


def _of_mask(mask: int) -> List[int]:
    return [cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1]
