"""Compares the jobs that Slurm reports with the jobs in memory. All functions are pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import msgspec

from warpdeck.controller.state.state import State
from warpdeck.engines.slurm.reading.job_table import SeenJob, known_request
from warpdeck.model import ExitStatus, Job, JobId, JobState, PendingReason, Request
from warpdeck.model.finished_jobs import end_text
from warpdeck.model.ranges import ranges_of, split_ranges
from warpdeck.model.step import Step
from warpdeck.ports.store import JournalEntry

FORGOTTEN = "Slurm removed this job from its memory before warpdeck saw how it ended"
_KEPT_WHEN_ENDED = frozenset({"shares", "exit", "ended_by_uid"})
"""Fields of an ended job that accounting knows better than the queue."""


@dataclass(kw_only=True)
class JobChanges:
    """The differences between the queue and the jobs in memory."""

    jobs: list[Job] = field(default_factory=list)
    """New jobs, and jobs that have changed."""
    reasons: dict[JobId, PendingReason] = field(default_factory=dict)
    priorities: dict[JobId, int] = field(default_factory=dict)
    gone: list[JobId] = field(default_factory=list)
    """Records of waiting array tasks that no longer exist, because the last of these tasks has started."""
    vanished: list[JobId] = field(default_factory=list)
    """Unfinished jobs that Slurm does not report any more."""
    journal: list[JournalEntry] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    cut_after: dict[JobId, int] = field(default_factory=dict)
    """Records of waiting array tasks of which squeue has cut the list, each with the last task that it told."""
    shown: int = 0
    """Number of the jobs, from the first on, that are in memory already."""


def compare(state: State, seen: Iterable[SeenJob], changes: JobChanges, *, now: float) -> None:
    """Add the differences of some records to `changes`."""
    for each in seen:
        known = state.jobs.get(each.job.id)
        job = merged(state, known, each.job)
        if each.cut_after is not None:
            changes.cut_after[job.id] = each.cut_after
        if each.reason is not None and state.planned.pending_reasons.get(job.id) != each.reason:
            changes.reasons[job.id] = each.reason
        if each.priority is not None and state.planned.priorities.get(job.id) != each.priority:
            changes.priorities[job.id] = each.priority
        if job != known:
            changes.jobs.append(job)
            if text := event_text(known, job):
                changes.journal.append(JournalEntry(at_unix=_time_of(job, now), job_id=job.id, text=text))
        elif job.id in changes.reasons or job.id in changes.priorities:
            changes.jobs.append(job)


def complete_lists(state: State, changes: JobChanges) -> None:
    """Complete the lists of array tasks that squeue has cut, by the tasks that were known to wait.

    Slurm lists the tasks in order. A later task waits unless it has a record of its own. The records of the whole answer
    must be in `changes`.
    """
    for at, job in enumerate(changes.jobs):
        known = state.jobs.get(job.id)
        if (after := changes.cut_after.get(job.id)) is None or known is None or not known.pending_tasks:
            continue
        members = (state.jobs[each] for each in state.index.members.get(job.array_job_id, ()))
        records = (*members, *(each for each in changes.jobs if each.array_job_id == job.array_job_id))
        own = ranges_of(each.array_task_id for each in records if each.array_task_id is not None)
        _, later = split_ranges(known.pending_tasks, ((0, after, 1),))
        _, waiting = split_ranges(later, own)
        pending = (*job.pending_tasks, *waiting)
        request = msgspec.structs.replace(job.request, array=known.request.array)
        changes.jobs[at] = msgspec.structs.replace(job, pending_tasks=pending, request=request)


def find_vanished(state: State, reported: Collection[JobId], changes: JobChanges, *, unseen: float) -> None:
    """Add the unfinished jobs that a complete queue does not have.

    A job that was submitted after the time `unseen` may be too new for this queue.
    """
    replaced = {job.array_job_id for job in changes.jobs if job.array_task_id is not None}
    for job_id in (*state.index.pending, *state.index.active):
        job = state.jobs[job_id]
        if job_id in reported or job.submit_at_unix >= unseen:
            continue
        if job.pending_tasks and job.array_job_id in replaced:
            changes.gone.append(job_id)
        else:
            changes.vanished.append(job_id)


def merged(state: State, known: Job | None, seen: Job) -> Job:
    """Return the job as Slurm reports it now, completed by the facts that only warpdeck has recorded."""
    ours = _our_request(state, known, seen)
    request = known_request(ours, seen.request) if ours is not None else seen.request
    if known is None or known.uid != seen.uid:
        return msgspec.structs.replace(seen, request=request)
    if known.request == request:
        request = known.request
    kept: dict[str, object] = {
        "annotations": known.annotations,
        "notice": known.notice,
        "predicted_s": known.predicted_s,
        "submit_at_unix": min(known.submit_at_unix, seen.submit_at_unix),
        "eligible_at_unix": known.eligible_at_unix,
        "component": known.component if seen.component is not None else None,
    }
    if _have_same_allocation(known, seen):
        kept["allocation"] = known.allocation
    if known.is_finished and seen.is_finished and known.restarts == seen.restarts:
        kept |= {name: getattr(known, name) for name in _KEPT_WHEN_ENDED}
    return msgspec.structs.replace(seen, request=request, **kept)


def _have_same_allocation(known: Job, seen: Job) -> bool:
    """Return whether squeue tells the same totals as before. Which GPUs the job has is then still true."""
    before, after = known.allocation, seen.allocation
    return (
        before is not None
        and after is not None
        and (known.start_at_unix, known.restarts) == (seen.start_at_unix, seen.restarts)
        and before.node_names() == after.node_names()
        and before.gpu_count() == after.gpu_count()
        and sum(share.cpus for share in before.shares) == sum(share.cpus for share in after.shares)
    )


def forgotten(job: Job, *, now: float) -> Job:
    """Return the job as ended. It is for a job that Slurm no longer reports, if no other source knows its end."""
    return msgspec.structs.replace(
        job,
        state=JobState.FAILED if job.start_at_unix is not None else JobState.CANCELLED,
        pending_tasks=(),
        end_at_unix=now,
        exit=ExitStatus(cause="unknown", message=FORGOTTEN),
        held=False,
        held_by_admin=False,
    )


def event_text(before: Job | None, after: Job) -> str:
    """Return the line of a job's history for this change, or ""."""
    if before is not None and (before.state, before.restarts, before.held) == (
        after.state,
        after.restarts,
        after.held,
    ):
        return ""
    if after.is_finished:
        status = after.exit or ExitStatus()
        ended = end_text(state=after.state, exit_code=str(status), cause=status.cause)
        return f"ended: {ended or after.state.value.lower()}"
    if after.state is JobState.PENDING:
        if before is None:
            return "submitted"
        if after.held != before.held:
            return "held" if after.held else "released"
        return "requeued"
    if after.state is JobState.RUNNING:
        nodes = ", ".join(after.allocation.node_names()[:8]) if after.allocation else ""
        resumed = before is not None and before.state is JobState.SUSPENDED
        return "resumed" if resumed else f"started on {nodes}"
    return {
        JobState.SUSPENDED: "suspended",
        JobState.CONFIGURING: "the nodes are being prepared",
    }.get(after.state, "")


def _our_request(state: State, known: Job | None, seen: Job) -> Request | None:
    """Return the request with which the job was submitted through warpdeck, or None."""
    array = state.jobs.get(seen.array_job_id) if seen.component is None else None
    for job in (known, array):
        if job is not None and job.uid == seen.uid and is_ours(job):
            return job.request
    return None


def is_ours(job: Job) -> bool:
    """Return whether the job was submitted through warpdeck. Only then its script or terminal is known."""
    return bool(job.request.script or job.request.holder or job.request.pty or job.request.env)


def _time_of(job: Job, now: float) -> float:
    """Return the time of the change that a job has now undergone, as far as Slurm tells it."""
    if job.end_at_unix is not None:
        return job.end_at_unix
    if job.state is JobState.RUNNING and job.start_at_unix is not None and not job.suspended_s:
        return job.start_at_unix
    return now
