"""The machine on which a log is replayed: a pool of CPUs, or nodes with GPUs; and what a log's job asks of it. Pure.

A pool is one large node. On nodes a job takes its GPUs evenly over its nodes (blank: as few nodes as hold them), with an
equal part of their CPUs, so that only GPUs count; a job that asks for no GPU takes its nodes whole.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from warpdeck.model import GpuAsk, GpuUuid, NodeName, Resources
from warpdeck.policy import GpuView, NodeView

from .trace import TraceJob

POOL = NodeName("pool")


class Shape(NamedTuple):
    """What a job asks: for the planner, and in units of the machine (CPUs of a pool, else GPUs) for its utilisation."""

    resources: Resources
    units: int


class Machine(ABC):
    """Nodes, and the shapes that jobs take on them. Equal requests share one Resources object, as the planner likes it."""

    def __init__(self, nodes: tuple[NodeView, ...], *, units: int) -> None:
        self.nodes = nodes
        self.units = units
        """CPUs of a pool, GPUs of nodes (nodes, if they have none)."""
        self._shapes: dict[tuple[int, int, int], Shape | None] = {}

    def shape(self, job: TraceJob) -> Shape | None:
        """What the job asks; None if it is larger than the machine."""
        key = (job.nodes, job.gpus, job.cpus)
        if key not in self._shapes:
            self._shapes[key] = self._make(job)
        return self._shapes[key]

    @abstractmethod
    def _make(self, job: TraceJob) -> Shape | None:
        """What a job of these counts asks; None if it is larger than the machine."""


class Pool(Machine):
    """So many CPUs, wherever they are. A job without a count of CPUs takes one for each GPU, else for each node."""

    def __init__(self, cpus: int) -> None:
        super().__init__((NodeView(name=POOL, cpus=cpus, mem_bytes=0),), units=cpus)

    def _make(self, job: TraceJob) -> Shape | None:
        size = job.cpus or job.gpus or job.nodes
        return None if size > self.units else Shape(Resources(cpus_per_task=size), size)


class GpuNodes(Machine):
    """Equal nodes of some GPUs each."""

    def __init__(self, nodes: int, *, gpus_per_node: int) -> None:
        self._gpus = gpus_per_node
        self._count = nodes
        self._cpus = max(1, gpus_per_node)
        width = len(str(nodes))
        names = [NodeName(f"n{number:0{width}d}") for number in range(1, nodes + 1)]
        views = tuple(self._node(name) for name in names)
        super().__init__(views, units=nodes * self._cpus)

    def _node(self, name: NodeName) -> NodeView:
        gpus = tuple(
            GpuView(index=index, uuid=GpuUuid(f"{name}-{index}"), type="gpu", mem_bytes=0)
            for index in range(self._gpus)
        )
        return NodeView(name=name, cpus=self._cpus, mem_bytes=0, gpus=gpus)

    def _make(self, job: TraceJob) -> Shape | None:
        if not job.gpus:
            nodes = max(1, job.nodes)
            asked = Resources(nodes_min=nodes, nodes_max=nodes, exclusive=True)
            return None if nodes > self._count else Shape(asked, nodes * self._cpus)
        if not self._gpus:
            return None
        nodes = job.nodes or -(-job.gpus // self._gpus)
        nodes = min(nodes, job.gpus)
        most = -(-job.gpus // nodes)
        if nodes > self._count or most > self._gpus:
            return None
        even = most * nodes == job.gpus
        gpus = GpuAsk(per_node=most) if even else GpuAsk(total=job.gpus)
        asked = Resources(nodes_min=nodes, nodes_max=nodes, cpus_per_task=most if even else 1, gpus=gpus)
        return Shape(asked, job.gpus)
