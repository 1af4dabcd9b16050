"""Suspended jobs that go on: where all that they held is free again and nobody with a claim on their place waits. Pure.

A job of a reservation goes on in it, if it can still end in its time; else when the reservation is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from warpdeck.model import Share
from warpdeck.policy.input.decisions import Resume
from warpdeck.policy.input.view import PendingJob, RunningJob
from warpdeck.policy.preemption.preemption import Claimant
from warpdeck.policy.reservations.resource_pool import Field
from warpdeck.policy.resources.timeline import ends_of

from .scheduling_pass import Pass


def resumptions(current: Pass) -> Iterator[Resume]:
    """The suspended jobs that go on in this pass, the oldest first; what they hold again is taken."""
    stopped = [job for job in current.view.running if job.suspended and job.resumes_to is not None]
    if not stopped:
        return
    blocked = (
        [job for job in current.view.pending if job.id in current.blocked] if current.rules.active else []
    )
    for job in sorted(stopped, key=lambda each: each.id):
        field = current.fields.get(job.reservation, current.fields[""])
        if not _is_claimed(current, job, blocked) and _take_back(field, job):
            yield Resume(job_id=job.id)


def _is_claimed(current: Pass, job: RunningJob, blocked: Iterable[PendingJob]) -> bool:
    """Whether a blocked job that could use the place of a suspended one has a claim on it."""
    as_running = msgspec.structs.replace(job, suspended=False)
    asked: set[Claimant] = set()
    for waiting in blocked:
        obstacle = current.blocked[waiting.id]
        if obstacle.shape is None or current.evictions.claimant(waiting) in asked:
            continue
        asked.add(current.evictions.claimant(waiting))
        usable = obstacle.shape.usable()
        rows = [current.fields[""].cluster.row.get(name) for name in job.allocation.node_names()]
        there = not waiting.reservation and any(row is not None and usable[row] for row in rows)
        if there and current.rules.claim(waiting, current.terms.tres(waiting), as_running) is not None:
            return True
    return False


def _take_back(field: Field, job: RunningJob) -> bool:
    """Takes what the job held, if all of it is free until its end."""
    assert job.resumes_to is not None
    ends = max(ends_of(job, field.now), field.now + 1.0)
    if ends > field.closes_unix:
        return False
    takes = []
    for share, kept in zip(job.resumes_to.shares, job.allocation.shares, strict=True):
        row = field.cluster.row.get(share.node)
        if row is None:
            return False
        more = field.cluster.amounts(share) - field.cluster.amounts(kept)
        within = field.timeline.times[row] < ends
        if (field.timeline.free[:, row, within] < more[:, None]).any():
            return False
        if not _has_gpus(field, row, share, kept, ends):
            return False
        takes.append((row, share, kept))
    for row, share, kept in takes:
        field.resume(row, share, kept=kept, ends=ends)
    return True


def _has_gpus(field: Field, row: int, share: Share, kept: Share, ends: float) -> bool:
    """Whether the GPUs that the job gave away on a node are free for it until its end."""
    away = set(share.gpus) - set(kept.gpus)
    if share.gpu_share_pct == 100:
        return away <= field.board.free_indices(row)
    there = [gpu for gpu in field.cluster.usable_gpus(row) if gpu.index in away]
    return len(there) == len(away) and all(
        field.board.part_fits(field.timeline, row, gpu, share.gpu_share_pct, ends) for gpu in there
    )
