"""Where tasks may be spread unevenly: the first nodes of a gang take as many as they have room for, as Slurm has it. Pure.

A spot is looked for with the tasks spread evenly, which asks least of the node that must give most. Here what its nodes have
beyond that is looked up, and they are filled in the order of their names (`dealing.fill`). What every node must give in any case
(--mincpus, --ntasks-per-node) it gives, and CPUs that are more than the tasks need are dealt over (`dealing.deal`).

Unlike Slurm's, tasks stay even where GPUs are asked for the job or for each node: seven tasks beside four GPUs, and one beside
the other four, are no use to anybody. GPUs of tasks go with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .cluster import CPUS, GPUS, MEM
from .dealing import deal, fill
from .demand import Need, need_of
from .tres import MIB

if TYPE_CHECKING:
    from warpdeck.model import Resources

    from .gangs import Gang
    from .placement import Shape, Spot
    from .timeline import Timeline


def may_fill(asked: Resources, gang: Gang) -> bool:
    """Whether its tasks may be spread otherwise than evenly: over whole nodes, and where they share CPUs, they are dealt."""
    if gang.nodes < 2 or asked.tasks is None or asked.tasks <= gang.nodes or asked.overcommit:
        return False
    gpus = asked.gpus
    if gpus.total or gpus.per_node or gpus.share_pct is not None:
        return False
    return not any(need.exclusive for need, _ in gang.wanted)


def filled(timeline: Timeline, shape: Shape, spot: Spot, until: float) -> Spot:
    """The same nodes, by name, filled one after the other with what is free there from now until then."""
    asked = shape.asked
    each = max(1, asked.tasks_per_node or 0, -(-(asked.cpus_per_node_min or 0) // asked.cpus_per_task))
    nodes = sorted(spot, key=lambda pair: pair[0])
    total = sum(need.tasks for _, need in nodes)
    rooms = [_room(timeline, shape, row, need, until) for row, need in nodes]
    slots = fill(rooms, total, each=each, fewest=len(nodes) if asked.nodes_open else asked.nodes_min)
    tasks = deal(slots, total)
    return [
        (row, need if count == need.tasks else _with_tasks(shape, need, count))
        for (row, need), count in zip(nodes, tasks, strict=True)
    ]


def _with_tasks(shape: Shape, need: Need, tasks: int) -> Need:
    per_task = shape.asked.gpus.per_task
    return need_of(
        shape.asked,
        tasks=tasks,
        gpus=tasks * (per_task or 0),
        default_mem_per_cpu_bytes=shape.default_mem_per_cpu_bytes,
    )


def _room(timeline: Timeline, shape: Shape, row: int, need: Need, until: float) -> int:
    """For how many tasks there is room on a node, within the limits on each node; for those that it was found for in any case."""
    asked, cluster = shape.asked, timeline.cluster
    free = timeline.least(row, timeline.now, until)
    one, two = _with_tasks(shape, need, 1), _with_tasks(shape, need, 2)
    mem_bytes = two.mem_bytes - one.mem_bytes
    holds = [int(free[CPUS]) // asked.cpus_per_task]
    holds += [int(free[MEM]) // mem_bytes] if mem_bytes > 0 else []
    if asked.gpus.per_task:
        column = cluster.columns_of(need.gpu_type)[0] if need.gpu_type else GPUS
        holds.append(int(free[column]) // asked.gpus.per_task)
    most = shape.most_per_node
    per_task = {"cpu": asked.cpus_per_task, "mem": mem_bytes // MIB, "gres/gpu": asked.gpus.per_task or 0}
    if need.gpu_type:
        per_task[f"gres/gpu:{need.gpu_type}"] = asked.gpus.per_task or 0
    holds += [count // per_task[name] for name, count in most.items() if per_task.get(name)]
    if asked.tasks_per_node is not None:
        holds.append(asked.tasks_per_node)
    return max(min(holds), need.tasks)
