"""Invariants of every plan, one function each. Each raises AssertionError on a violation."""

from __future__ import annotations

from warpdeck.model import JobId, NodeName
from warpdeck.policy import PendingJob, Plan, PlannerView


def no_resource_is_allocated_twice(view: PlannerView, plan: Plan) -> None:
    """Check that no GPU has two jobs, and that no node is overcommitted in CPUs or memory."""
    nodes = {node.name: node for node in view.nodes}
    gpus: set[tuple[str, int]] = set()
    cpus: dict[NodeName, int] = {}
    mem: dict[NodeName, int] = {}
    allocations = [job.allocation for job in view.running] + [start.allocation for start in plan.starts]
    for share in (share for allocation in allocations for share in allocation.shares):
        for index in share.gpus:
            assert (share.node, index) not in gpus, f"GPU {index} of {share.node} is allocated twice"
            gpus.add((share.node, index))
        cpus[share.node] = cpus.get(share.node, 0) + share.cpus
        mem[share.node] = mem.get(share.node, 0) + share.mem_bytes
    for name, count in cpus.items():
        assert count <= nodes[name].cpus, (
            f"{count} CPUs of {name} are allocated, and it has {nodes[name].cpus}"
        )
        assert mem[name] <= nodes[name].mem_bytes


def all_waiting_jobs(view: PlannerView) -> list[PendingJob]:
    """Return all waiting jobs, including components of heterogeneous jobs."""
    return [part for job in view.pending for part in (job, *job.components)]


def allocations_are_complete(view: PlannerView, plan: Plan) -> None:
    """Check that started jobs have all their nodes, tasks and GPUs, on different nodes that satisfy their requests."""
    jobs = {job.id: job for job in all_waiting_jobs(view)}
    nodes = {node.name: node for node in view.nodes}
    for start in plan.starts:
        request = jobs[start.job_id].resources
        names = start.allocation.node_names()
        assert len(set(names)) == len(names)
        assert request.nodes_min <= len(names) <= max(request.nodes_min, request.nodes_max)
        for share in start.allocation.shares:
            assert not nodes[share.node].unavailable
            assert share.node not in request.exclude
            assert len(share.gpus) == (request.gpus.per_node or 0)
            held = [gpu for gpu in nodes[share.node].gpus if gpu.index in share.gpus]
            assert all(not gpu.blocked for gpu in held)
            assert all(request.gpus.type.lower() in ("", gpu.type.lower()) for gpu in held)
            assert tuple(gpu.uuid for gpu in held) == share.gpu_uuids


def every_job_starts_or_has_a_reason(view: PlannerView, plan: Plan) -> None:
    """Check that every waiting job starts or has a pending reason with a sentence."""
    started = {start.job_id for start in plan.starts}
    for job in all_waiting_jobs(view):
        assert job.id in started or plan.pending_reasons[job.id].sentence, (
            f"job {job.id} has neither start nor reason"
        )


def no_job_starts_twice(view: PlannerView, plan: Plan) -> None:
    """Check that no plain job and no array task starts twice."""
    seen: set[tuple[JobId, int | None]] = set()
    for start in plan.starts:
        assert (start.job_id, start.task) not in seen
        seen.add((start.job_id, start.task))


ALL = (
    no_resource_is_allocated_twice,
    allocations_are_complete,
    every_job_starts_or_has_a_reason,
    no_job_starts_twice,
)
