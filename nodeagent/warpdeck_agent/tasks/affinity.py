"""Which CPUs each task of a step may use: its step's own (--exact), and of these what srun's --cpu-bind says."""

from __future__ import annotations

import os
from typing import Collection, List, Tuple


def bind(kind: str, tasks: int, *, cpus_per_task: int, allowed: List[int]) -> List[List[int]]:
    """CPUs of each task, in local order; empty lists bind nothing. `allowed` is ascending.

    cores, threads and rank give each task its own share, one after the other; map_cpu and mask_cpu say it task by task and
    start anew where there are more tasks. What the job may not use is left out.
    """
    name, _, value = kind.partition(":")
    if not allowed or name in ("", "none", "no", "sockets", "ldoms", "boards"):
        return [[] for _ in range(tasks)]
    if name == "map_cpu":
        named = [[int(word)] for word in value.split(",")]
    elif name == "mask_cpu":
        named = [_of_mask(int(word, 16)) for word in value.split(",")]
    else:
        each = max(1, min(cpus_per_task, len(allowed)))
        named = [
            [allowed[(at * each + offset) % len(allowed)] for offset in range(each)] for at in range(tasks)
        ]
    known = set(allowed)
    return [[cpu for cpu in named[at % len(named)] if cpu in known] for at in range(tasks)]


BOUND = "WARPDECK_BOUND"
"""The variable whose words a task says before it begins (tasks.TASK_SCRIPT)."""
PID = "@"
"""Where its own number goes in them."""
_KINDS = {"none": "NONE", "no": "NONE", "rank": "RANK", "map_cpu": "MAP "}


def in_words(kind: str, cpus: Collection[int], *, node: str, rank: int, local: int) -> str:
    """What --cpu-bind=verbose says of a task: slurmstepd's line, with PID where its number is to stand."""
    word = _KINDS.get(kind.partition(":")[0], "MASK")
    mask = 0 if word == "NONE" else sum(1 << cpu for cpu in cpus)
    done = "" if word == "NONE" else " set"
    return f"cpu-bind={word} - {node}, task {rank:2} {local:2} [{PID}]: mask 0x{mask:X}{done}"


def own_cpus(count: int, *, allowed: List[int], taken: Collection[int]) -> Tuple[int, ...]:
    """So many that no other step of the job has; none, and nothing is pinned, where it is all of them or fewer are free."""
    free = [cpu for cpu in allowed if cpu not in taken]
    return tuple(free[:count]) if 0 < count < len(allowed) and count <= len(free) else ()


def allowed_cpus() -> List[int]:
    """The CPUs that this process may use."""
    return sorted(os.sched_getaffinity(0))


def _of_mask(mask: int) -> List[int]:
    return [cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1]
