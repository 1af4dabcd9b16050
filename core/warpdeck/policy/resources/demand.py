"""From what was asked to what each node must give: a gang of n nodes, each with tasks, CPUs, memory and GPUs. Pure."""

from __future__ import annotations

import msgspec

from warpdeck.model import Resources

WHOLE_NODE = -1
"""As a memory figure: all of it (`--mem=0`)."""


ANYBODY = "*"
"""In place of the user of a job that shares its nodes with all, as all of that user's jobs do."""


class Tenant(msgspec.Struct, frozen=True):
    """Of whom a job is, and whether it wants nobody else's on its nodes."""

    user: str
    alone: bool

    def bars(self, other: Tenant) -> bool:
        """Whether the two may not be on one node."""
        return self.user != other.user and (self.alone or other.alone)


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """What one node of the gang must give. `gpu_type` is lower case, "" is any."""

    tasks: int
    cpus: int
    mem_bytes: int
    gpus: int
    gpu_type: str = ""
    gpu_share_pct: int = 100
    """Below 100: a part of one GPU, which others may share; `gpus` is then 1."""
    exclusive: bool = False
    """Nobody else's job runs beside it, so it is given all CPUs and GPUs that can be had there."""
    all_memory: bool = False
    """It asked for no amount and is alone: it is given all memory that is free."""
    tenant: Tenant | None = None
    """Of whom it is, where that matters to anybody."""


def needs(
    asked: Resources,
    nodes: int,
    *,
    default_mem_per_cpu_bytes: int,
    whole_nodes: bool = False,
) -> tuple[tuple[Need, int], ...]:
    """(need, on how many of so many nodes), the largest first; () if the tasks cannot be laid out so.

    `whole_nodes`: its partition gives whole nodes only, as --exclusive does. Slurm's rule for both: all CPUs and GPUs, and
    as much memory as was asked for.
    """
    layout = _gpus_per_node(asked, _tasks_per_node(asked, nodes), nodes)
    return tuple(
        (
            need_of(
                asked,
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
    asked: Resources,
    *,
    tasks: int,
    gpus: int,
    default_mem_per_cpu_bytes: int,
    whole_nodes: bool = False,
    tenant: Tenant | None = None,
) -> Need:
    """What a node must give for so many of the tasks, and GPUs."""
    exclusive = asked.exclusive or whole_nodes
    cpus = _cpus(asked, tasks, gpus)
    return Need(
        tasks=tasks,
        cpus=cpus * asked.cpus_held_each(),
        mem_bytes=_memory(asked, cpus, gpus, default_mem_per_cpu_bytes),
        gpus=gpus,
        gpu_type=asked.gpus.type.lower(),
        gpu_share_pct=100 if exclusive else asked.gpus.share_pct or 100,
        exclusive=exclusive,
        all_memory=exclusive and not _asks_for_memory(asked),
        tenant=tenant,
    )


def _cpus(asked: Resources, tasks: int, gpus: int) -> int:
    """Those that are used."""
    holding = 1 if asked.overcommit else tasks
    each = (
        0 if asked.overcommit else asked.tasks_per_node or 0
    )  # more than the node's tasks where --ntasks is given
    by_gpus = gpus * (asked.cpus_per_gpu or 0)
    return max(1, max(holding, each) * asked.cpus_used_by_task(), by_gpus, asked.cpus_per_node_min or 0)


def _tasks_per_node(asked: Resources, nodes: int) -> list[tuple[int, int]]:
    """(tasks, on how many nodes), the most first."""
    if asked.tasks_per_node is not None and asked.tasks is None:
        return [(asked.tasks_per_node, nodes)]
    return _evenly(max(nodes if asked.tasks is None else asked.tasks, nodes), nodes)


def _gpus_per_node(asked: Resources, layout: list[tuple[int, int]], nodes: int) -> list[tuple[int, int, int]]:
    """(tasks, GPUs, on how many nodes), the most first; [] where not every node gets one of the job's GPUs."""
    gpus = asked.gpus
    if gpus.share_pct is not None:
        return [(tasks, 1, count) for tasks, count in layout]
    if gpus.per_node is not None:
        return [(tasks, gpus.per_node, count) for tasks, count in layout]
    if gpus.per_task is not None or gpus.total is None:
        return [(tasks, tasks * (gpus.per_task or 0), count) for tasks, count in layout]
    return [] if gpus.total < nodes else _together(layout, _evenly(gpus.total, nodes))


def _evenly(total: int, nodes: int) -> list[tuple[int, int]]:
    each, left = divmod(total, nodes)
    return [(each + 1, left), (each, nodes - left)] if left else [(each, nodes)]


def _together(tasks: list[tuple[int, int]], gpus: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Two layouts of the same nodes as one."""
    found, theirs = [], iter(gpus)
    each, room = 0, 0
    for count, nodes in tasks:
        while nodes:
            if not room:
                each, room = next(theirs)
            both = min(nodes, room)
            found.append((count, each, both))
            nodes, room = nodes - both, room - both
    return found


def _asks_for_memory(asked: Resources) -> bool:
    amounts = (asked.mem_per_node_bytes, asked.mem_per_cpu_bytes, asked.mem_per_gpu_bytes)
    return any(amount is not None for amount in amounts)


def _memory(asked: Resources, cpus: int, gpus: int, default_per_cpu: int) -> int:
    if asked.mem_per_node_bytes is not None:
        return asked.mem_per_node_bytes or WHOLE_NODE
    if asked.mem_per_cpu_bytes is not None:
        return asked.mem_per_cpu_bytes * cpus
    if asked.mem_per_gpu_bytes is not None:
        return asked.mem_per_gpu_bytes * gpus
    return default_per_cpu * cpus
