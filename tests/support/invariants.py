"""What must hold of every plan, one function each; they raise AssertionError."""

from __future__ import annotations

from warpdeck.model import JobId, NodeName
from warpdeck.policy import PendingJob, Plan, PlannerView


def nothing_is_held_twice(view: PlannerView, plan: Plan) -> None:
    """No GPU is given to two jobs, and no node gives more CPUs or memory than it has."""
    nodes = {node.name: node for node in view.nodes}
    gpus: set[tuple[str, int]] = set()
    cpus: dict[NodeName, int] = {}
    mem: dict[NodeName, int] = {}
    allocations = [job.allocation for job in view.running] + [start.allocation for start in plan.starts]
    for share in (share for allocation in allocations for share in allocation.shares):
        for index in share.gpus:
            assert (share.node, index) not in gpus, f"GPU {index} of {share.node} is held twice"
            gpus.add((share.node, index))
        cpus[share.node] = cpus.get(share.node, 0) + share.cpus
        mem[share.node] = mem.get(share.node, 0) + share.mem_bytes
    for name, count in cpus.items():
        assert count <= nodes[name].cpus, f"{name} gives {count} CPUs and has {nodes[name].cpus}"
        assert mem[name] <= nodes[name].mem_bytes


def everybody(view: PlannerView) -> list[PendingJob]:
    """Return all waiting jobs, including components of heterogeneous jobs."""
    return [part for job in view.pending for part in (job, *job.components)]


def gangs_are_whole(view: PlannerView, plan: Plan) -> None:
    """A started job gets all its nodes, tasks and GPUs, on different nodes that accept jobs and satisfy its
    request.
    """
    jobs = {job.id: job for job in everybody(view)}
    nodes = {node.name: node for node in view.nodes}
    for start in plan.starts:
        asked = jobs[start.job_id].resources
        names = start.allocation.node_names()
        assert len(set(names)) == len(names)
        assert asked.nodes_min <= len(names) <= max(asked.nodes_min, asked.nodes_max)
        for share in start.allocation.shares:
            assert not nodes[share.node].unavailable
            assert share.node not in asked.exclude
            assert len(share.gpus) == (asked.gpus.per_node or 0)
            held = [gpu for gpu in nodes[share.node].gpus if gpu.index in share.gpus]
            assert all(not gpu.blocked for gpu in held)
            assert all(asked.gpus.type.lower() in ("", gpu.type.lower()) for gpu in held)
            assert tuple(gpu.uuid for gpu in held) == share.gpu_uuids


def everyone_is_accounted_for(view: PlannerView, plan: Plan) -> None:
    """Every waiting job starts or has a pending reason with a sentence."""
    started = {start.job_id for start in plan.starts}
    for job in everybody(view):
        assert job.id in started or plan.pending_reasons[job.id].sentence, (
            f"job {job.id} has neither start nor reason"
        )


def no_job_starts_twice(view: PlannerView, plan: Plan) -> None:
    """A plain job starts once, and so does each task of an array."""
    seen: set[tuple[JobId, int | None]] = set()
    for start in plan.starts:
        assert (start.job_id, start.task) not in seen
        seen.add((start.job_id, start.task))


ALL = (nothing_is_held_twice, gangs_are_whole, everyone_is_accounted_for, no_job_starts_twice)
