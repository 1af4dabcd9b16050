"""Heterogeneous jobs: all components start in the same pass or none, and a reservation has one time for all.

Components that can use the fewest nodes are placed first, then those that need the most. Otherwise a
component that could run anywhere might take the only nodes of another. This order is the only one that is
tried; a job that would need another order waits. It starts as soon as this order fits, at the latest at its
reserved time. If that time is not near, its components may preempt other jobs.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpdeck.policy.input.view import PendingJob
from warpdeck.policy.limits.access import in_partition
from warpdeck.policy.placement.block_reason import BUSY, BlockReason
from warpdeck.policy.placement.placement import Taken
from warpdeck.policy.placement.request_class import Placement
from warpdeck.policy.reservations.resource_pool import planned_s

from .evictions import ComponentRequest
from .scheduling_pass import SchedulingPass

MAX_ROUNDS = 16
"""Maximum number of start times tried for all components. A job that fits at none of them gets no
reservation.
"""


_Kept = list[tuple[ComponentRequest, Placement, list[Taken]]]
"""Components with their placements and the reservations made for them."""


def _difficulty(part: ComponentRequest) -> tuple[int, int, int, int]:
    """Return a sort key that is smaller for components that are harder to place."""
    cpus, mem_bytes, gpus, nodes = part.request_class.lower_bound()
    return int(part.request_class.usable().sum()), -gpus * nodes, -cpus * nodes, -mem_bytes


def start_components(current: SchedulingPass, leader: PendingJob, class_id: int) -> None:
    """Start the leader with all its components, or none of them.

    If they do not start, reserve a start time for the leader if the policy protects it.
    """
    jobs = (leader, *leader.components)
    if (
        current.starter.starts
        and len(current.starter.starts) + len(jobs) > current.context.settings.max_starts
    ):
        current.starter.stopped = True
        current.blocked[leader.id] = BUSY
        return
    parts = _in_order(current, jobs)
    failed = current.starter.start_all([part.job for part in parts])
    if failed is None:
        return
    job, block_reason = failed
    current.blocked[leader.id] = _in_words(leader, job, block_reason)
    if block_reason.request_class is not None and not current.reserved.is_trial(leader):
        _secure(current, leader, parts, int(current.context.queue.by_class["contention_group"][class_id]))


def _in_order(current: SchedulingPass, jobs: Sequence[PendingJob]) -> list[ComponentRequest]:
    found = []
    for job in jobs:
        partition = current.context.eligibility.partitions(job)[0]
        # A deleted reservation has no pool. A job that names it is rejected later, so any pool will do here.
        pool = current.context.pools.get(job.reservation, current.context.pools[""])
        limit_s = current.context.eligibility.limit_s(in_partition(job, partition), partition)
        found.append(ComponentRequest(job, pool, pool.request_class(job, partition), planned_s(limit_s)))
    return sorted(found, key=lambda part: (*_difficulty(part), part.job.id))


def _in_words(leader: PendingJob, job: PendingJob, block_reason: BlockReason) -> BlockReason:
    """Return the block reason of the whole job. It names the component that lacks resources and its request."""
    count = len(leader.components) + 1
    if block_reason.request_class is None:
        component = "" if block_reason is BUSY else f"component {job.name}: "
        return BlockReason(block_reason.code, f"{component}{block_reason.sentence}")
    wants = block_reason.request_class.wants
    return BlockReason("Resources", f"its {count} components must start together; {job.name} needs {wants}")


def _secure(
    current: SchedulingPass, leader: PendingJob, parts: Sequence[ComponentRequest], group: int
) -> None:
    """Reserve the first time at which all components fit, or preempt other jobs."""
    protects = current.reserved.may_protect(group)
    preempts_others = any(
        current.evictions.may_preempt(in_partition(part.job, part.request_class.partition)) for part in parts
    )
    if not protects and not preempts_others:
        return
    at_unix, kept = _reserve(current, parts)
    soon = bool(kept) and at_unix <= current.context.now + current.patience_s
    if preempts_others and not soon:
        _release(kept)
        if current.evictions.preempt_for_all(leader, parts):
            current.reserved.count_protected(group)
            return
        at_unix, kept = _reserve(current, parts) if protects else (at_unix, [])
    if kept and (protects or soon):
        placements = [(part.pool, placement) for part, placement, _ in kept]
        current.reserved.protect_all(
            [part.job for part, _, _ in kept], placements, at_unix=at_unix, group=group
        )
    else:
        _release(kept)


def _reserve(current: SchedulingPass, parts: Sequence[ComponentRequest]) -> tuple[float, _Kept]:
    """Return the first time at which all components fit, with their reservations; no reservations if there is
    no such time.
    """
    at_unix, kept = current.context.now, _Kept()
    for _ in range(MAX_ROUNDS):
        later = _place_at(parts, at_unix, kept)
        if later == at_unix:
            return at_unix, kept
        _release(kept)
        if later is None:
            break
        at_unix = later
    return at_unix, kept


def _release(kept: _Kept) -> None:
    for part, _, taken in reversed(kept):
        part.pool.release(taken)
    kept.clear()


def _place_at(parts: Sequence[ComponentRequest], at_unix: float, kept: _Kept) -> float | None:
    """Reserve placements for all components from `at_unix` on.

    Returns `at_unix` on success. If some component fits only later, returns that time; if it never fits,
    None.
    """
    for part in parts:
        later = part.pool.find_later(part.request_class, part.duration_s)
        if later is not None and later[0] < at_unix:
            # Extend the duration from the earliest start, so that the placement is still free for the full
            # duration after the later start.
            later = part.pool.find_later(part.request_class, part.duration_s + at_unix - later[0])
        if later is None or later[0] > at_unix:
            return None if later is None else later[0]
        kept.append((part, later[1], part.pool.reserve(later[1], at_unix, part.duration_s)))
    return at_unix
