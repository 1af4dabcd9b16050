"""From the state to what the planner sees, and the same facts for checking a start when it is applied."""

from __future__ import annotations

from warpdeck.model import GpuUuid, Job, JobId, Link, Node, NodeName, Reading, Share
from warpdeck.policy import GpuView, NodeView, PendingJob, RunningJob, View

from .dependencies import judge
from .state import State

FOREIGN_MIN_BYTES = 64 * 1024 * 1024
"""A stranger's process below this (a display server, a monitor) does not block a GPU."""


def build_view(state: State, *, now: float, with_pending: bool = True, avoid_foreign: bool = True) -> View:
    """An immutable picture of the state. Nodes by name, jobs by id."""
    holders = gpu_holders(state)
    return View(
        nodes=tuple(
            _node_view(state, state.nodes[name], holders, avoid_foreign=avoid_foreign)
            for name in sorted(state.nodes)
        ),
        running=tuple(_running(state.jobs[job_id]) for job_id in sorted(state.active)),
        pending=tuple(_pending(state, state.jobs[job_id], now) for job_id in sorted(state.pending))
        if with_pending
        else (),
    )


def why_unavailable(state: State, node: Node) -> str:
    """Why the node takes no new job, "" if it does."""
    if node.drained:
        return f"drained: {node.reason}" if node.reason else "drained"
    link = state.links.get(node.name, Link.CONNECTING)
    if link is Link.UP:
        return ""
    if link is Link.CONNECTING:
        return "not connected yet"
    reason = state.link_reasons.get(node.name, "")
    return f"does not answer ({reason})" if reason else "does not answer"


def gpu_holders(state: State) -> dict[tuple[NodeName, int], JobId]:
    """(node, GPU index) -> the job that holds it."""
    held: dict[tuple[NodeName, int], JobId] = {}
    for job_id in sorted(state.active):
        allocation = state.jobs[job_id].allocation
        for share in allocation.shares if allocation else ():
            for index in share.gpus:
                held[share.node, index] = job_id
    return held


def is_free(state: State, node: Node, share: Share) -> bool:
    """Whether the share still fits beside what is held on the node now."""
    cpus = mem = 0
    taken: set[int] = set()
    for job in state.jobs_on(node.name):
        assert job.allocation is not None
        for other in job.allocation.shares:
            if other.node == node.name:
                cpus += other.cpus
                mem += other.mem_bytes
                taken.update(other.gpus)
    return (
        cpus + share.cpus <= node.cpus
        and mem + share.mem_bytes <= node.mem_bytes
        and taken.isdisjoint(share.gpus)
    )


def blocked_gpus(
    reading: Reading | None, holders: dict[tuple[NodeName, int], JobId], name: NodeName
) -> dict[int, str]:
    """GPU index -> why no job may have it: a process that is not of the job that holds it keeps memory there."""
    blocked: dict[int, str] = {}
    for gpu in reading.gpus if reading else ():
        if gpu.error:
            blocked[gpu.index] = gpu.error
        for process in gpu.processes:
            if process.mem_bytes < FOREIGN_MIN_BYTES:
                continue
            if process.job_id and process.job_id == holders.get((name, gpu.index)):
                continue
            owner = f"job {process.job_id}" if process.job_id else (process.user or "an unknown user")
            gib = process.mem_bytes / 2**30
            blocked[gpu.index] = f"held by {owner} outside the queue (pid {process.pid}, {gib:.1f} GiB)"
    return blocked


def _node_view(
    state: State, node: Node, holders: dict[tuple[NodeName, int], JobId], *, avoid_foreign: bool
) -> NodeView:
    blocked = blocked_gpus(state.readings.get(node.name), holders, node.name) if avoid_foreign else {}
    return NodeView(
        name=node.name,
        cpus=node.cpus,
        mem_bytes=node.mem_bytes,
        gpus=tuple(
            GpuView(
                index=gpu.index,
                uuid=GpuUuid(gpu.uuid),
                type=gpu.type,
                mem_bytes=gpu.mem_bytes,
                blocked=blocked.get(gpu.index, ""),
                numa_node=gpu.numa_node,
            )
            for gpu in node.gpus
        ),
        unavailable=why_unavailable(state, node),
    )


def _running(job: Job) -> RunningJob:
    assert job.allocation is not None
    limit = job.request.time_limit_s
    begun = job.start_at_unix
    return RunningJob(
        id=job.id,
        allocation=job.allocation,
        ends_by_unix=None if limit is None or begun is None else begun + limit,
        array_job_id=job.array_job_id,
    )


def _pending(state: State, job: Job, now: float) -> PendingJob:
    request = job.request
    verdict = judge(
        job, members=state.array_members, namesakes=lambda asker: _namesakes(state, asker), now=now
    )
    return PendingJob(
        id=job.id,
        array_job_id=job.array_job_id,
        label=job.label(),
        user=job.user,
        resources=request.resources,
        submit_at_unix=job.submit_at_unix,
        eligible_at_unix=job.eligible_at_unix,
        time_limit_s=request.time_limit_s,
        partition=request.partition,
        account=request.account,
        qos=request.qos,
        priority=request.priority,
        nice=request.nice,
        begin_at_unix=request.begin_at_unix,
        held=job.held,
        waits_for=verdict.waits_for,
        never=verdict.never,
        tasks=job.pending_tasks,
        throttle=request.array.throttle if request.array else 0,
    )


def _namesakes(state: State, job: Job) -> list[Job]:
    ids = [job_id for job_id in (*state.active, *state.pending) if job_id < job.id]
    found = [state.jobs[job_id] for job_id in sorted(ids)]
    return [
        other
        for other in found
        if other.user == job.user
        and other.request.name == job.request.name
        and other.array_job_id != job.array_job_id
    ]
