"""Builders of policy input with defaults, so that a test names only the values that matter to it."""

from __future__ import annotations

from typing import Any

from warpdeck.model import Allocation, GpuRequest, GpuUuid, JobId, NodeName, Resources, Share
from warpdeck.policy import GpuView, NodeView, PendingJob, PlannerView, RunningJob

GIB = 2**30


def node(
    name: str,
    *,
    gpus: int = 8,
    cpus: int = 64,
    gpu_type: str = "h100",
    blocked: dict[int, str] | None = None,
    unavailable: str = "",
) -> NodeView:
    """Return a node with GPUs of one type."""
    made = tuple(
        GpuView(
            index=index,
            uuid=GpuUuid(f"{name}-{index}"),
            type=gpu_type,
            mem_bytes=80 * GIB,
            blocked=(blocked or {}).get(index, ""),
            numa_node=index // 4,
        )
        for index in range(gpus)
    )
    return NodeView(name=NodeName(name), cpus=cpus, mem_bytes=512 * GIB, gpus=made, unavailable=unavailable)


def pending(
    number: int, *, gpus: int = 0, nodes: int = 1, limit_s: int | None = 3600, **fields: Any
) -> PendingJob:
    """Return a waiting job that requests `gpus` GPUs on each of its nodes."""
    resources = fields.pop("resources", None) or Resources(
        nodes_min=nodes, nodes_max=nodes, gpus=GpuRequest(per_node=gpus) if gpus else GpuRequest()
    )
    base: dict[str, Any] = {
        "id": JobId(number),
        "array_job_id": JobId(number),
        "user": "ann",
        "label": str(number),
        "resources": resources,
        "submit_at_unix": float(number),
        "eligible_at_unix": float(number),
        "time_limit_s": limit_s,
    }
    return PendingJob(**{**base, **fields})


def running(
    number: int, name: str, gpus: tuple[int, ...], *, ends: float | None, cpus: int = 1
) -> RunningJob:
    """Return a running job that holds these GPUs of one node."""
    share = Share(
        node=NodeName(name),
        cpus=cpus,
        mem_bytes=0,
        gpus=gpus,
        gpu_uuids=tuple(GpuUuid(f"{name}-{index}") for index in gpus),
    )
    return RunningJob(
        id=JobId(number),
        array_job_id=JobId(number),
        allocation=Allocation(shares=(share,)),
        ends_by_unix=ends,
    )


def view(nodes: list[NodeView], jobs: list[PendingJob], held: list[RunningJob] | None = None) -> PlannerView:
    """Return a view of the cluster."""
    return PlannerView(nodes=tuple(nodes), pending=tuple(jobs), running=tuple(held or []))
