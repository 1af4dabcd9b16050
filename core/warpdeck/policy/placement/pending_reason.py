"""Pending reasons: Slurm's reason codes, and sentences for people.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from warpdeck.model import Job, PendingReason, Resources, count_tasks
from warpdeck.notation.values.durations import roughly
from warpdeck.policy.input.view import PendingJob
from warpdeck.policy.resources.demand import WHOLE_NODE, needs

GIB = 2**30


def own_pending_reason(job: PendingJob, now: float) -> PendingReason | None:
    """Return the reason that the job itself gives for waiting: a hold, a dependency, or a begin time. None if
    the job is eligible.
    """
    if job.held:
        return held(job)
    if job.never:
        return PendingReason(code="DependencyNeverSatisfied", sentence=f"can never start: {job.never}")
    if job.waits_for:
        return PendingReason(code="Dependency", sentence=job.waits_for)
    if job.begin_at_unix is not None and job.begin_at_unix > now:
        if job.recording:
            return PendingReason(code="None", sentence="its code snapshot is in progress")
        wait = roughly(job.begin_at_unix - now)
        return PendingReason(
            code="BeginTime",
            sentence=f"begin time is in {wait}",
            expected_start_unix=job.begin_at_unix,
        )
    return None


def held(job: Job | PendingJob) -> PendingReason:
    """Return the reason of a held job, with the holder and the command that releases it."""
    release = f"`warpdeck release {job.array_job_id}`"
    if job.lost_reservation:
        return PendingReason(
            code="ReservationDeleted",
            sentence=f"held: its reservation {job.lost_reservation} has ended; {release} releases it without one",
        )
    if job.held_by_admin:
        return PendingReason(
            code="JobHeldAdmin", sentence=f"held by an admin; only admins can release it: {release}"
        )
    how = "requeued and held" if job.requeued_held else "held"
    return PendingReason(code="JobHeldUser", sentence=f"{how}; {release} releases it")


def throttled(job: PendingJob) -> PendingReason:
    """Return the reason of an array that runs as many tasks as its own limit allows."""
    return PendingReason(
        code="JobArrayTaskLimit",
        sentence=f"array limit reached: {job.throttle} tasks running, {count_tasks(job.tasks)} waiting",
    )


def describe_need(requested: Resources) -> str:
    """Return the request as text, such as "4 GPUs of type h100, 16 CPUs on each of 2 nodes".

    A single CPU beside GPUs is not named, because every job gets one.
    """
    requirements = needs(requested, requested.nodes_min, default_mem_per_cpu_bytes=0)
    if requested.nodes_open and (requested.tasks or 1) > 1:
        return _describe_tasks(requested)
    if not requirements:
        return f"{requested.gpus.total} GPUs over {requested.nodes_min} nodes"
    need, _ = requirements[0]
    parts = []
    if need.gpus:
        kind = f" of type {need.gpu_type}" if need.gpu_type else ""
        count = f"{need.gpu_share_pct} % of a GPU" if need.gpu_share_pct < 100 else many(need.gpus, "GPU")
        parts.append(count + kind)
    if need.cpus > 1 or not need.gpus:
        parts.append(many(need.cpus, "CPU"))
    if need.mem_bytes == WHOLE_NODE:
        parts.append("all memory")
    elif need.mem_bytes:
        parts.append(f"{need.mem_bytes / GIB:.0f} GiB")
    where = "one node" if requested.nodes_min == 1 else f"each of {requested.nodes_min} nodes"
    if requested.constraint:
        where += f" with {requested.constraint}"
    return ", ".join(parts) + f" on {where}"


def _describe_tasks(requested: Resources) -> str:
    """Describe a request that may use as many nodes as it needs."""
    gpus, kind = requested.gpus, f" of type {requested.gpus.type}" if requested.gpus.type else ""
    each = [many(requested.cpus_of_task(), "CPU")]
    if gpus.per_task:
        each.append(many(gpus.per_task, "GPU") + kind)
    text = f"{many(requested.tasks or 1, 'task')} of {' and '.join(each)}"
    if gpus.total or gpus.per_node:
        text += f", {many(gpus.total or gpus.per_node or 0, 'GPU')}{kind}{' on each node' * (not gpus.total)}"
    if requested.mem_per_node_bytes:
        text += f", {requested.mem_per_node_bytes / GIB:.0f} GiB on each node"
    return text + (f" on nodes with {requested.constraint}" if requested.constraint else "")


def many(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
