"""Uneven distribution of tasks over the nodes of a gang: as in Slurm, the first nodes take as many as they
can hold.

The search for a placement assumes evenly distributed tasks, which asks the least of the most loaded node.
This module then determines the additional free resources of these nodes and fills them in the order of their
names (`dealing.fill`). Each node also gets its required minimum (--mincpus, --ntasks-per-node). If this
yields more CPUs than the tasks need, the tasks are dealt over them (`dealing.deal`). If there is no placement
with an even distribution now, `unevenly` looks for nodes of which some have little free and others much. For
future starts only even distributions are considered.

Unlike in Slurm, tasks stay evenly distributed if GPUs are requested for the job or for each node. Seven tasks
next to four GPUs, and one next to the other four, would be of no use. GPUs requested per task go with their
tasks.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

import numpy as np

from warpdeck.policy.resources.cluster import CPUS, GPUS, MEM, Cluster, Ints
from warpdeck.policy.resources.timeline import Timeline
from warpdeck.policy.resources.tres import MIB

from .distribution import deal, fill
from .request_shape import Placement, RequestClass, least_need, may_fill, need_for


def filled(timeline: Timeline, shape: RequestClass, spot: Placement, until: float) -> Placement:
    """Return the same nodes, sorted by name, filled one after the other with the resources that are free
    there until `until`.
    """
    nodes = sorted(spot, key=lambda pair: pair[0])
    rows = np.array([row for row, _ in nodes], dtype=np.int64)
    found = np.array([need.tasks for _, need in nodes], dtype=np.int64)
    rooms = np.maximum(_rooms(timeline.cluster, shape, timeline.least_on(rows, until)), found)
    return _dealt(shape, rows.tolist(), rooms.tolist())


def unevenly(timeline: Timeline, shape: RequestClass, duration_s: float) -> Placement | None:
    """Return a placement on nodes with room for different numbers of tasks, those with the most room first;
    None if there is none.
    """
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


def _dealt(shape: RequestClass, rows: list[int], rooms: list[int]) -> Placement:
    """Distribute all tasks over these rows, in ascending order, with room for `rooms` tasks each."""
    asked = shape.asked
    total = max(asked.tasks or 0, len(rows))
    each = max(1, asked.tasks_per_node or 0, -(-(asked.cpus_per_node_min or 0) // asked.cpus_used_by_task()))
    fewest = len(rows) if asked.nodes_open else asked.nodes_min
    slots = fill(rooms, total, each=min(each, *rooms), fewest=fewest)
    return [(row, need_for(shape, count)) for row, count in zip(rows, deal(slots, total), strict=True)]


def _rooms(cluster: Cluster, shape: RequestClass, free: Ints) -> Ints:
    """Return for how many tasks each node has room, within the limits per node. `free` is (column, row)."""
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


def _mem_bytes_of_task(shape: RequestClass) -> int:
    """Return the memory that each additional task takes of a node."""
    asked = shape.asked
    if asked.mem_per_node_bytes is not None:
        return 0
    if asked.mem_per_cpu_bytes is not None:
        return asked.mem_per_cpu_bytes * asked.cpus_used_by_task()
    if asked.mem_per_gpu_bytes is not None:
        return asked.mem_per_gpu_bytes * (asked.gpus.per_task or 0)
    return shape.default_mem_per_cpu_bytes * asked.cpus_used_by_task()
