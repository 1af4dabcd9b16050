"""Placement: chooses nodes for a gang among those that could take it.

It uses best fit, so that large gaps stay large. Nodes are ordered by weight, then by the fewest GPUs left
over, then by the fewest CPUs, then by name. A job without GPUs goes to the node with the fewest free GPUs. A
gang uses as few switches as possible, and the fullest one that has enough nodes first (Slurm's
topology/tree).

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from warpdeck.model import Allocation, GpuUuid, Share
from warpdeck.policy.input.view import GpuView
from warpdeck.policy.resources.cluster import CPUS, GPUS, MEM, Cluster, Ints, Mask
from warpdeck.policy.resources.demand import WHOLE_NODE, NodeRequirement, Owner
from warpdeck.policy.resources.gpus import GpuTable
from warpdeck.policy.resources.shared_gpus import SharedGpu
from warpdeck.policy.resources.timeline import Timeline

from .gangs import Gang, runs
from .node_filling import filled, unevenly
from .request_class import Placement, RequestClass


def place_now(timeline: Timeline, request_class: RequestClass, duration_s: float) -> Placement | None:
    """Return nodes on which the request fits from now on for the duration, or None. Nothing is taken yet."""
    for gang in request_class.gangs:
        for mask in request_class.masks:
            rows = [timeline.fitting_now(need, duration_s, mask) for need, _ in gang.requirements]
            placement = choose(timeline, gang, rows, timeline.now)
            if placement is not None:
                return (
                    filled(timeline, request_class, placement, timeline.now + duration_s)
                    if request_class.fills
                    else placement
                )
    return unevenly(timeline, request_class, duration_s) if request_class.fills else None


def place_later(
    timeline: Timeline, request_class: RequestClass, duration_s: float
) -> tuple[float, Placement] | None:
    """Return the earliest time from which the request fits for the duration, and the nodes.

    None if the request fits nowhere in the known future.
    """
    best: tuple[float, Placement] | None = None
    for gang in request_class.gangs:
        for mask in request_class.masks:
            pick = partial(choose, timeline, gang)
            found = timeline.earliest(gang.requirements, duration_s, mask, choose=pick)
            if found is not None and (best is None or found[0] < best[0]):
                best = found
    return best


def choose(timeline: Timeline, gang: Gang, rows: Sequence[Ints], at: float) -> Placement | None:
    """Choose nodes for each requirement among the rows that satisfy it, by the rule in the module docstring.
    None if the gang does not fit.
    """
    total = 0
    for (_, count), fitting in zip(gang.requirements, rows, strict=True):
        total += count
        if len(fitting) < total:
            return None
    if not gang.contiguous:
        return _choose(timeline, gang, rows, at)
    placements = (_choose(timeline, gang, inside, at) for inside in runs(timeline.cluster, gang, rows))
    return next((placement for placement in placements if placement is not None), None)


def _choose(timeline: Timeline, gang: Gang, rows: Sequence[Ints], at: float) -> Placement | None:
    cluster, max_switches = timeline.cluster, gang.max_switches
    several = gang.nodes > 1 and cluster.switch_count > 1
    switches = _switches(cluster, gang, rows) if several else []
    if several and (not switches or (max_switches is not None and len(switches) > max_switches)):
        return None
    chosen: list[tuple[int, NodeRequirement]] = []
    used: Ints = np.zeros(0, dtype=np.int64)
    for (need, count), fitting in zip(gang.requirements, rows, strict=True):
        fitting = np.setdiff1d(fitting, used, assume_unique=True) if len(used) else fitting
        if len(fitting) < count:
            return None
        picked = _best_first(timeline, need, fitting, at)
        if several:
            order = [*cluster.switch[list(gang.named)].tolist(), *switches] if gang.named else switches
            rank = [
                order.index(each) if each in order else MAX_RANK for each in cluster.switch[picked].tolist()
            ]
            picked = picked[np.argsort(rank, kind="stable")]
        if gang.named:
            picked = picked[np.argsort(~np.isin(picked, gang.named), kind="stable")]
        picked = picked[:count]
        chosen += [(int(row), need) for row in np.sort(picked)]
        used = np.concatenate((used, picked))
    return chosen if not gang.named or _has_named(cluster, gang, used) else None


def _has_named(cluster: Cluster, gang: Gang, used: Ints) -> bool:
    """Return whether the chosen nodes include all named nodes, or consist only of named nodes, and use few
    enough switches.
    """
    named = int(np.isin(used, gang.named).sum())
    if named < min(len(gang.named), gang.nodes):
        return False
    return gang.max_switches is None or len(np.unique(cluster.switch[used])) <= gang.max_switches


MAX_RANK = 1 << 30
"""Sort rank of the switches that a gang does not use."""


def _switches(cluster: Cluster, gang: Gang, rows: Sequence[Ints]) -> list[int]:
    """Return the smallest set of switches that can hold the gang, or [] if there is none.

    This is the fullest single switch that has enough nodes, or else the largest switches.
    """
    sizes = np.array([np.bincount(cluster.switch[fit], minlength=cluster.switch_count) for fit in rows])
    needed = np.cumsum([count for _, count in gang.requirements])[:, None]
    enough = np.flatnonzero((sizes >= needed).all(axis=0))
    if len(enough):
        return [int(enough[np.argmin(sizes[-1][enough])])]
    order = np.argsort(-sizes[-1], kind="stable")
    holds = (np.cumsum(sizes[:, order], axis=1) >= needed).all(axis=0)
    if not holds.any():
        return []
    most = int(np.argmax(holds))
    last = sizes[:, order[:most]].sum(axis=1)[:, None] + sizes[:, order[most:]]
    fitting = order[most:][(last >= needed).all(axis=0)]
    return [*order[:most].tolist(), int(fitting[np.argmin(sizes[-1][fitting])])]


def _best_first(timeline: Timeline, need: NodeRequirement, rows: Ints, at: float) -> Ints:
    if len(rows) == 1:
        return rows
    free = timeline.free_now[:, rows] if at <= timeline.now else timeline.at(rows, at)
    cluster = timeline.cluster
    if need.gpu_share_pct < 100 and timeline.shared:
        shared = timeline.shared
        fits = [
            any(gpu.left_now >= need.gpu_share_pct for gpu in shared.get(row, {}).values())
            for row in rows.tolist()
        ]
        unshared = ~np.array(fits)
        return rows[np.lexsort((rows, free[CPUS], free[GPUS], unshared, cluster.weight[rows]))]
    if at > timeline.now:
        # A reservation for later should use nodes on which nothing is free now. Then resources that are free
        # now stay usable both before and after the reservation.
        now = timeline.free_now[:, rows]
        return rows[np.lexsort((rows, now[CPUS], now[GPUS], free[CPUS], free[GPUS], cluster.weight[rows]))]
    return rows[np.lexsort((rows, free[CPUS], free[GPUS], cluster.weight[rows]))]


def allocate(timeline: Timeline, gpu_table: GpuTable, placement: Placement, ends: float) -> Allocation:
    """Return the shares of a gang that starts now and may run until `ends`, with GPUs by index.

    The GPU board is not changed; `commit` does that.
    """
    shares = []
    for row, need in placement:
        node = timeline.cluster.nodes[row]
        gpus = _pick(timeline, gpu_table, row, need, ends)
        shares.append(
            Share(
                node=node.name,
                cpus=max(node.cpus, need.cpus) if need.exclusive else need.cpus,
                mem_bytes=_memory(timeline, row, need, ends),
                tasks=need.tasks,
                gpus=tuple(gpu.index for gpu in gpus),
                gpu_uuids=tuple(GpuUuid(gpu.uuid) for gpu in gpus),
                gpu_share_pct=need.gpu_share_pct,
            )
        )
    return Allocation(shares=tuple(shares))


def _memory(timeline: Timeline, row: int, need: NodeRequirement, ends: float) -> int:
    if need.all_memory:
        return int(timeline.least(row, timeline.now, ends)[MEM])
    return timeline.cluster.nodes[row].mem_bytes if need.mem_bytes == WHOLE_NODE else need.mem_bytes


def _pick(
    timeline: Timeline, gpu_table: GpuTable, row: int, need: NodeRequirement, ends: float
) -> list[GpuView]:
    if need.exclusive:
        return gpu_table.free_gpus(row)
    if not need.gpus:
        return []
    if need.gpu_share_pct < 100:
        gpu = gpu_table.fitting_shared_gpu(timeline, row, need, ends)
        if gpu is not None:
            return [gpu]
    columns = timeline.cluster.type_columns
    if not columns:
        return gpu_table.pick(row, need.gpus, need.gpu_type)
    least = timeline.least(row, timeline.now, ends)
    most = {name: int(least[column]) for name, column in columns.items()}
    return gpu_table.pick(row, need.gpus, need.gpu_type, most=most)


def commit(
    timeline: Timeline, gpu_table: GpuTable, allocation: Allocation, ends: float, *, owner: Owner | None
) -> None:
    """Take the allocation from the timeline and the GPU board, from now until `ends`."""
    cluster = timeline.cluster
    for share in allocation.shares:
        row = cluster.row[share.node]
        timeline.take(row, timeline.now, ends, cluster.amounts(share))
        timeline.add_user(row, timeline.now, ends, owner)
        gpu_table.hold(timeline, row, share, ends=ends)


def uncommit(
    timeline: Timeline, gpu_table: GpuTable, allocation: Allocation, ends: float, *, owner: Owner | None
) -> None:
    """Undo a `commit`."""
    cluster = timeline.cluster
    for share in allocation.shares:
        row = cluster.row[share.node]
        timeline.take(row, timeline.now, ends, -cluster.amounts(share))
        timeline.remove_user(row, timeline.now, ends, owner)
        gpu_table.unhold(timeline, row, share, ends=ends)


class Reserved(NamedTuple):
    """Resources reserved on one node for an interval.

    If a part of a GPU is reserved, `part` is the shared GPU and `booking` the entry made for it.
    """

    row: int
    start: float
    end: float
    amounts: Ints
    part: SharedGpu | None
    booking: tuple[float, float, int]
    owner: Owner | None


Taken = list[Reserved]
ALL_COMMON: Mapping[int, Mask] = {}


def reserve(
    timeline: Timeline,
    placement: Placement,
    start: float,
    end: float,
    *,
    ready: float | None = None,
    common: Mapping[int, Mask] = ALL_COMMON,
) -> Taken:
    """Reserve these nodes for a gang in an interval.

    `ready` is the time at which preempted jobs have left. `common` restricts the reservation to some columns,
    by row.
    """
    begins = start if ready is None else ready
    taken: Taken = []
    for row, need in placement:
        amounts = whole_amounts(timeline.cluster, row, need)
        taken_here = common.get(row)
        has_gpus = taken_here is None or taken_here[GPUS]
        part = _part_on(timeline, row, need, begins, end) if has_gpus else None
        if part is not None:
            amounts[GPUS:] = 0
        elif has_gpus:
            _name_types(timeline, row, amounts, start, end)
        if taken_here is not None:
            amounts *= taken_here
        kept = Reserved(row, start, end, amounts, part, (begins, end, need.gpu_share_pct), need.owner)
        timeline.take(row, start, end, amounts)
        timeline.add_user(row, start, end, need.owner)
        if part is not None:
            book = partial(part.booked.append, kept.booking)
            timeline.reshare(row, part, book, times_unix=kept.booking[:2])
        taken.append(kept)
    return taken


def release(timeline: Timeline, taken: Taken) -> None:
    """Undo a `reserve`."""
    for kept in taken:
        timeline.take(kept.row, kept.start, kept.end, -kept.amounts)
        timeline.remove_user(kept.row, kept.start, kept.end, kept.owner)
        if kept.part is not None:
            undo = partial(kept.part.booked.remove, kept.booking)
            timeline.reshare(kept.row, kept.part, undo, times_unix=())


def _part_on(
    timeline: Timeline, row: int, need: NodeRequirement, start: float, end: float
) -> SharedGpu | None:
    """Return the fullest shared GPU that has enough room for the part in the interval.

    None if a whole GPU must be divided for it.
    """
    if need.gpu_share_pct >= 100 or row not in timeline.shared:
        return None
    times = timeline.times[row]
    first = max(0, int((times <= start).sum()) - 1)
    last = max(first + 1, int((times < end).sum()))
    fitting = []
    for gpu in timeline.shared[row].values():
        whole = timeline.free[timeline.cluster.counted_in(gpu.gpu_type)[-1], row] >= 1
        fits = gpu.fits_part(need.gpu_share_pct, times, whole=whole)[first:last].all()
        if fits and need.gpu_type in ("", gpu.gpu_type):
            fitting.append(gpu)
    return min(fitting, key=lambda gpu: (gpu.left_now, gpu.index), default=None)


def whole_amounts(cluster: Cluster, row: int, need: NodeRequirement) -> Ints:
    """Return all amounts that a requirement takes of this node, by column.

    A part of a GPU counts as one GPU, because it is not known yet which GPU it will be.
    """
    amounts = cluster.need_amounts(need)
    if need.exclusive:
        amounts[CPUS] = max(need.cpus, int(cluster.capacity[CPUS, row]))
    if need.mem_bytes == WHOLE_NODE:
        amounts[MEM] = cluster.capacity[MEM, row]
    if need.gpu_share_pct < 100:
        amounts[GPUS] = 1
        amounts[cluster.columns_of(need.gpu_type)[:1] if need.gpu_type else GPUS] = 1
    return amounts


def _name_types(timeline: Timeline, row: int, amounts: Ints, start: float, end: float) -> None:
    """Name the types of the GPUs that are reserved on nodes with several GPU types.

    GPUs of any type are reserved as GPUs of those types that are free during the whole interval.
    """
    columns = list(timeline.cluster.type_columns.values())
    left = int(amounts[GPUS] - amounts[columns].sum()) if columns else 0
    if left <= 0:
        return
    least, first = timeline.least(row, start, end), timeline.least(row, start, start)
    for free in (least, first):
        for column in sorted(columns, key=lambda column: -int(free[column])):
            more = min(left, max(0, int(free[column] - amounts[column])))
            amounts[column] += more
            left -= more
