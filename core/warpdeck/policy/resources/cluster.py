"""The cluster as numeric arrays, one row per node. Selections of nodes are masks over the rows.

The columns of capacities and free amounts are CPUs, memory (bytes) and whole GPUs. If some node has several
GPU types, there is one more column for each type.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from warpdeck.model import NodeMinimum, NodeName, Resources, Share
from warpdeck.notation.values.hostlist import by_number
from warpdeck.policy.input.view import GpuView, NodeView

from .demand import WHOLE_NODE, NodeRequirement
from .features import Traits, parse_constraint

CPUS, MEM, GPUS, FIRST_TYPE = 0, 1, 2, 3

MAX_MASKS = 10_000
"""Maximum number of cached node selections. The requests of a typical site need a few hundred."""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


def rows_of(mask: Mask) -> Ints:
    """Return the positions at which the mask is set. This is `np.flatnonzero` at a third of its cost."""
    rows: Ints = mask.nonzero()[0]
    return rows


class Cluster:
    """The nodes of the cluster as rows of NumPy tables.

    `capacity[column, row]` counts only GPUs that are not blocked. It is zero on nodes that accept no jobs.
    """

    def __init__(self, nodes: tuple[NodeView, ...], *, as_if_healthy: bool = False) -> None:
        self.nodes = nodes
        self.row: dict[NodeName, int] = {node.name: row for row, node in enumerate(nodes)}
        self._healthy = as_if_healthy
        named = {gpu.type for node in nodes for gpu in node.gpus}
        types = sorted({name.lower() for name in named})
        mixed = len(types) > 1 and any(len({gpu.type for gpu in node.gpus}) > 1 for node in nodes)
        self.type_columns = {name: FIRST_TYPE + at for at, name in enumerate(types if mixed else ())}
        self.columns = FIRST_TYPE + len(self.type_columns)
        self.takes_jobs: Mask = np.zeros(len(nodes), dtype=np.bool_)
        self.capacity: Ints = np.zeros((self.columns, len(nodes)), dtype=np.int64)
        self.whole: Ints = np.zeros((FIRST_TYPE, len(nodes)), dtype=np.int64)
        """CPUs, memory and GPUs that the nodes have, whether healthy or not."""
        self._blocked: dict[NodeName, set[int]] = {}
        self._count(range(len(nodes)))
        self.switch, self.switch_count = _switches(nodes)
        self.weight: Ints = np.array([node.weight for node in nodes], dtype=np.int64)
        self._masks: dict[tuple[object, ...], list[Mask]] = {}
        self._named_rows: dict[frozenset[NodeName] | frozenset[str], Mask] = {}
        self._type_rows: dict[str, Mask] = {}
        self._uuid_type = {gpu.uuid: gpu.type.lower() for node in nodes for gpu in node.gpus} if mixed else {}

    def __len__(self) -> int:
        return len(self.nodes)

    def keeps_its_place(self, row: int, node: NodeView) -> bool:
        """Return whether the node can keep this row of the table.

        It can if it differs from the node before only in the resources that are available to jobs.
        """
        before = self.nodes[row]
        return (
            (before.name, before.features, before.switch, before.weight, before.cpus, before.mem_bytes)
            == (node.name, node.features, node.switch, node.weight, node.cpus, node.mem_bytes)
            and (before.topology, before.tmp_disk_bytes) == (node.topology, node.tmp_disk_bytes)
            and [(gpu.uuid, gpu.type, gpu.mem_bytes) for gpu in before.gpus]
            == [(gpu.uuid, gpu.type, gpu.mem_bytes) for gpu in node.gpus]
        )  # fmt: skip

    def renew(self, nodes: tuple[NodeView, ...], rows: Sequence[int]) -> None:
        """Replace the nodes. Only these rows have changed, and all nodes keep their rows."""
        self.nodes = nodes
        self._count(rows)

    def usable_gpus(self, row: int) -> list[GpuView]:
        """Return the GPUs of a node that can be given to jobs."""
        node = self.nodes[row]
        if self._healthy:
            return list(node.gpus)
        return [] if node.unavailable else [gpu for gpu in node.gpus if not gpu.blocked]

    def columns_of(self, gpu_type: str) -> list[int]:
        """Return the columns that count GPUs of this type separately. "" means any type."""
        if gpu_type in self.type_columns:
            return [self.type_columns[gpu_type]]
        return list(self.type_columns.values()) or [GPUS]

    def counted_in(self, gpu_type: str) -> list[int]:
        """Return the columns in which a GPU of this type is counted."""
        typed = self.type_columns.get(gpu_type)
        return [GPUS] if typed is None else [GPUS, typed]

    def holds(self, share: Share) -> tuple[int, ...]:
        """Return the result of `amounts` as a tuple of ints. This is faster, and building a timeline needs
        many of them.
        """
        if self.type_columns or share.gpu_share_pct < 100 or share.node in self._blocked:
            return tuple(int(amount) for amount in self.amounts(share))
        return (share.cpus, share.mem_bytes, len(share.gpus))

    def amounts(self, share: Share) -> Ints:
        """Return the amounts that a share takes, by column. Blocked GPUs are not included, because capacities
        do not count them either.
        """
        found = np.zeros(self.columns, dtype=np.int64)
        found[CPUS], found[MEM] = share.cpus, share.mem_bytes
        if share.gpu_share_pct < 100 or not share.gpus:
            return found
        blocked = self._blocked.get(share.node, set())
        for index, uuid in zip(share.gpus, share.gpu_uuids, strict=True):
            if index not in blocked:
                found[GPUS] += 1
                if uuid in self._uuid_type:
                    found[self.type_columns[self._uuid_type[uuid]]] += 1
        return found

    def need_amounts(self, need: NodeRequirement) -> Ints:
        """Return the amounts that must at least be free. `Timeline.enough` adds the demand of whole nodes."""
        found = np.zeros(self.columns, dtype=np.int64)
        found[CPUS] = need.cpus
        found[MEM] = 0 if need.mem_bytes == WHOLE_NODE else need.mem_bytes
        if need.gpu_share_pct >= 100:
            found[GPUS] = need.gpus
            if need.gpu_type in self.type_columns:
                found[self.type_columns[need.gpu_type]] = need.gpus
        return found

    def rows_for(self, requested: Resources, allowed: frozenset[NodeName] | None) -> list[Mask]:
        """Return the usable nodes, healthy or not, for each alternative of the constraint. The masks must not
        be modified.
        """
        # If the job needs more nodes than the list names, it also uses other nodes.
        only = requested.nodelist if requested.nodes_max <= len(requested.nodelist) else ()
        key = (
            allowed, only, requested.exclude, requested.gpus.type, requested.node_minimum, requested.constraint, requested.prefer
        )  # fmt: skip
        found = self._masks.get(key)
        if found is None:
            if len(self._masks) >= MAX_MASKS:
                self._masks.clear()
            found = self._masks[key] = self._find_rows(requested, allowed, only)
        return found

    def _find_rows(
        self, requested: Resources, allowed: frozenset[NodeName] | None, only: tuple[str, ...]
    ) -> list[Mask]:
        base = np.ones(len(self.nodes), dtype=np.bool_)
        if allowed is not None:
            base &= self.named(allowed)
        if only:
            base &= self.named(frozenset(only))
        if requested.exclude:
            base &= ~self.named(frozenset(requested.exclude))
        if requested.gpus.type:
            base &= self._of_type(requested.gpus.type.lower())
        if requested.node_minimum != NO_MINIMUM:
            base &= np.array(
                [meets_minimum(node, requested.node_minimum) for node in self.nodes], dtype=np.bool_
            )
        masks = self._meeting(requested.constraint, base)
        if requested.prefer:
            masks = [
                mask & better for better in self._meeting(requested.prefer, base) for mask in masks
            ] + masks
        return masks

    def _meeting(self, constraint: str, base: Mask) -> list[Mask]:
        """Return a mask of the matching nodes for each alternative of the constraint."""
        if not constraint:
            return [base]
        met = [[test(traits_of(node)) for node in self.nodes] for test in parse_constraint(constraint)]
        return [base & np.array(each, dtype=np.bool_) for each in met]

    @cached_property
    def line(self) -> Ints:
        """Position of each row in the order of node names, with numbers compared by value. Neighboring nodes
        have adjacent positions.
        """
        order = sorted(range(len(self.nodes)), key=lambda row: by_number(self.nodes[row].name))
        found = np.empty(len(order), dtype=np.int64)
        found[order] = np.arange(len(order))
        return found

    def named(self, names: frozenset[NodeName] | frozenset[str]) -> Mask:
        """Return a mask of the nodes with these names. It must not be modified."""
        found = self._named_rows.get(names)
        if found is None:
            if len(self._named_rows) >= MAX_MASKS:
                self._named_rows.clear()
            found = self._named_rows[names] = np.zeros(len(self.nodes), dtype=np.bool_)
            found[[self.row[NodeName(name)] for name in names if name in self.row]] = True
        return found

    def _of_type(self, name: str) -> Mask:
        mask = self._type_rows.get(name)
        if mask is None:
            has = [any(gpu.type.lower() == name for gpu in node.gpus) for node in self.nodes]
            mask = self._type_rows[name] = np.array(has, dtype=np.bool_)
        return mask

    def _count(self, rows: Sequence[int]) -> None:
        """Compute the capacities of the nodes in these rows."""
        whole = [(node.cpus, node.mem_bytes, len(node.gpus)) for node in map(self.nodes.__getitem__, rows)]
        capacity = np.zeros((self.columns, len(rows)), dtype=np.int64)
        capacity[:FIRST_TYPE] = np.array(whole, dtype=np.int64).reshape(-1, FIRST_TYPE).T
        self.whole[:, rows] = capacity[:FIRST_TYPE]
        takes = [self._healthy or not self.nodes[row].unavailable for row in rows]
        for at, row in enumerate(rows):
            blocked = self._find_blocked(self.nodes[row])
            capacity[GPUS, at] -= len(blocked)
            for gpu in self.nodes[row].gpus if self.type_columns else ():
                if gpu.index not in blocked:
                    capacity[self.type_columns[gpu.type.lower()], at] += 1
        capacity[:, ~np.array(takes, dtype=np.bool_)] = 0
        self.takes_jobs[rows] = takes
        self.capacity[:, rows] = capacity

    def _find_blocked(self, node: NodeView) -> set[int]:
        found = set() if self._healthy else {gpu.index for gpu in node.gpus if gpu.blocked}
        if found:
            self._blocked[node.name] = found
        else:
            self._blocked.pop(node.name, None)
        return found


def traits_of(node: NodeView) -> Traits:
    """Return the properties of the node that a constraint can test."""
    return Traits(node.features, min((gpu.mem_bytes for gpu in node.gpus), default=0))


NO_MINIMUM = NodeMinimum()


def meets_minimum(node: NodeView, least: NodeMinimum) -> bool:
    """Return whether the node has the size that --tmp, --extra-node-info and similar options require."""
    has = node.topology.or_flat(node.cpus)
    return (
        has.sockets >= (least.sockets or 0)
        and has.cores >= (least.cores or 0)
        and has.threads >= (least.threads or 0)
        and node.tmp_disk_bytes >= (least.tmp_disk_bytes or 0)
    )


def _switches(nodes: tuple[NodeView, ...]) -> tuple[Ints, int]:
    """Return the switch of each row as a number, and the number of switches. Nodes without a known switch
    share number 0.
    """
    numbers: dict[str, int] = {"": 0}
    rows = [numbers.setdefault(node.switch, len(numbers)) for node in nodes]
    return np.array(rows, dtype=np.int64), len(numbers)
