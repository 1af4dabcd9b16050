"""Convert the state to the planner's view. The same functions check a start when it is applied."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import msgspec

from warpdeck.config import NodeSettings
from warpdeck.model import (
    Allocation,
    GpuUuid,
    Job,
    JobId,
    JobState,
    Link,
    Node,
    NodeName,
    NodeReading,
    Resources,
    Share,
)
from warpdeck.policy import GpuView, NodeView, PendingJob, PlannerView, RunningJob
from warpdeck.policy.limits.access import partition_names, time_limit

from .deadlines import begins_unix, waits_for_record
from .dependencies import evaluate
from .tables import StateTables

GIB = 2**30
FOREIGN_MIN_BYTES = 64 * 1024 * 1024
"""Memory below which a process outside the queue (a display server, a monitor) does not block a GPU."""


def rules_view(state: StateTables) -> PlannerView:
    """Return the view against which a submission is checked.

    It contains the rules and the job counts, but no nodes.
    """
    site = state.site
    return PlannerView(
        nodes=(),
        running=(),
        pending=(),
        submitted=state.submitted,
        partitions=site.partitions,
        qos=site.qos,
        accounts=site.accounts,
        users=site.users,
        licenses=site.licenses,
    )


def unavailable_reason(state: StateTables, node: Node) -> str:
    """Return the reason why the node accepts no new jobs; "" if it accepts them."""
    if node.drained:
        return f"drained: {node.reason}" if node.reason else "drained"
    link = state.node_status.links.get(node.name, Link.CONNECTING)
    if link is Link.UP:
        return ""
    if link is Link.CONNECTING:
        return "not connected yet"
    reason = state.node_status.link_reasons.get(node.name, "")
    return f"does not answer ({reason})" if reason else "does not answer"


def excludes_other_users(state: StateTables, job: Job, partition: str) -> bool:
    """Return whether the job allows no other user's job on its nodes (--exclusive=user).

    The job or the given partition may require this.
    """
    return job.request.resources.share_with == "user" or any(
        part.exclusive_user for part in state.site.partitions if part.name == partition
    )


def runs_jobs(state: StateTables, name: NodeName) -> bool:
    """Return whether jobs run on the node. As in Slurm, a node with only suspended jobs is idle."""
    return any(job.state is not JobState.SUSPENDED for job in state.jobs_on(name))


def shares_on(state: StateTables, name: NodeName) -> list[tuple[JobId, Share]]:
    """Return the shares of the node that jobs hold now, as (job, share), ordered by job id."""
    return [
        (job.id, share)
        for job in state.jobs_on(name)
        for share in (job.held_allocation.shares if job.held_allocation is not None else ())
        if share.node == name
    ]


def gpu_holders(state: StateTables, name: NodeName) -> dict[int, JobId]:
    """Return the job that holds each GPU of the node, by GPU index."""
    return {index: job_id for job_id, share in shares_on(state, name) for index in share.gpus}


def gpu_users(state: StateTables, name: NodeName) -> dict[int, set[JobId]]:
    """Return the jobs that may keep memory on each GPU, by GPU index.

    These are the jobs to which the GPU is allocated, and the suspended jobs that were preempted from it.
    """
    users: dict[int, set[JobId]] = {}
    for job in state.jobs_on(name):
        for share in job.allocation.shares if job.allocation is not None else ():
            for index in share.gpus if share.node == name else ():
                users.setdefault(index, set()).add(job.id)
    return users


def fits_on(state: StateTables, node: Node, share: Share, *, ignoring: JobId | None) -> bool:
    """Return whether the share still fits on the node beside the shares of all jobs other than `ignoring`."""
    held = [other for job_id, other in shares_on(state, node.name) if job_id != ignoring]
    cpus = sum(other.cpus for other in held)
    mem = sum(other.mem_bytes for other in held)
    return (
        cpus + share.cpus <= node.cpus
        and mem + share.mem_bytes <= node.mem_bytes
        and all(_part_left(held, index) >= share.gpu_share_pct for index in share.gpus)
    )


def fits_now(state: StateTables, allocation: Allocation, *, ignoring: JobId | None) -> bool:
    """Return whether the whole allocation fits beside the allocations of all jobs other than `ignoring`."""
    for share in allocation.shares:
        node = state.nodes.get(share.node)
        if node is None or not fits_on(state, node, share, ignoring=ignoring):
            return False
    return True


def _part_left(held: Sequence[Share], index: int) -> int:
    """Return the percentage of a GPU that no job holds."""
    return 100 - sum(other.gpu_share_pct for other in held if index in other.gpus)


def blocked_gpus(
    node: Node, reading: NodeReading | None, users: dict[int, set[JobId]], *, foreign: bool = True
) -> dict[int, str]:
    """Return the reason why no job may use a GPU, by GPU index.

    A GPU is blocked if it is drained or faulty. With `foreign`, it is also blocked if a process outside the
    jobs that may use it holds memory there, or if memory is in use and no process is visible.
    """
    drained = {each.uuid: each.reason for each in node.gpu_drains}
    blocked = {gpu.index: f"drained: {drained[gpu.uuid]}" for gpu in node.gpus if gpu.uuid in drained}
    for gpu in reading.gpus if reading else ():
        if gpu.index in blocked:
            continue
        if gpu.error:
            blocked[gpu.index] = gpu.error
        for process in gpu.processes if foreign else ():
            if process.mem_bytes < FOREIGN_MIN_BYTES:
                continue
            if process.job_id in users.get(gpu.index, ()):
                continue
            owner = f"job {process.job_id}" if process.job_id else (process.user or "an unknown user")
            pid, gib = f"pid {process.pid}, " if process.pid else "", process.mem_bytes / GIB
            blocked[gpu.index] = f"held by {owner} outside the queue ({pid}{gib:.1f} GiB)"
        if foreign and gpu.unexplained_bytes and gpu.index not in users and gpu.index not in blocked:
            blocked[gpu.index] = (
                f"{gpu.unexplained_bytes / GIB:.1f} GiB of its memory are used by no visible process"
            )
    return blocked


def node_view(node: Node, facts: NodeSettings, blocked: dict[int, str], *, unavailable: str) -> NodeView:
    """Convert a node to the type that the planner uses."""
    return NodeView(
        name=node.name,
        cpus=node.cpus,
        mem_bytes=node.mem_bytes,
        topology=node.topology,
        tmp_disk_bytes=node.tmp_disk_bytes,
        gpus=tuple(
            GpuView(
                index=gpu.index,
                uuid=GpuUuid(gpu.uuid),
                type=gpu.type,
                mem_bytes=gpu.mem_bytes,
                blocked=blocked.get(gpu.index, ""),
                numa_node=gpu.numa_node,
                island=gpu.island,
            )
            for gpu in node.gpus
        ),
        unavailable=unavailable,
        features=facts.features,
        switch=facts.switch,
        weight=facts.weight,
    )


def running_job(job: Job, now: float, grace_s: float, *, closes_unix: float = math.inf) -> RunningJob:
    """Convert a job that holds resources for the planner. The end of its reservation ends the job at
    `closes_unix`.
    """
    assert job.allocation is not None
    request, ending = job.request, job.state is JobState.COMPLETING
    ends = job.ends_by_unix()
    if ending:
        ends = ends if job.leaves_by_unix is not None else now + grace_s
    elif job.start_at_unix is None and job.time_limit_s is not None:
        ends = now + job.time_limit_s
    elif job.state is JobState.SUSPENDED and ends is not None:
        ends += now - (job.suspended_at_unix or now)
    if closes_unix < math.inf and not ending and job.state is not JobState.SUSPENDED:
        ends = closes_unix if ends is None else min(ends, closes_unix)
    return RunningJob(
        id=job.id,
        allocation=job.held_allocation or job.allocation,
        ends_by_unix=ends,
        array_job_id=job.array_job_id,
        label=job.label(),
        user=job.user,
        uid=job.uid,
        account=request.account,
        qos=request.qos,
        partition=job.partition,
        reservation=job.reservation,
        licenses=request.licenses,
        start_at_unix=job.start_at_unix or now,
        expects_end_unix=job.expects_end_unix(),
        requeue=request.requeue and request.pty is None,
        ending=ending,
        excludes_users=request.resources.share_with == "user",
        suspended=job.state is JobState.SUSPENDED,
        resumes_to=job.allocation if job.state is JobState.SUSPENDED and not job.suspended_by else None,
    )


def waiting_limit_s(state: StateTables, job: Job, namesakes: Namesakes, *, now: float) -> int | None:
    """Return the time limit in seconds of a waiting job in the first partition that it requests.

    Returns None if there is none.
    """
    requested, site = job.request.time_limit_s, state.site
    if requested is not None:
        return requested
    names = partition_names(job.request.partition, site.settings)[:1]
    found = next((each for each in site.partitions if each.name in names), None)
    return time_limit(pending_job(state, job, namesakes, now=now), found, site.settings, now)


def pending_job(state: StateTables, job: Job, namesakes: Namesakes, *, now: float) -> PendingJob:
    """Convert a waiting or newly submitted job to the type that the planner uses."""
    request = job.request
    verdict = evaluate(job, members=state.named, first_namesake=namesakes.first_before, now=now)
    return PendingJob(
        id=job.id,
        array_job_id=job.array_job_id,
        label=job.label(),
        user=job.user,
        uid=job.uid,
        resources=_asked_by_now(
            state.request_interner.intern(request.resources), waited_s=now - job.eligible_at_unix
        ),
        submit_at_unix=job.submit_at_unix,
        eligible_at_unix=max(job.eligible_at_unix, verdict.since_unix),
        time_limit_s=request.time_limit_s,
        unlimited=request.unlimited,
        predicted_s=job.predicted_s,
        reserved_start_unix=state.planned.reserved_starts.get(job.id),
        time_min_s=request.time_min_s,
        reservation=request.reservation,
        licenses=request.licenses,
        deadline_unix=request.deadline_unix,
        held_by_admin=job.held_by_admin,
        lost_reservation=job.lost_reservation,
        requeued_held=job.requeued_held,
        preempted_claim=job.preempted_claim,
        partition=request.partition,
        account=request.account,
        qos=request.qos,
        priority=request.priority,
        nice=request.nice,
        begin_at_unix=begins_unix(request),
        recording=waits_for_record(request),
        held=job.held,
        waits_for=verdict.waits_for,
        never=verdict.never,
        kill_invalid=request.kill_on_invalid_dep,
        tasks=job.pending_tasks if verdict.tasks is None else verdict.tasks,
        throttle=request.array.throttle if request.array else 0,
    )


def with_components(
    state: StateTables, leader: PendingJob, namesakes: Namesakes, *, now: float
) -> PendingJob:
    """Return the leader of a heterogeneous job with its other components.

    If one component must wait, all components wait.
    """
    members = [job for job in state.array_members(leader.id) if job.id != leader.id]
    made = [pending_job(state, job, namesakes, now=now) for job in members if job.state is JobState.PENDING]
    parts = (leader, *made)
    unfinished = [
        f"component {job.label()}, which has not ended yet" for job in members if not _may_wait(job)
    ]
    held = [f"component {job.name}, which is held" for job in made if job.held]
    return msgspec.structs.replace(
        leader,
        components=tuple(made),
        waits_for=next((job.waits_for for job in parts if job.waits_for), "")
        or next(iter((*unfinished, *held)), ""),
        never=next((job.never for job in parts if job.never), ""),
        begin_at_unix=max((job.begin_at_unix for job in parts if job.begin_at_unix), default=None),
        eligible_at_unix=max(job.eligible_at_unix for job in parts),
    )


def _may_wait(job: Job) -> bool:
    return job.state is JobState.PENDING or job.is_finished


def _asked_by_now(requested: Resources, *, waited_s: float) -> Resources:
    """Return the request after this waiting time.

    Its switch limit is dropped once the job has waited long enough (--switches=COUNT@TIME).
    """
    if (
        requested.max_switches is None
        or requested.switches_wait_s is None
        or waited_s < requested.switches_wait_s
    ):
        return requested
    return _on_any_switches(requested)


@functools.lru_cache(maxsize=1000)
def _on_any_switches(requested: Resources) -> Resources:
    """Return the request without its switch limit.

    Equal requests share one object, because the planner compares requests by identity.
    """
    return msgspec.structs.replace(requested, max_switches=None)


def eligible_unix(state: StateTables, job: Job, *, now: float) -> float:
    """Return the time since which the job waits only for resources and priority.

    This is the later of two times: its eligible time, and the time at which its dependencies were satisfied.
    """
    if job.request.dependencies is None:
        return job.eligible_at_unix
    verdict = evaluate(job, members=state.named, first_namesake=Namesakes(state).first_before, now=now)
    return max(job.eligible_at_unix, verdict.since_unix)


class Namesakes:
    """Unfinished jobs by uid and name, for `singleton`.

    They are sorted once per planner view, at the first query.
    """

    def __init__(self, state: StateTables) -> None:
        self._state = state
        self._groups: dict[tuple[int, str], list[Job]] | None = None

    def first_before(self, job: Job) -> Job | None:
        """Return the oldest unfinished job of the same user and name that was submitted before this one."""
        if self._groups is None:
            self._groups = {}
            for job_id in sorted((*self._state.index.active, *self._state.index.pending)):
                other = self._state.jobs[job_id]
                self._groups.setdefault((other.uid, other.request.name), []).append(other)
        oldest = self._groups.get((job.uid, job.request.name), [])
        return next((other for other in oldest if other.array_job_id < job.array_job_id), None)
