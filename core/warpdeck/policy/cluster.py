"""The cluster as arrays of numbers, one row a node. Built once a pass; what is asked of it is a mask over rows. Pure.

Columns of capacities and of what is free: CPUs, memory (bytes), whole GPUs, and where some node mixes GPU types one more
column for each type.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpdeck.model import NodeName, Resources, Share

from .demand import WHOLE_NODE, Need
from .features import parse_constraint
from .view import GpuView, NodeView, View

CPUS, MEM, GPUS, FIRST_TYPE = 0, 1, 2, 3

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


class Cluster:
    """Nodes by row. `capacity[column, row]` counts unblocked GPUs only; rows that take no jobs have none of anything."""

    def __init__(self, view: View, *, as_if_healthy: bool = False) -> None:
        self.nodes: tuple[NodeView, ...] = view.nodes
        self.row: dict[NodeName, int] = {node.name: row for row, node in enumerate(view.nodes)}
        self._healthy = as_if_healthy
        types = sorted({gpu.type.lower() for node in view.nodes for gpu in node.gpus})
        mixed = len(types) > 1 and any(len({gpu.type for gpu in node.gpus}) > 1 for node in view.nodes)
        self.type_columns = {name: FIRST_TYPE + at for at, name in enumerate(types if mixed else ())}
        self.columns = FIRST_TYPE + len(self.type_columns)
        self.takes_jobs: Mask = np.array(
            [as_if_healthy or not node.unavailable for node in view.nodes], dtype=np.bool_
        )
        self._blocked = {
            node.name: {gpu.index for gpu in node.gpus if gpu.blocked}
            for node in view.nodes
            if not as_if_healthy and any(gpu.blocked for gpu in node.gpus)
        }
        self.capacity = self._capacities()
        self.switch, self.switch_count = _switches(view.nodes)
        self.weight: Ints = np.array([node.weight for node in view.nodes], dtype=np.int64)
        self._type_rows: dict[str, Mask] = {}
        self._uuid_type = (
            {gpu.uuid: gpu.type.lower() for node in view.nodes for gpu in node.gpus} if mixed else {}
        )

    def __len__(self) -> int:
        return len(self.nodes)

    def usable_gpus(self, row: int) -> list[GpuView]:
        """The GPUs of a node that may be given to jobs."""
        node = self.nodes[row]
        if self._healthy:
            return list(node.gpus)
        return [] if node.unavailable else [gpu for gpu in node.gpus if not gpu.blocked]

    def columns_of(self, gpu_type: str) -> list[int]:
        """The columns in which GPUs of this type ("" any) are counted apart."""
        if gpu_type in self.type_columns:
            return [self.type_columns[gpu_type]]
        return list(self.type_columns.values()) or [GPUS]

    def counted_in(self, gpu_type: str) -> list[int]:
        """The columns in which a GPU of this type counts."""
        typed = self.type_columns.get(gpu_type)
        return [GPUS] if typed is None else [GPUS, typed]

    def holds(self, share: Share) -> tuple[int, ...]:
        """`amounts` as plain numbers: the build of a timeline asks for many."""
        if self.type_columns or share.gpu_share_pct < 100 or share.node in self._blocked:
            return tuple(int(amount) for amount in self.amounts(share))
        return (share.cpus, share.mem_bytes, len(share.gpus))

    def amounts(self, share: Share) -> Ints:
        """What a share takes, by column. Blocked GPUs were never counted, and are not taken."""
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

    def need_amounts(self, need: Need) -> Ints:
        """The least that must be free; whole-node needs are added by `enough`."""
        found = np.zeros(self.columns, dtype=np.int64)
        found[CPUS] = need.cpus
        found[MEM] = 0 if need.mem_bytes == WHOLE_NODE else need.mem_bytes
        if need.gpu_share_pct >= 100:
            found[GPUS] = need.gpus
            if need.gpu_type in self.type_columns:
                found[self.type_columns[need.gpu_type]] = need.gpus
        return found

    def rows_for(self, asked: Resources, allowed: frozenset[NodeName] | None) -> list[Mask]:
        """For each alternative of the constraint the nodes that may be used, healthy or not."""
        base = np.ones(len(self.nodes), dtype=np.bool_)
        if allowed is not None:
            base &= self._named(allowed)
        if asked.nodelist:
            base &= self._named(frozenset(asked.nodelist))
        if asked.exclude:
            base &= ~self._named(frozenset(asked.exclude))
        if asked.gpus.type:
            base &= self._of_type(asked.gpus.type.lower())
        if not asked.constraint:
            return [base]
        masks = []
        for test in parse_constraint(asked.constraint):
            masks.append(base & np.array([test(node.features) for node in self.nodes], dtype=np.bool_))
        return masks

    def _named(self, names: frozenset[NodeName] | frozenset[str]) -> Mask:
        mask = np.zeros(len(self.nodes), dtype=np.bool_)
        rows = [self.row[NodeName(name)] for name in names if name in self.row]
        mask[rows] = True
        return mask

    def _of_type(self, name: str) -> Mask:
        mask = self._type_rows.get(name)
        if mask is None:
            has = [any(gpu.type.lower() == name for gpu in node.gpus) for node in self.nodes]
            mask = self._type_rows[name] = np.array(has, dtype=np.bool_)
        return mask

    def _capacities(self) -> Ints:
        found = np.zeros((self.columns, len(self.nodes)), dtype=np.int64)
        found[CPUS] = [node.cpus for node in self.nodes]
        found[MEM] = [node.mem_bytes for node in self.nodes]
        found[GPUS] = [len(node.gpus) for node in self.nodes]
        for name, blocked in self._blocked.items():
            found[GPUS, self.row[name]] -= len(blocked)
        for row, node in enumerate(self.nodes) if self.type_columns else ():
            blocked = self._blocked.get(node.name, set())
            for gpu in node.gpus:
                if gpu.index not in blocked:
                    found[self.type_columns[gpu.type.lower()], row] += 1
        found[:, ~self.takes_jobs] = 0
        return found


def _switches(nodes: tuple[NodeView, ...]) -> tuple[Ints, int]:
    """The switch of each row as a number; nodes without a known switch share number 0."""
    numbers: dict[str, int] = {"": 0}
    rows = [numbers.setdefault(node.switch, len(numbers)) for node in nodes]
    return np.array(rows, dtype=np.int64), len(numbers)
