"""Converts a request into the demand on each node: a gang of n nodes, each with tasks, CPUs, memory and GPUs.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

import msgspec

from warpdeck.model import Resources

WHOLE_NODE = -1
"""As an amount of memory: all memory of the node (`--mem=0`)."""


ANYBODY = "*"
"""Used instead of the user name of a user without exclusive jobs, because all of these users meet the same
conflicts.
"""


class Owner(msgspec.Struct, frozen=True):
    """The user of a job, and whether the job excludes other users from its nodes."""

    user: str
    alone: bool

    def conflicts_with(self, other: Owner) -> bool:
        """Return whether jobs of the two owners cannot be on the same node."""
        return self.user != other.user and (self.alone or other.alone)


class NodeRequirement(msgspec.Struct, frozen=True, kw_only=True):
    """The demand on one node of the gang. `gpu_type` is in lower case; "" means any type."""

    tasks: int
    cpus: int
    mem_bytes: int
    gpus: int
    gpu_type: str = ""
    gpu_share_pct: int = 100
    """Below 100: a part of one GPU that other jobs may share; `gpus` is then 1."""
    exclusive: bool = False
    """True if no other job may run on the node. The job then gets all CPUs and GPUs available there."""
    all_memory: bool = False
    """True if the job requested no amount of memory and is alone on the node. It then gets all free memory.
    """
    owner: Owner | None = None
    """The owner of the job, if the owners matter for sharing nodes."""


def needs(
    requested: Resources,
    nodes: int,
    *,
    default_mem_per_cpu_bytes: int,
    whole_nodes: bool = False,
) -> tuple[tuple[NodeRequirement, int], ...]:
    """Return (demand, number of nodes with it), the largest first; () if the tasks cannot be distributed over
    this many nodes.

    `whole_nodes` means that the partition gives out only whole nodes, as --exclusive does. Slurm's rule is
    the same for both: the job gets all CPUs and GPUs, but only as much memory as it requested.
    """
    layout = _gpus_per_node(requested, _tasks_per_node(requested, nodes), nodes)
    return tuple(
        (
            need_of(
                requested,
                tasks=tasks,
                gpus=gpus,
                default_mem_per_cpu_bytes=default_mem_per_cpu_bytes,
                whole_nodes=whole_nodes,
            ),
            count,
        )
        for tasks, gpus, count in layout
    )


def need_of(
    requested: Resources,
    *,
    tasks: int,
    gpus: int,
    default_mem_per_cpu_bytes: int,
    whole_nodes: bool = False,
    owner: Owner | None = None,
) -> NodeRequirement:
    """Return the demand of one node with this many of the tasks and GPUs."""
    exclusive = requested.exclusive or whole_nodes
    cpus = _cpus(requested, tasks, gpus)
    return NodeRequirement(
        tasks=tasks,
        cpus=cpus * requested.cpus_held_each(),
        mem_bytes=_memory(requested, cpus, gpus, default_mem_per_cpu_bytes),
        gpus=gpus,
        gpu_type=requested.gpus.type.lower(),
        gpu_share_pct=100 if exclusive else requested.gpus.share_pct or 100,
        exclusive=exclusive,
        all_memory=exclusive and not _requests_memory(requested),
        owner=owner,
    )


def _cpus(requested: Resources, tasks: int, gpus: int) -> int:
    """Return the number of CPUs that the tasks and GPUs use on one node."""
    holding = 1 if requested.overcommit else tasks
    each = (
        0 if requested.overcommit else requested.tasks_per_node or 0
    )  # This can exceed the node's tasks if --ntasks is given too.
    by_gpus = gpus * (requested.cpus_per_gpu or 0)
    return max(
        1, max(holding, each) * requested.cpus_used_by_task(), by_gpus, requested.cpus_per_node_min or 0
    )


def _tasks_per_node(requested: Resources, nodes: int) -> list[tuple[int, int]]:
    """Return (tasks, number of nodes with them), largest number of tasks first."""
    if requested.tasks_per_node is not None and requested.tasks is None:
        return [(requested.tasks_per_node, nodes)]
    return _evenly(max(nodes if requested.tasks is None else requested.tasks, nodes), nodes)


def _gpus_per_node(
    requested: Resources, layout: list[tuple[int, int]], nodes: int
) -> list[tuple[int, int, int]]:
    """Return (tasks, GPUs, number of nodes), largest first; [] if there are fewer GPUs than nodes."""
    gpus = requested.gpus
    if gpus.share_pct is not None:
        return [(tasks, 1, count) for tasks, count in layout]
    if gpus.per_node is not None:
        return [(tasks, gpus.per_node, count) for tasks, count in layout]
    if gpus.per_task is not None or gpus.total is None:
        return [(tasks, tasks * (gpus.per_task or 0), count) for tasks, count in layout]
    return [] if gpus.total < nodes else _merge_layouts(layout, _evenly(gpus.total, nodes))


def _evenly(total: int, nodes: int) -> list[tuple[int, int]]:
    each, left = divmod(total, nodes)
    return [(each + 1, left), (each, nodes - left)] if left else [(each, nodes)]


def _merge_layouts(tasks: list[tuple[int, int]], gpus: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Combine two layouts of the same nodes into one."""
    found, theirs = [], iter(gpus)
    each, left = 0, 0
    for count, nodes in tasks:
        while nodes:
            if not left:
                each, left = next(theirs)
            both = min(nodes, left)
            found.append((count, each, both))
            nodes, left = nodes - both, left - both
    return found


def _requests_memory(requested: Resources) -> bool:
    amounts = (requested.mem_per_node_bytes, requested.mem_per_cpu_bytes, requested.mem_per_gpu_bytes)
    return any(amount is not None for amount in amounts)


def _memory(requested: Resources, cpus: int, gpus: int, default_per_cpu: int) -> int:
    if requested.mem_per_node_bytes is not None:
        return requested.mem_per_node_bytes or WHOLE_NODE
    if requested.mem_per_cpu_bytes is not None:
        return requested.mem_per_cpu_bytes * cpus
    if requested.mem_per_gpu_bytes is not None:
        return requested.mem_per_gpu_bytes * gpus
    return default_per_cpu * cpus
