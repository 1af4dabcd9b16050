"""Uneven distribution of tasks over the nodes of a gang: as in Slurm, the first nodes take as many tasks as
they can hold.

The search for a placement assumes evenly distributed tasks, because this asks least of the most loaded node.
This module then determines how many tasks these nodes could hold and fills them in the order of their names
(`distribution.distribute_block`). Each node also gets its required minimum (--mincpus, --ntasks-per-node). If
the nodes then have more CPUs than the tasks need, the tasks are distributed over them round-robin
(`distribution.distribute_cyclic`). If no placement with an even distribution is free now, `unevenly` looks
for nodes with different amounts of free resources. For future starts only even distributions are considered.

Unlike in Slurm, tasks stay evenly distributed if GPUs are requested for the job or for each node. Seven tasks
next to four GPUs, and one next to the other four, would be of no use. GPUs requested per task are placed with
their tasks.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

import numpy as np

from warpdeck.policy.resources.cluster import CPUS, GPUS, MEM, Cluster, Ints
from warpdeck.policy.resources.timeline import Timeline
from warpdeck.policy.resources.tres import MIB

from .distribution import distribute_block, distribute_cyclic
from .request_class import Placement, RequestClass, may_distribute_unevenly, minimum_requirement, need_for


def filled(timeline: Timeline, request_class: RequestClass, placement: Placement, until: float) -> Placement:
    """Return a placement on the same nodes, sorted by name and filled one after the other with the resources
    that are free until `until`.
    """
    nodes = sorted(placement, key=lambda pair: pair[0])
    rows = np.array([row for row, _ in nodes], dtype=np.int64)
    found = np.array([need.tasks for _, need in nodes], dtype=np.int64)
    capacities = np.maximum(
        _task_capacities(timeline.cluster, request_class, timeline.least_on(rows, until)), found
    )
    return _distribute(request_class, rows.tolist(), capacities.tolist())


def unevenly(timeline: Timeline, request_class: RequestClass, duration_s: float) -> Placement | None:
    """Return a placement on nodes that hold different numbers of tasks, the most roomy nodes first; None if
    there is none.
    """
    least = minimum_requirement(request_class)
    for gang in request_class.gangs:
        if gang.is_picky or not may_distribute_unevenly(request_class.requested, gang):
            continue
        for mask in request_class.masks:
            rows = timeline.fitting_now(least, duration_s, mask)
            if len(rows) < gang.nodes:
                continue
            capacities = _task_capacities(
                timeline.cluster, request_class, timeline.least_on(rows, timeline.now + duration_s)
            )
            best = np.sort(np.lexsort((rows, -capacities))[: gang.nodes])
            if capacities[best].sum() >= (request_class.requested.tasks or 0) and capacities[best].min() > 0:
                return _distribute(request_class, rows[best].tolist(), capacities[best].tolist())
    return None


def _distribute(request_class: RequestClass, rows: list[int], capacities: list[int]) -> Placement:
    """Distribute all tasks over these rows, in ascending order. `capacities` is the number of tasks that each
    row can hold.
    """
    requested = request_class.requested
    total = max(requested.tasks or 0, len(rows))
    each = max(
        1,
        requested.tasks_per_node or 0,
        -(-(requested.cpus_per_node_min or 0) // requested.cpus_used_by_task()),
    )
    fewest = len(rows) if requested.nodes_open else requested.nodes_min
    slots = distribute_block(capacities, total, each=min(each, *capacities), fewest=fewest)
    return [
        (row, need_for(request_class, count))
        for row, count in zip(rows, distribute_cyclic(slots, total), strict=True)
    ]


def _task_capacities(cluster: Cluster, request_class: RequestClass, free: Ints) -> Ints:
    """Return the number of tasks that each node can hold, within the limits per node. `free` is (column,
    row).
    """
    requested, mem_bytes = request_class.requested, _mem_bytes_of_task(request_class)
    gpus, kind = requested.gpus.per_task or 0, requested.gpus.type.lower()
    column = cluster.columns_of(kind)[0] if kind else GPUS
    capacities: Ints = free[CPUS] // requested.cpus_of_task()
    for amount, there in ((mem_bytes, free[MEM]), (gpus, free[column])):
        if amount:
            capacities = np.minimum(capacities, there // amount)
    each = {
        "cpu": requested.cpus_of_task(),
        "mem": mem_bytes // MIB,
        "gres/gpu": gpus,
        f"gres/gpu:{kind}": gpus,
    }
    bounds = [most // each[name] for name, most in request_class.most_per_node.items() if each.get(name)]
    if requested.tasks_per_node is not None:
        bounds.append(requested.tasks_per_node)
    return np.minimum(capacities, min(bounds)) if bounds else capacities


def _mem_bytes_of_task(request_class: RequestClass) -> int:
    """Return the memory that each additional task takes on a node."""
    requested = request_class.requested
    if requested.mem_per_node_bytes is not None:
        return 0
    if requested.mem_per_cpu_bytes is not None:
        return requested.mem_per_cpu_bytes * requested.cpus_used_by_task()
    if requested.mem_per_gpu_bytes is not None:
        return requested.mem_per_gpu_bytes * (requested.gpus.per_task or 0)
    return request_class.default_mem_per_cpu_bytes * requested.cpus_used_by_task()
