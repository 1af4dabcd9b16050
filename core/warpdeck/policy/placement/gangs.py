"""Possible numbers of nodes of a request, and the requirements on its nodes other than their size.

The option --nodes gives the numbers. Without it (`nodes_open`) a job gets as few nodes as can hold its tasks
and GPUs. That number is tried first, then larger ones in growing steps. If GPUs or tasks are requested per
node, only the smallest number is tried.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from warpdeck.model import NodeName, Resources
from warpdeck.policy.input.site import PartitionView
from warpdeck.policy.resources.cluster import CPUS, FIRST_TYPE, GPUS, MEM, Cluster, Ints, Mask
from warpdeck.policy.resources.demand import NodeRequirement, Owner

MAX_SIZES = 64
"""Maximum number of node counts tried for --nodes=MIN-MAX: both ends of a longer range, and some counts
between them.
"""
MAX_OPEN_SIZES = 8
"""Maximum number of node counts tried without --nodes. Each count costs one search of the cluster in every
pass, and few jobs need many.
"""
EACH_SIZE = 5
"""Number of node counts above the smallest that are tried one by one. After them, each count is half as large
again.
"""


NO_ROW = -1


class Gang(msgspec.Struct, frozen=True, kw_only=True):
    """A layout of a request over a number of nodes: (demand, number of nodes with it), larger demands first.

    `named` holds the rows of --nodelist if the request needs more nodes than the list names.
    """

    nodes: int
    requirements: tuple[tuple[NodeRequirement, int], ...]
    max_switches: int | None = None
    named: tuple[int, ...] = ()
    contiguous: bool = False

    @property
    def is_picky(self) -> bool:
        """True if not every choice of large enough nodes is acceptable."""
        return self.max_switches is not None or bool(self.named) or self.contiguous

    def of(self, owner: Owner | None) -> Gang:
        """Return a copy of the layout for the job of this user."""
        requirements = tuple(
            (msgspec.structs.replace(need, owner=owner), count) for need, count in self.requirements
        )
        return msgspec.structs.replace(self, requirements=requirements)


def named_rows(cluster: Cluster, requested: Resources) -> tuple[int, ...]:
    """Return the rows that the job must use besides other rows of its choice. NO_ROW represents a node that
    no longer exists.
    """
    if not requested.nodelist or requested.nodes_max <= len(requested.nodelist):
        return ()
    return tuple(cluster.row.get(NodeName(name), NO_ROW) for name in requested.nodelist)


def sizes(
    cluster: Cluster, requested: Resources, partition: PartitionView | None, masks: Sequence[Mask]
) -> Iterator[int]:
    """Iterate over the node counts to try, smallest first: those of the request that the partition allows."""
    low, high = requested.nodes_min, max(requested.nodes_min, requested.nodes_max)
    if partition is not None:
        low = max(low, partition.min_nodes)
        high = high if partition.max_nodes is None else min(high, partition.max_nodes)
    if not requested.nodes_open or low >= high:
        high = max(low, min(high, len(cluster)))
        if high - low < MAX_SIZES:
            yield from range(low, high + 1)
        else:
            yield from np.unique(np.linspace(low, high, MAX_SIZES).astype(int)).tolist()
        return
    low = size = max(low, _fewest(cluster, requested, masks))
    gpus = requested.gpus
    only = gpus.per_node is not None or gpus.share_pct is not None or requested.tasks_per_node is not None
    for _ in range(1 if only else MAX_OPEN_SIZES):
        if size > high:
            return
        yield size
        size = size + 1 if size < low + EACH_SIZE else size * 3 // 2


def _fewest(cluster: Cluster, requested: Resources, masks: Sequence[Mask]) -> int:
    """Return the smallest node count that could ever fit, judged by the largest amounts that any usable node
    has.
    """
    usable = np.logical_or.reduce(masks)
    whole = cluster.whole[:FIRST_TYPE, usable].max(axis=1, initial=0)
    cpus, mem, gpus = int(whole[CPUS]), int(whole[MEM]), int(whole[GPUS])
    each = requested.cpus_used_by_task()
    holds = [] if requested.overcommit else [cpus // requested.cpus_of_task()]
    if requested.mem_per_cpu_bytes and not requested.overcommit:
        holds.append(mem // (requested.mem_per_cpu_bytes * each))
    if requested.gpus.per_task:
        holds.append(gpus // requested.gpus.per_task)
    parts = [(requested.tasks or 1, min(holds, default=0))]
    if requested.gpus.total:
        limits = [gpus]
        limits += [mem // requested.mem_per_gpu_bytes] if requested.mem_per_gpu_bytes else []
        limits += (
            [cpus // (requested.cpus_per_gpu * requested.cpus_held_each())] if requested.cpus_per_gpu else []
        )
        parts.append((requested.gpus.total, min(limits)))
    return max(-(-count // held) if held > 0 else 1 for count, held in parts)


def runs(cluster: Cluster, gang: Gang, rows: Sequence[Ints]) -> Iterator[list[Ints]]:
    """Iterate over the runs of neighboring nodes that may hold the gang, shortest runs first.

    Each element lists, for each demand, the rows inside the run.
    """
    positions = [np.sort(cluster.line[fitting]) for fitting in rows]
    line = np.unique(np.concatenate(positions))
    firsts = np.flatnonzero(line[gang.nodes - 1 :] - line[: len(line) - gang.nodes + 1] == gang.nodes - 1)
    run = np.concatenate(([0], np.cumsum(np.diff(line) != 1)))
    length = np.bincount(run)[run]
    for at in firsts[np.lexsort((firsts, length[firsts]))].tolist():
        low, high = line[at], line[at + gang.nodes - 1]
        yield [fitting[(cluster.line[fitting] >= low) & (cluster.line[fitting] <= high)] for fitting in rows]
