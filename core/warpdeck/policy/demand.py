"""From what was asked to what each node must give: a gang of n nodes, each with tasks, CPUs, memory and GPUs. Pure."""

from __future__ import annotations

import msgspec

from warpdeck.model import Resources

WHOLE_NODE = -1
"""As a memory figure: all of it (`--mem=0`)."""


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


def needs(
    asked: Resources, nodes: int, *, default_mem_per_cpu_bytes: int, whole_nodes: bool = False
) -> tuple[Need, ...]:
    """What each of so many nodes must give, the largest first; () if the tasks cannot be laid out so.

    `whole_nodes`: its partition gives whole nodes only, as --exclusive does. Slurm's rule for both: all CPUs and GPUs, and
    as much memory as was asked for.
    """
    exclusive = asked.exclusive or whole_nodes
    layout = _tasks_per_node(asked, nodes)
    gpus = _gpus_per_node(asked, layout)
    if gpus is None:
        return ()
    parts = list(zip(layout, gpus, strict=True))
    found: dict[tuple[int, int], Need] = {}
    for tasks, count in dict.fromkeys(parts):  # most nodes of a gang give the same
        cpus = _cpus(asked, tasks, count)
        found[tasks, count] = Need(
            tasks=tasks,
            cpus=cpus,
            mem_bytes=_memory(asked, cpus, count, default_mem_per_cpu_bytes),
            gpus=count,
            gpu_type=asked.gpus.type.lower(),
            gpu_share_pct=100 if exclusive else asked.gpus.share_pct or 100,
            exclusive=exclusive,
            all_memory=exclusive and not _asks_for_memory(asked),
        )
    return tuple(found[part] for part in parts)


def _cpus(asked: Resources, tasks: int, gpus: int) -> int:
    holding = 1 if asked.overcommit else tasks
    by_gpus = gpus * (asked.cpus_per_gpu or 0)
    return max(1, holding * asked.cpus_per_task, by_gpus, asked.cpus_per_node_min or 0)


def _tasks_per_node(asked: Resources, nodes: int) -> list[int]:
    total = asked.tasks if asked.tasks is not None else nodes * (asked.tasks_per_node or 1)
    total = max(total, nodes)
    each, left = divmod(total, nodes)
    if asked.tasks_per_node is not None and asked.tasks is None:
        return [asked.tasks_per_node] * nodes
    return [each + 1] * left + [each] * (nodes - left)


def _gpus_per_node(asked: Resources, layout: list[int]) -> list[int] | None:
    gpus = asked.gpus
    if gpus.share_pct is not None:
        return [1] * len(layout)
    if gpus.per_node is not None:
        return [gpus.per_node] * len(layout)
    if gpus.per_task is not None:
        return [tasks * gpus.per_task for tasks in layout]
    if gpus.total is None:
        return [0] * len(layout)
    if gpus.total < len(layout):
        return None
    each, left = divmod(gpus.total, len(layout))
    return [each + 1] * left + [each] * (len(layout) - left)


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
