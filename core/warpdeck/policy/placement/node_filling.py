"""Where tasks may be spread unevenly: the first nodes of a gang take as many as they have room for, as Slurm has it. Pure.

A spot is looked for with the tasks spread evenly, which asks least of the node that must give most. Here what its nodes have
beyond that is looked up, and they are filled in the order of their names (`dealing.fill`). What every node must give in any case
(--mincpus, --ntasks-per-node) it gives, and CPUs that are more than the tasks need are dealt over (`dealing.deal`). Where there
is no such spot now, there may be one on nodes of which some have little free and others much (`unevenly`): of what lies in the
future only even ones are known.

Unlike Slurm's, tasks stay even where GPUs are asked for the job or for each node: seven tasks beside four GPUs, and one beside
the other four, are no use to anybody. GPUs of tasks go with them.
"""

from __future__ import annotations

import numpy as np

from warpdeck.policy.resources.cluster import CPUS, GPUS, MEM, Cluster, Ints
from warpdeck.policy.resources.timeline import Timeline
from warpdeck.policy.resources.tres import MIB

from .distribution import deal, fill
from .request_shape import Shape, Spot, least_need, may_fill, need_for


def filled(timeline: Timeline, shape: Shape, spot: Spot, until: float) -> Spot:
    """The same nodes, by name, filled one after the other with what is free there from now until then."""
    nodes = sorted(spot, key=lambda pair: pair[0])
    rows = np.array([row for row, _ in nodes], dtype=np.int64)
    found = np.array([need.tasks for _, need in nodes], dtype=np.int64)
    rooms = np.maximum(_rooms(timeline.cluster, shape, timeline.least_on(rows, until)), found)
    return _dealt(shape, rows.tolist(), rooms.tolist())


def unevenly(timeline: Timeline, shape: Shape, duration_s: float) -> Spot | None:
    """Where some nodes have room for few tasks, and others for all the others: the roomiest; None if nowhere."""
    least = least_need(shape)
    for gang in shape.gangs:
        if gang.is_picky or not may_fill(shape.asked, gang):
            continue
        for mask in shape.masks:
            rows = timeline.fitting_now(least, duration_s, mask)
            if len(rows) < gang.nodes:
                continue
            rooms = _rooms(timeline.cluster, shape, timeline.least_on(rows, timeline.now + duration_s))
            best = np.sort(np.lexsort((rows, -rooms))[: gang.nodes])
            if rooms[best].sum() >= (shape.asked.tasks or 0) and rooms[best].min() > 0:
                return _dealt(shape, rows[best].tolist(), rooms[best].tolist())
    return None


def _dealt(shape: Shape, rows: list[int], rooms: list[int]) -> Spot:
    """All tasks on these rows, ascending, which have room for so many."""
    asked = shape.asked
    total = max(asked.tasks or 0, len(rows))
    each = max(1, asked.tasks_per_node or 0, -(-(asked.cpus_per_node_min or 0) // asked.cpus_used_by_task()))
    fewest = len(rows) if asked.nodes_open else asked.nodes_min
    slots = fill(rooms, total, each=min(each, *rooms), fewest=fewest)
    return [(row, need_for(shape, count)) for row, count in zip(rows, deal(slots, total), strict=True)]


def _rooms(cluster: Cluster, shape: Shape, free: Ints) -> Ints:
    """For how many tasks there is room on each of some nodes, within the limits on every node. `free` is (column, row)."""
    asked, mem_bytes = shape.asked, _mem_bytes_of_task(shape)
    gpus, kind = asked.gpus.per_task or 0, asked.gpus.type.lower()
    column = cluster.columns_of(kind)[0] if kind else GPUS
    rooms: Ints = free[CPUS] // asked.cpus_of_task()
    for amount, there in ((mem_bytes, free[MEM]), (gpus, free[column])):
        if amount:
            rooms = np.minimum(rooms, there // amount)
    each = {"cpu": asked.cpus_of_task(), "mem": mem_bytes // MIB, "gres/gpu": gpus, f"gres/gpu:{kind}": gpus}
    bounds = [most // each[name] for name, most in shape.most_per_node.items() if each.get(name)]
    if asked.tasks_per_node is not None:
        bounds.append(asked.tasks_per_node)
    return np.minimum(rooms, min(bounds)) if bounds else rooms


def _mem_bytes_of_task(shape: Shape) -> int:
    """What a task more takes of a node's memory."""
    asked = shape.asked
    if asked.mem_per_node_bytes is not None:
        return 0
    if asked.mem_per_cpu_bytes is not None:
        return asked.mem_per_cpu_bytes * asked.cpus_used_by_task()
    if asked.mem_per_gpu_bytes is not None:
        return asked.mem_per_gpu_bytes * (asked.gpus.per_task or 0)
    return shape.default_mem_per_cpu_bytes * asked.cpus_used_by_task()
