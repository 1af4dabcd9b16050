"""Dry run for one request: its expected start, and the smallest changes that would start it now.

It works for pending jobs and for requests that are not submitted yet. First the whole queue is planned as it
is. Then changes of the request are tried on the resources that the plan leaves free. The smallest change of
each kind is reported: a shorter limit, fewer or other GPUs, fewer nodes or CPUs, less memory, no exclusive
nodes, or another partition.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from warpdeck.model import JobId, NodeName, PendingReason, Resources
from warpdeck.policy.explain.explain import explain
from warpdeck.policy.input.settings import PlannerSettings
from warpdeck.policy.input.site import PartitionView
from warpdeck.policy.input.view import PendingJob, PlannerView
from warpdeck.policy.limits.access import in_partition
from warpdeck.policy.placement.pending_reason import own_pending_reason
from warpdeck.policy.reservations.resource_pool import is_predictable
from warpdeck.policy.resources.cluster import Ints
from warpdeck.policy.scheduler.job_starter import StartPlacement
from warpdeck.policy.scheduler.scheduling_pass import SchedulingPass

from .plan import decide

MAX_FORECASTS = 100
"""Maximum number of jobs ahead for which starts are computed to predict the start of this job, which takes 0.1 ms for each
of them. The form asks at every key, and with more jobs ahead the prediction is a rough one anyway.
"""
LEAST_LIMIT_S = 60
"""Time limits below this many seconds are not suggested."""
MAX_STEPS = 32
"""Maximum number of smaller requests tried for each kind of change."""
MAX_NAMED_AHEAD = 3
"""Maximum number of jobs ahead that are named."""


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a dry run: whether the job starts now, or the reason, the expected start, and the jobs ahead.

    `changes` are the changes that would start the job now, smallest first.
    """

    starts_now: bool
    nodes: tuple[str, ...] = ()
    cpus: int = 0
    """Number of CPUs that the job would get if it started now."""
    partition: str = ""
    """The partition in which it would start now."""
    reason: PendingReason | None = None
    priority: int = 0
    ahead: int = 0
    """Number of pending jobs that are planned before this job and compete for its nodes."""
    first_ahead: tuple[JobId, ...] = ()
    """The first jobs ahead of it."""
    changes: tuple[str, ...] = ()


def dry_run(view: PlannerView, now: float, settings: PlannerSettings, job_id: JobId) -> Estimate:
    """Return the estimate for a pending job of the view. For a request that is not submitted, the caller adds
    it to the view first. Raises KeyError for an unknown id.
    """
    job = next((each for each in view.pending if each.id == job_id), None)
    if job is None:
        raise KeyError(job_id)
    decided = decide(view, now, settings, trial_job=job_id)
    current = decided.current
    ids = current.context.queue.table["id"]
    priority = int(decided.priorities[np.flatnonzero(ids == job_id)[0]])
    job_ids = {job_id, *(each.id for each in job.components)}
    starts = [each for each in current.starter.starts if each.job_id in job_ids]
    if starts:
        names = (name for start in starts for name in start.allocation.node_names())
        return Estimate(
            starts_now=True,
            nodes=tuple(dict.fromkeys(names)),
            cpus=sum(share.cpus for start in starts for share in start.allocation.shares),
            partition=starts[0].partition,
            priority=priority,
        )
    ends = {end.job_id: PendingReason(code=end.code, sentence=end.sentence) for end in decided.ends}
    place = np.flatnonzero(ids[decided.order] == job_id)
    if not len(place):
        reason = ends.get(job_id) or own_pending_reason(job, now)
        return Estimate(starts_now=False, reason=reason, priority=priority)
    before, own = np.split(decided.order[: place[0] + 1], [place[0]])
    ahead = _ahead(current, before, job)
    forecasts = len(ahead) + 1 if len(ahead) < MAX_FORECASTS else 0
    waits = bool(current.waiting_mask(own)[0])
    changes = tuple(_changes(current, job)) if waits and not job.components else ()
    pending_reasons = explain(
        current, np.concatenate([ahead, own]), fifo_blocked=decided.fifo_blocked, forecasts=forecasts
    )
    return Estimate(
        starts_now=False,
        reason=pending_reasons.get(job_id),
        priority=priority,
        ahead=len(ahead),
        first_ahead=tuple(current.context.queue.jobs[row].id for row in ahead[:MAX_NAMED_AHEAD]),
        changes=changes,
    )


def _ahead(current: SchedulingPass, before: Ints, job: PendingJob) -> Ints:
    """Return the rows of earlier jobs that also wait and may use the same nodes."""
    own_nodes = _nodes(current, job.partition)
    meets = []
    for name in current.context.queue.partitions.keys:
        theirs = _nodes(current, name)
        meets.append(own_nodes is None or theirs is None or not own_nodes.isdisjoint(theirs))
    of = current.context.queue.by_class["partition"][current.context.queue.table["class"][before]]
    found: Ints = before[current.waiting_mask(before) & np.array(meets, dtype=np.bool_)[of]]
    return found


def _nodes(current: SchedulingPass, names: str) -> frozenset[NodeName] | None:
    """Return the union of the nodes of these partitions; None means all nodes."""
    found: set[NodeName] = set()
    for part in current.context.eligibility.partitions_named(names):
        if part is None or part.nodes is None:
            return None
        found |= part.nodes
    return frozenset(found)


def _changes(current: SchedulingPass, job: PendingJob) -> Iterator[str]:
    """Iterate over the smallest change of each kind with which the job would start now."""
    # A pass recognizes requests by identity, so these objects must live until the pass ends.
    tried: list[tuple[Resources, str]] = []
    for partition in current.context.eligibility.partitions(job)[:1]:
        shorter = _shorter(current, job, partition, current.context.eligibility.limit_s(job, partition))
        if shorter:
            yield f"starts now with --time={shorter}"
        for smaller in _smaller(job.resources):
            tried += (smaller_requests := list(smaller))
            texts = (
                text
                for requested, text in smaller_requests
                if _fits(current, msgspec.structs.replace(job, resources=requested), partition)
            )
            if found := next(texts, ""):
                yield f"starts now with {found}"
        if job.reservation:
            continue
        for other in current.context.view.partitions:
            moved = msgspec.structs.replace(job, partition=other.name)
            if other not in current.context.eligibility.partitions(job) and _fits(current, moved, other):
                yield f"starts now with --partition={other.name}"
                break


def _shorter(
    current: SchedulingPass, job: PendingJob, partition: PartitionView | None, limit_s: float | None
) -> str:
    """Return the longest limit, in the format of --time, with which the job would start now; "" if there is
    none.
    """
    pool = current.context.pools.get(job.reservation)
    if pool is None:
        return ""
    request_class = pool.request_class(job, partition)
    longest = 0.0
    for gang in request_class.gangs:
        for mask in request_class.masks:
            longest = max(longest, pool.timeline.longest_now(gang.requirements, mask))
    if longest < LEAST_LIMIT_S or (limit_s is not None and longest >= limit_s):
        return ""
    if not is_predictable(current.context.now + longest, current.context.now):
        return ""
    if not _fits(
        current,
        msgspec.structs.replace(job, time_limit_s=int(longest) // 60 * 60, unlimited=False, time_min_s=None),
        partition,
    ):
        return ""
    # The minutes are rounded down, because --time rounds up to whole minutes.
    days, minutes = divmod(int(longest) // 60, 1440)
    text = f"{minutes // 60:02}:{minutes % 60:02}:00"
    return f"{days}-{text}" if days else text


Smaller = Iterator[tuple[Resources, str]]
"""Smaller requests and the options that request them, smallest change first."""


def _smaller(requested: Resources) -> Iterator[Smaller]:
    """Iterate over the kinds of changes, each as an iterator over smaller requests."""
    yield _fewer_gpus(requested)
    yield _other_gpus(requested)
    yield _fewer_nodes(requested)
    yield _fewer_cpus(requested)
    yield _less_memory(requested)
    yield _shared_nodes(requested)


def _fewer_gpus(requested: Resources) -> Smaller:
    gpus = requested.gpus
    kind = f"{gpus.type}:" if gpus.type else ""
    for name, option in (
        ("per_node", "--gpus-per-node"),
        ("total", "--gpus"),
        ("per_task", "--gpus-per-task"),
    ):
        for fewer in _below(getattr(gpus, name) or 0):
            less = msgspec.structs.replace(gpus, **{name: fewer})
            yield msgspec.structs.replace(requested, gpus=less), f"{option}={kind}{fewer}"


def _other_gpus(requested: Resources) -> Smaller:
    if requested.gpus.type:
        any_type = msgspec.structs.replace(requested.gpus, type="")
        yield msgspec.structs.replace(requested, gpus=any_type), "GPUs of any type"


def _fewer_nodes(requested: Resources) -> Smaller:
    for fewer in _below(requested.nodes_min):
        yield msgspec.structs.replace(requested, nodes_min=fewer, nodes_max=fewer), f"--nodes={fewer}"


def _fewer_cpus(requested: Resources) -> Smaller:
    for fewer in _below(requested.cpus_per_task):
        yield msgspec.structs.replace(requested, cpus_per_task=fewer), f"--cpus-per-task={fewer}"


def _less_memory(requested: Resources) -> Smaller:
    for fewer in _below((requested.mem_per_node_bytes or 0) >> 30):
        yield msgspec.structs.replace(requested, mem_per_node_bytes=fewer << 30), f"--mem={fewer}G"


def _shared_nodes(requested: Resources) -> Smaller:
    if requested.exclusive:
        yield (
            msgspec.structs.replace(requested, exclusive=False),
            "other jobs on its nodes (without --exclusive)",
        )
    if requested.share_with == "user":
        option = "other users' jobs on its nodes (without --exclusive=user)"
        yield msgspec.structs.replace(requested, share_with=""), option


def _below(count: int) -> Iterator[int]:
    """Iterate over smaller counts: all of them, or at most MAX_STEPS in equal steps."""
    step = max(1, -(-count // MAX_STEPS))
    yield from range(count - step, 0, -step)


def _fits(current: SchedulingPass, changed: PendingJob, partition: PartitionView | None) -> bool:
    """Return whether the job would start now on the resources that the plan leaves free, without violating a
    rule or limit.
    """
    if changed.reservation not in current.context.pools or (
        partition is not None and partition.state != "UP"
    ):
        return False
    if current.context.settings.backfill == "none" and current.reserved.is_protecting_enough(
        current.context.queue.contention_group(changed)
    ):
        return False  # In strict order, jobs ahead of it must start first.
    return isinstance(current.starter.find(in_partition(changed, partition), partition), StartPlacement)
