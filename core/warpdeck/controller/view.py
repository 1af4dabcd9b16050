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
    waiting = sorted(state.pending) if with_pending else ()
    namesakes = Namesakes(state)
    return View(
        nodes=tuple(
            _node_view(state, state.nodes[name], avoid_foreign=avoid_foreign) for name in sorted(state.nodes)
        ),
        running=tuple(_running(state.jobs[job_id]) for job_id in sorted(state.active)),
        pending=tuple(_pending(state, state.jobs[job_id], namesakes, now=now) for job_id in waiting),
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


def shares_on(state: State, name: NodeName) -> list[tuple[JobId, Share]]:
    """What is held of the node now: (job, its share there), by job id."""
    return [
        (job.id, share)
        for job in state.jobs_on(name)
        for share in (job.allocation.shares if job.allocation is not None else ())
        if share.node == name
    ]


def gpu_holders(state: State, name: NodeName) -> dict[int, JobId]:
    """GPU index -> the job that holds it on this node."""
    return {index: job_id for job_id, share in shares_on(state, name) for index in share.gpus}


def is_free(state: State, node: Node, share: Share) -> bool:
    """Whether the share still fits beside what is held on the node now."""
    held = [other for _, other in shares_on(state, node.name)]
    cpus = sum(other.cpus for other in held)
    mem = sum(other.mem_bytes for other in held)
    taken = {index for other in held for index in other.gpus}
    return (
        cpus + share.cpus <= node.cpus
        and mem + share.mem_bytes <= node.mem_bytes
        and taken.isdisjoint(share.gpus)
    )


def blocked_gpus(reading: Reading | None, holders: dict[int, JobId]) -> dict[int, str]:
    """GPU index -> why no job may have it: a process that is not of the job that holds it keeps memory there."""
    blocked: dict[int, str] = {}
    for gpu in reading.gpus if reading else ():
        if gpu.error:
            blocked[gpu.index] = gpu.error
        for process in gpu.processes:
            if process.mem_bytes < FOREIGN_MIN_BYTES:
                continue
            if process.job_id and process.job_id == holders.get(gpu.index):
                continue
            owner = f"job {process.job_id}" if process.job_id else (process.user or "an unknown user")
            gib = process.mem_bytes / 2**30
            blocked[gpu.index] = f"held by {owner} outside the queue (pid {process.pid}, {gib:.1f} GiB)"
    return blocked


def _node_view(state: State, node: Node, *, avoid_foreign: bool) -> NodeView:
    reading = state.readings.get(node.name) if avoid_foreign else None
    blocked = blocked_gpus(reading, gpu_holders(state, node.name)) if reading is not None else {}
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


def _pending(state: State, job: Job, namesakes: Namesakes, *, now: float) -> PendingJob:
    request = job.request
    verdict = judge(job, members=state.named, first_namesake=namesakes.first_before, now=now)
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


class Namesakes:
    """Unfinished jobs by user and name, for `singleton`. Sorted once per picture, and only if somebody asks."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._groups: dict[tuple[str, str], list[Job]] | None = None

    def first_before(self, job: Job) -> Job | None:
        """The oldest unfinished job of the same user and name that was submitted before this one."""
        if self._groups is None:
            self._groups = {}
            for job_id in sorted((*self._state.active, *self._state.pending)):
                other = self._state.jobs[job_id]
                self._groups.setdefault((other.user, other.request.name), []).append(other)
        oldest = self._groups.get((job.user, job.request.name), [])
        return next((other for other in oldest if other.array_job_id < job.array_job_id), None)
