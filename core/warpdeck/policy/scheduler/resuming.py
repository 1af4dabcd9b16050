"""Resumption of suspended jobs: their resources must be free again, and no waiting job may have a claim on
them.

A job of a reservation is resumed in the reservation if it can still end in time, else after the reservation
is over.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from warpdeck.model import Share
from warpdeck.policy.input.decisions import Resume
from warpdeck.policy.input.view import PendingJob, RunningJob
from warpdeck.policy.preemption.preemption import Claimant
from warpdeck.policy.reservations.resource_pool import ResourcePool
from warpdeck.policy.resources.timeline import ends_of

from .scheduling_pass import SchedulingPass


def resumptions(current: SchedulingPass) -> Iterator[Resume]:
    """Iterate over the suspended jobs to resume in this pass, oldest first, and take their resources."""
    stopped = [job for job in current.context.view.running if job.suspended and job.resumes_to is not None]
    if not stopped:
        return
    blocked = (
        [job for job in current.context.view.pending if job.id in current.blocked]
        if current.context.rules.active
        else []
    )
    for job in sorted(stopped, key=lambda each: each.id):
        pool = current.context.pools.get(job.reservation, current.context.pools[""])
        if not _is_claimed(current, job, blocked) and _take_back(pool, job):
            yield Resume(job_id=job.id)


def _is_claimed(current: SchedulingPass, job: RunningJob, blocked: Iterable[PendingJob]) -> bool:
    """Return whether a blocked job that could use the suspended job's nodes has a claim on it."""
    as_running = msgspec.structs.replace(job, suspended=False)
    requested: set[Claimant] = set()
    for waiting in blocked:
        block_reason = current.blocked[waiting.id]
        if block_reason.request_class is None or current.evictions.claimant(waiting) in requested:
            continue
        requested.add(current.evictions.claimant(waiting))
        usable = block_reason.request_class.usable()
        rows = [current.context.pools[""].cluster.row.get(name) for name in job.allocation.node_names()]
        free_gpus = not waiting.reservation and any(row is not None and usable[row] for row in rows)
        if (
            free_gpus
            and current.context.rules.claim(waiting, current.context.eligibility.tres(waiting), as_running)
            is not None
        ):
            return True
    return False


def _take_back(pool: ResourcePool, job: RunningJob) -> bool:
    """Take the resources that the job held before, if all of them are free until its end. Return whether they
    were.
    """
    assert job.resumes_to is not None
    ends = max(ends_of(job, pool.now), pool.now + 1.0)
    if ends > pool.closes_unix:
        return False
    takes = []
    for share, kept in zip(job.resumes_to.shares, job.allocation.shares, strict=True):
        row = pool.cluster.row.get(share.node)
        if row is None:
            return False
        more = pool.cluster.amounts(share) - pool.cluster.amounts(kept)
        within = pool.timeline.times[row] < ends
        if (pool.timeline.free[:, row, within] < more[:, None]).any():
            return False
        if not _has_gpus(pool, row, share, kept, ends):
            return False
        takes.append((row, share, kept))
    for row, share, kept in takes:
        pool.resume(row, share, kept=kept, ends=ends)
    return True


def _has_gpus(pool: ResourcePool, row: int, share: Share, kept: Share, ends: float) -> bool:
    """Return whether the GPUs that the job gave up on a node are free for it until its end."""
    away = set(share.gpus) - set(kept.gpus)
    if share.gpu_share_pct == 100:
        return away <= pool.gpu_table.free_indices(row)
    free_gpus = [gpu for gpu in pool.cluster.usable_gpus(row) if gpu.index in away]
    return len(free_gpus) == len(away) and all(
        pool.gpu_table.part_fits(pool.timeline, row, gpu, share.gpu_share_pct, ends) for gpu in free_gpus
    )
