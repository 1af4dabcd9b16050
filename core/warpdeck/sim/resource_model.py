"""The machine on which a log is replayed, and the requests of the log's jobs. Pure functions.

A machine is a pool of CPUs, or nodes with GPUs. A pool is one large node. On nodes, the GPUs of a job are
spread evenly over its nodes. A job without a number of nodes gets as few as possible. Each GPU takes an equal
part of its node's CPUs, so that only GPUs count. A job without GPUs takes its nodes completely.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from warpdeck.model import GpuRequest, GpuUuid, NodeName, Resources
from warpdeck.policy import GpuView, NodeView

from .trace import TraceJob

POOL = NodeName("pool")


class SizedRequest(NamedTuple):
    """A job's request for the planner, and its size in units of the machine (CPUs of a pool, else GPUs) for
    the utilization.
    """

    resources: Resources
    units: int


class Machine(ABC):
    """Nodes and the requests of jobs on them. Equal requests share one Resources object, which makes the
    planner faster.
    """

    def __init__(self, nodes: tuple[NodeView, ...], *, units: int) -> None:
        self.nodes = nodes
        self.units = units
        """Size of the machine: CPUs of a pool, or GPUs of nodes (the number of nodes if they have none)."""
        self._requests: dict[tuple[int, int, int], SizedRequest | None] = {}

    def request_of(self, job: TraceJob) -> SizedRequest | None:
        """Return the job's request, or None if it is larger than the machine."""
        key = (job.nodes, job.gpus, job.cpus)
        if key not in self._requests:
            self._requests[key] = self._build(job)
        return self._requests[key]

    @abstractmethod
    def _build(self, job: TraceJob) -> SizedRequest | None:
        """Return the request for these counts, or None if it is larger than the machine."""


class Pool(Machine):
    """A number of CPUs in one place. A job without a CPU count takes one for each GPU, else one for each
    node.
    """

    def __init__(self, cpus: int) -> None:
        super().__init__((NodeView(name=POOL, cpus=cpus, mem_bytes=0),), units=cpus)

    def _build(self, job: TraceJob) -> SizedRequest | None:
        size = job.cpus or job.gpus or job.nodes
        return None if size > self.units else SizedRequest(Resources(cpus_per_task=size), size)


class GpuNodes(Machine):
    """Equal nodes with the same number of GPUs each."""

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

    def _build(self, job: TraceJob) -> SizedRequest | None:
        if not job.gpus:
            nodes = max(1, job.nodes)
            resources = Resources(nodes_min=nodes, nodes_max=nodes, exclusive=True)
            return None if nodes > self._count else SizedRequest(resources, nodes * self._cpus)
        if not self._gpus:
            return None
        nodes = job.nodes or -(-job.gpus // self._gpus)
        nodes = min(nodes, job.gpus)
        per_node = -(-job.gpus // nodes)
        if nodes > self._count or per_node > self._gpus:
            return None
        even = per_node * nodes == job.gpus
        gpus = GpuRequest(per_node=per_node) if even else GpuRequest(total=job.gpus)
        resources = Resources(
            nodes_min=nodes, nodes_max=nodes, cpus_per_task=per_node if even else 1, gpus=gpus
        )
        return SizedRequest(resources, job.gpus)
