"""Request classes: equal requests, and the layouts over nodes that they allow.

Data about placing a request that stay constant during a pass are computed once for all equal requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property

from warpdeck.model import Resources
from warpdeck.policy.input.site import PartitionView, Tres
from warpdeck.policy.resources.cluster import Cluster, Mask
from warpdeck.policy.resources.demand import NodeRequirement, Owner, need_of, needs
from warpdeck.policy.resources.tres import MIB

from .gangs import Gang, named_rows, sizes
from .pending_reason import describe_need


class RequestClass:
    """The data for placing a request that stay constant during a pass. Equal requests share one object."""

    def __init__(
        self,
        cluster: Cluster,
        requested: Resources,
        partition: PartitionView | None,
        *,
        default_mem_per_cpu_bytes: int,
        number: int = 0,
    ) -> None:
        self.base = self
        """The variant for all users, which may be the object itself. If it cannot be placed, no variant for a
        single user can be placed either.
        """
        self.number = number
        """The number of this request class, which is its index in the cache."""
        self.requested = requested
        self.partition = partition
        self.owner: Owner | None = None
        self.masks: list[Mask] = cluster.rows_for(requested, None if partition is None else partition.nodes)
        self.default_mem_per_cpu_bytes = default_mem_per_cpu_bytes
        self.most_per_node: Tres = {}
        """Limits on the amounts per node. They apply if some number of nodes satisfies them."""
        self.fills = False
        """True if the tasks may be distributed unevenly over the nodes, according to their free resources."""
        self.is_spread = False
        """True if a limit per node excludes some of the numbers of nodes that the request allows."""
        self._spread: dict[tuple[tuple[str, int], ...], RequestClass] = {}
        self._each_size: tuple[RequestClass, ...] = ()
        self.gangs = self._lay_out(cluster)
        self.fills = any(may_distribute_unevenly(requested, gang) for gang in self.gangs)

    def _lay_out(self, cluster: Cluster) -> list[Gang]:
        requested, partition = self.requested, self.partition
        gangs, named = [], named_rows(cluster, requested)
        for nodes in sizes(cluster, requested, partition, self.masks):
            if nodes > len(cluster):
                break  # Stop before computing the demand: a range of nodes may end at a hundred thousand.
            found = needs(
                requested,
                nodes,
                default_mem_per_cpu_bytes=self.default_mem_per_cpu_bytes,
                whole_nodes=partition is not None and partition.exclusive,
            )
            if found:
                gang = Gang(
                    nodes=nodes,
                    requirements=_largest_first(found),
                    max_switches=requested.max_switches,
                    named=named,
                    contiguous=requested.contiguous and nodes > 1,
                )
                gangs.append(gang)
        return gangs

    @cached_property
    def gangs(self) -> list[Gang]:
        """The possible layouts: numbers of nodes, and the demand on each node.

        The layouts of a user-specific variant are computed on first use, because usually the request fits for
        no user at all.
        """
        return [gang.of(self.owner) for gang in self.base.gangs]

    @property
    def excludes_users(self) -> bool:
        """True if the job shares its nodes only with jobs of the same user."""
        return self.requested.share_with == "user" or (
            self.partition is not None and self.partition.exclusive_user
        )

    def of_user(self, user: str, number: int) -> RequestClass:
        """Return a copy of this class bound to one user (for --exclusive=user)."""
        made = RequestClass.__new__(RequestClass)
        made.__dict__.update(self.__dict__)
        del made.gangs
        made.owner, made.number, made._spread, made._each_size = (
            Owner(user, self.excludes_users),
            number,
            {},
            (),
        )
        return made

    @cached_property
    def wants(self) -> str:
        """The request as text."""
        return describe_need(self.requested)

    def lower_bound(self) -> tuple[int, int, int, int]:
        """Return (CPUs, bytes, whole GPUs, nodes): a placement needs at least these amounts free on at least
        this many nodes.
        """
        needs = [need for gang in self.gangs for need, _ in gang.requirements]
        needs += [minimum_requirement(self)] if self.fills else []
        if not needs:
            return NOWHERE
        return (
            min(need.cpus for need in needs),
            min(need.mem_bytes for need in needs),
            min(need.gpus if need.gpu_share_pct >= 100 else 0 for need in needs),
            self.gangs[0].nodes,
        )

    def within(self, rows: Mask) -> RequestClass:
        """Return a copy that is restricted to these nodes."""
        made = copy(self)
        made.masks = [mask & rows for mask in self.masks]
        return made

    def spread(self, most_per_node: Tres) -> RequestClass:
        """Return a copy that uses only numbers of nodes for which no node exceeds `most_per_node`.

        If no number of nodes satisfies this, all of them stay allowed.
        """
        if not most_per_node:
            return self
        key = tuple(sorted(most_per_node.items()))
        if key not in self._spread:
            within = [
                gang
                for gang in self.gangs
                if all(_is_within(need, most_per_node) for need, _ in gang.requirements)
            ]
            made = copy(self)
            made.gangs, made.is_spread = within or self.gangs, 0 < len(within) < len(self.gangs)
            made.most_per_node, made._each_size = most_per_node, ()
            self._spread[key] = made
        return self._spread[key]

    def each_size(self) -> tuple[RequestClass, ...]:
        """Return one copy for each allowed number of nodes, in the order in which they are tried.

        With --nodes=2-8 the job gets eight nodes if eight are free now (Slurm's rule). Without --nodes, or
        with --use-min-nodes, as few nodes as possible are used; the request class itself is then the only
        element.
        """
        if self.requested.nodes_open or self.requested.use_min_nodes or len(self.gangs) < 2:
            return (self,)
        if not self._each_size:
            made = []
            for gang in reversed(self.gangs):
                made.append(copy(self))
                made[-1].gangs, made[-1]._spread = [gang], {}
            self._each_size = tuple(made)
        return self._each_size

    def usable(self) -> Mask:
        """Return the mask of the nodes that the request allows at all."""
        found = self.masks[0].copy()
        for mask in self.masks[1:]:
            found |= mask
        return found


def _is_within(need: NodeRequirement, most: Tres) -> bool:
    requested = {"cpu": need.cpus, "mem": need.mem_bytes // MIB, "gres/gpu": need.gpus}
    if need.gpu_type:
        requested[f"gres/gpu:{need.gpu_type}"] = need.gpus
    return all(requested[name] <= count for name, count in most.items() if name in requested)


NOWHERE = (1 << 62, 0, 0, 1)
"""The minimum demand of a request that has no possible layout."""
Placement = list[tuple[int, NodeRequirement]]
"""The (row, demand) for each node of a gang, in rank order."""


def _largest_first(found: Sequence[tuple[NodeRequirement, int]]) -> tuple[tuple[NodeRequirement, int], ...]:
    ordered = sorted(found, key=lambda pair: (pair[0].gpus, pair[0].cpus, pair[0].mem_bytes))
    return tuple(reversed(ordered))


def may_distribute_unevenly(requested: Resources, gang: Gang) -> bool:
    """Return whether the tasks may be distributed unevenly.

    They may not on whole nodes, or if tasks share CPUs; the tasks are then distributed evenly.
    """
    if gang.nodes < 2 or requested.tasks is None or requested.tasks <= gang.nodes or requested.overcommit:
        return False
    gpus = requested.gpus
    if gpus.total or gpus.per_node or gpus.share_pct is not None:
        return False
    return not any(need.exclusive for need, _ in gang.requirements)


def minimum_requirement(request_class: RequestClass) -> NodeRequirement:
    """Return the smallest demand on each node, on the assumption that other nodes take the remaining tasks."""
    return need_for(request_class, 1)


def need_for(request_class: RequestClass, tasks: int) -> NodeRequirement:
    """Return the demand of this many tasks of the request on one node."""
    return need_of(
        request_class.requested,
        tasks=tasks,
        gpus=tasks * (request_class.requested.gpus.per_task or 0),
        default_mem_per_cpu_bytes=request_class.default_mem_per_cpu_bytes,
        owner=request_class.owner,
    )
