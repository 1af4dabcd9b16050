"""A kind of request, and the layouts over nodes that it allows.

Everything about placing a request that does not change during a pass is computed once for all equal requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property

from warpdeck.model import Resources
from warpdeck.policy.input.site import PartitionView, Tres
from warpdeck.policy.resources.cluster import Cluster, Mask
from warpdeck.policy.resources.demand import Need, Tenant, need_of, needs
from warpdeck.policy.resources.tres import MIB

from .gangs import Gang, named_rows, sizes
from .pending_reason import describe_need


class Shape:
    """A kind of request: everything about placing it that does not change during a pass. Equal requests share one."""

    def __init__(
        self,
        cluster: Cluster,
        asked: Resources,
        partition: PartitionView | None,
        *,
        default_mem_per_cpu_bytes: int,
        number: int = 0,
    ) -> None:
        self.of_all = self
        """Where this one finds no room, none of those finds any whose it is."""
        self.number = number
        """Its place among the shapes that are kept."""
        self.asked = asked
        self.partition = partition
        self.tenant: Tenant | None = None
        self.masks: list[Mask] = cluster.rows_for(asked, None if partition is None else partition.nodes)
        self.default_mem_per_cpu_bytes = default_mem_per_cpu_bytes
        self.most_per_node: Tres = {}
        """No node may give more of these, where it need not."""
        self.fills = False
        """Whether its tasks go over its nodes as there is room, rather than evenly."""
        self.is_spread = False
        """Whether it must do with fewer of the numbers of nodes that the request allows: a limit on each node has it so."""
        self._spread: dict[tuple[tuple[str, int], ...], Shape] = {}
        self._each_size: tuple[Shape, ...] = ()
        self.gangs = self._lay_out(cluster)
        self.fills = any(may_fill(asked, gang) for gang in self.gangs)

    def _lay_out(self, cluster: Cluster) -> list[Gang]:
        asked, partition = self.asked, self.partition
        gangs, named = [], named_rows(cluster, asked)
        for nodes in sizes(cluster, asked, partition, self.masks):
            if nodes > len(cluster):
                break  # before its needs are laid out: a range may end at a hundred thousand nodes
            found = needs(
                asked,
                nodes,
                default_mem_per_cpu_bytes=self.default_mem_per_cpu_bytes,
                whole_nodes=partition is not None and partition.exclusive,
            )
            if found:
                gang = Gang(
                    nodes=nodes,
                    wanted=_largest_first(found),
                    max_switches=asked.max_switches,
                    named=named,
                    contiguous=asked.contiguous and nodes > 1,
                )
                gangs.append(gang)
        return gangs

    @cached_property
    def gangs(self) -> list[Gang]:
        """Over how many nodes it may be laid out, and what each of these must give. Of one user's they are made when they are
        asked for: mostly there is no room whosever it is."""
        return [gang.of(self.tenant) for gang in self.of_all.gangs]

    @property
    def apart(self) -> bool:
        """Whether it shares its nodes with its own user's jobs alone."""
        return self.asked.share_with == "user" or (
            self.partition is not None and self.partition.exclusive_user
        )

    def of_user(self, user: str, number: int) -> Shape:
        """The same of this user, where it matters on whose nodes he is."""
        made = Shape.__new__(Shape)
        made.__dict__.update(self.__dict__)
        del made.gangs
        made.tenant, made.number, made._spread, made._each_size = Tenant(user, self.apart), number, {}, ()
        return made

    @cached_property
    def wants(self) -> str:
        """What is asked, in words."""
        return describe_need(self.asked)

    def least(self) -> tuple[int, int, int, int]:
        """(CPUs, bytes, whole GPUs) that must be free at the least on each of so many nodes, wherever it goes."""
        needs = [need for gang in self.gangs for need, _ in gang.wanted]
        needs += [least_need(self)] if self.fills else []
        if not needs:
            return NOWHERE
        return (
            min(need.cpus for need in needs),
            min(need.mem_bytes for need in needs),
            min(need.gpus if need.gpu_share_pct >= 100 else 0 for need in needs),
            self.gangs[0].nodes,
        )

    def within(self, rows: Mask) -> Shape:
        """The same on these nodes alone."""
        made = copy(self)
        made.masks = [mask & rows for mask in self.masks]
        return made

    def spread(self, most_per_node: Tres) -> Shape:
        """The same over as many nodes of its range that none gives more than this; as it is if that is on no number of them."""
        if not most_per_node:
            return self
        key = tuple(sorted(most_per_node.items()))
        if key not in self._spread:
            within = [
                gang for gang in self.gangs if all(_is_within(need, most_per_node) for need, _ in gang.wanted)
            ]
            made = copy(self)
            made.gangs, made.is_spread = within or self.gangs, 0 < len(within) < len(self.gangs)
            made.most_per_node, made._each_size = most_per_node, ()
            self._spread[key] = made
        return self._spread[key]

    def each_size(self) -> tuple[Shape, ...]:
        """The same on each of its numbers of nodes alone, in the order in which they are tried: --nodes=2-8 is eight where
        eight can be had now (Slurm's rule); without --nodes, or with --use-min-nodes, it is as few as will do, whichever these are."""
        if self.asked.nodes_open or self.asked.use_min_nodes or len(self.gangs) < 2:
            return (self,)
        if not self._each_size:
            made = []
            for gang in reversed(self.gangs):
                made.append(copy(self))
                made[-1].gangs, made[-1]._spread = [gang], {}
            self._each_size = tuple(made)
        return self._each_size

    def usable(self) -> Mask:
        """The nodes that the request allows at all."""
        found = self.masks[0].copy()
        for mask in self.masks[1:]:
            found |= mask
        return found


def _is_within(need: Need, most: Tres) -> bool:
    asked = {"cpu": need.cpus, "mem": need.mem_bytes // MIB, "gres/gpu": need.gpus}
    if need.gpu_type:
        asked[f"gres/gpu:{need.gpu_type}"] = need.gpus
    return all(asked[name] <= count for name, count in most.items() if name in asked)


NOWHERE = (1 << 62, 0, 0, 1)
"""The least that a request asks for which can be laid out on no number of nodes."""
Spot = list[tuple[int, Need]]
"""(row, what it gives) for each node of a gang, in rank order."""


def _largest_first(found: Sequence[tuple[Need, int]]) -> tuple[tuple[Need, int], ...]:
    ordered = sorted(found, key=lambda pair: (pair[0].gpus, pair[0].cpus, pair[0].mem_bytes))
    return tuple(reversed(ordered))


def may_fill(asked: Resources, gang: Gang) -> bool:
    """Whether its tasks may be spread otherwise than evenly: over whole nodes, and where they share CPUs, they are dealt."""
    if gang.nodes < 2 or asked.tasks is None or asked.tasks <= gang.nodes or asked.overcommit:
        return False
    gpus = asked.gpus
    if gpus.total or gpus.per_node or gpus.share_pct is not None:
        return False
    return not any(need.exclusive for need, _ in gang.wanted)


def least_need(shape: Shape) -> Need:
    """What each of its nodes must give at the least, where others have room for the other tasks."""
    return need_for(shape, 1)


def need_for(shape: Shape, tasks: int) -> Need:
    """Return what a node gives to this many tasks of the request."""
    return need_of(
        shape.asked,
        tasks=tasks,
        gpus=tasks * (shape.asked.gpus.per_task or 0),
        default_mem_per_cpu_bytes=shape.default_mem_per_cpu_bytes,
        tenant=shape.tenant,
    )
