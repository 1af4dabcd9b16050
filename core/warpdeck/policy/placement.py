"""Where a gang goes: which of the nodes that could take it. Pure.

Best fit, so that large holes stay large: nodes of low weight, then least GPUs left over, then least CPUs, then by name; a
job without GPUs goes where fewest GPUs are free. A gang goes to as few switches as it can, the fullest that has enough
first (Slurm's topology/tree).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from warpdeck.model import Allocation, GpuUuid, NodeName, Resources, Share

from .cluster import CPUS, GPUS, MEM, Cluster, Ints, Mask
from .demand import WHOLE_NODE, Need, gang_sizes, needs
from .gpus import GpuBoard
from .timeline import Timeline


class Gang(msgspec.Struct, frozen=True, kw_only=True):
    """A layout of a request over so many nodes: (need, on how many nodes), larger needs first."""

    nodes: int
    wanted: tuple[tuple[Need, int], ...]


class Shape:
    """A kind of request: everything about placing it that does not change during a pass. Equal requests share one."""

    def __init__(
        self,
        cluster: Cluster,
        asked: Resources,
        *,
        allowed: frozenset[NodeName] | None,
        exclusive: bool,
        default_mem_per_cpu_bytes: int,
    ) -> None:
        self.asked = asked
        self.masks: list[Mask] = cluster.rows_for(asked, allowed)
        self.gangs: list[Gang] = []
        for nodes in gang_sizes(asked):
            if nodes > len(cluster) or len(self.gangs) >= MAX_SIZES:
                break  # before its needs are laid out: a range may end at a hundred thousand nodes
            found = needs(asked, nodes, default_mem_per_cpu_bytes=default_mem_per_cpu_bytes)
            if exclusive:
                found = tuple(msgspec.structs.replace(need, exclusive=True) for need in found)
            if found:
                self.gangs.append(Gang(nodes=nodes, wanted=_grouped(found)))

    def usable(self) -> Mask:
        """The nodes that the request allows at all."""
        found = self.masks[0].copy()
        for mask in self.masks[1:]:
            found |= mask
        return found


MAX_SIZES = 64
"""Numbers of nodes that are tried for --nodes=MIN-MAX."""

Spot = list[tuple[int, Need]]
"""(row, what it gives) for each node of a gang, in rank order."""


def _grouped(found: Sequence[Need]) -> tuple[tuple[Need, int], ...]:
    groups: dict[Need, int] = {}
    for need in found:
        groups[need] = groups.get(need, 0) + 1
    ordered = sorted(groups.items(), key=lambda pair: (pair[0].gpus, pair[0].cpus, pair[0].mem_bytes))
    return tuple(reversed(ordered))


def place_now(timeline: Timeline, shape: Shape, duration_s: float) -> Spot | None:
    """Nodes on which the request fits from now for so long; None if there are none. Nothing is taken yet."""
    for gang in shape.gangs:
        for mask in shape.masks:
            rows = [timeline.fitting_now(need, duration_s, mask) for need, _ in gang.wanted]
            spot = choose(timeline, gang, rows, timeline.now, shape.asked.max_switches)
            if spot is not None:
                return spot
    return None


def place_later(timeline: Timeline, shape: Shape, duration_s: float) -> tuple[float, Spot] | None:
    """The earliest time from which the request fits for so long, and where; None if not in the known future."""
    best: tuple[float, Spot] | None = None
    for gang in shape.gangs:
        for mask in shape.masks:
            found = timeline.earliest(gang.wanted, duration_s, mask)
            if found is None or (best is not None and found[0] >= best[0]):
                continue
            spot = choose(timeline, gang, found[1], found[0], None)
            if spot is not None:
                best = (found[0], spot)
    return best


def choose(
    timeline: Timeline, gang: Gang, rows: Sequence[Ints], at: float, max_switches: int | None
) -> Spot | None:
    """A node for each need out of the rows that meet it, by the rule of this module."""
    chosen: list[tuple[int, Need]] = []
    used: Ints = np.zeros(0, dtype=np.int64)
    for (need, count), fitting in zip(gang.wanted, rows, strict=True):
        fitting = np.setdiff1d(fitting, used, assume_unique=True) if len(used) else fitting
        if len(fitting) < count:
            return None
        ordered = _best_first(timeline, need, fitting, at)
        if gang.nodes > 1:
            picked = _by_switch(timeline.cluster, ordered, count, max_switches)
            if picked is None:
                return None
        else:
            picked = ordered[:count]
        chosen += [(int(row), need) for row in np.sort(picked)]
        used = np.concatenate((used, picked))
    return chosen


def _best_first(timeline: Timeline, need: Need, rows: Ints, at: float) -> Ints:
    if len(rows) == 1:
        return rows
    free = timeline.free[:, rows, 0] if at <= timeline.now else timeline.at(rows, at)
    cluster = timeline.cluster
    if need.gpu_share_pct < 100 and timeline.partial is not None:
        unshared = timeline.partial[rows, 0] < need.gpu_share_pct
        return rows[np.lexsort((rows, free[CPUS], free[GPUS], unshared, cluster.weight[rows]))]
    return rows[np.lexsort((rows, free[CPUS], free[GPUS], cluster.weight[rows]))]


def _by_switch(cluster: Cluster, ordered: Ints, count: int, most: int | None) -> Ints | None:
    """So many of the rows, best first, from as few switches as can be."""
    if cluster.switch_count <= 1:
        return ordered[:count]
    sizes = np.bincount(cluster.switch[ordered], minlength=cluster.switch_count)
    picked: list[Ints] = []
    left = count
    while left > 0:
        enough = np.flatnonzero(sizes >= left)
        switch = int(enough[np.argmin(sizes[enough])]) if len(enough) else int(np.argmax(sizes))
        rows = ordered[cluster.switch[ordered] == switch][:left]
        picked.append(rows)
        sizes[switch] = 0
        left -= len(rows)
    if most is not None and len(picked) > most:
        return None
    return np.concatenate(picked)


def allocate(cluster: Cluster, board: GpuBoard, spot: Spot) -> Allocation:
    """The shares of a gang that starts now, GPUs by index. The board is told by `commit`."""
    shares = []
    for row, need in spot:
        node = cluster.nodes[row]
        if need.gpu_share_pct < 100:
            gpus = [board.pick_part(row, need.gpu_share_pct, need.gpu_type)]
        else:
            gpus = board.pick(row, need.gpus, need.gpu_type)
        shares.append(
            Share(
                node=node.name,
                cpus=node.cpus if need.exclusive else need.cpus,
                mem_bytes=node.mem_bytes if need.mem_bytes == WHOLE_NODE else need.mem_bytes,
                tasks=need.tasks,
                gpus=tuple(gpu.index for gpu in gpus),
                gpu_uuids=tuple(GpuUuid(gpu.uuid) for gpu in gpus),
                gpu_share_pct=need.gpu_share_pct,
            )
        )
    return Allocation(shares=tuple(shares))


def commit(timeline: Timeline, board: GpuBoard, allocation: Allocation, ends: float) -> None:
    """The allocation is taken from now on."""
    cluster = timeline.cluster
    for share in allocation.shares:
        row = cluster.row[share.node]
        timeline.take(row, timeline.now, ends, cluster.amounts(share))
        if share.gpu_share_pct < 100:
            gpu = next(gpu for gpu in cluster.nodes[row].gpus if gpu.index == share.gpus[0])
            board.share_from_now(timeline, row, gpu, share.gpu_share_pct, ends)
        else:
            board.take(row, share.gpus)


def reserve(timeline: Timeline, spot: Spot, start: float, end: float) -> None:
    """The gang will have these nodes in that interval; nothing else may."""
    for row, need in spot:
        timeline.take(row, start, end, _held(timeline.cluster, row, need))


def release(timeline: Timeline, spot: Spot, start: float, end: float) -> None:
    """Takes back a `reserve`."""
    for row, need in spot:
        timeline.take(row, start, end, -_held(timeline.cluster, row, need))


def _held(cluster: Cluster, row: int, need: Need) -> Ints:
    amounts = cluster.need_amounts(need)
    if need.exclusive:
        amounts[CPUS] = cluster.capacity[CPUS, row]
    if need.mem_bytes == WHOLE_NODE:
        amounts[MEM] = cluster.capacity[MEM, row]
    if need.gpu_share_pct < 100:
        amounts[GPUS] = 1
    return amounts
