"""The state of a job after an order that Slurm has confirmed, until the next queue shows it. All functions are pure.

Only certain results are put in. For example, a requeued job may still be ending, so only the queue tells its state.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import UNSET

from warpdeck.engines.slurm.cluster.job_changes import JobChanges
from warpdeck.engines.slurm.reading.reasons import SENTENCES
from warpdeck.model import ExitStatus, Job, JobState, PendingReason, Request, Resources
from warpdeck.model.change import JobChange
from warpdeck.notation.values.durations import limit_of
from warpdeck.ports.caller import Principal
from warpdeck.ports.store import JournalEntry

Expected = Callable[[Job, float], Job | None]
"""Returns the job after the order at this time, or None if the order changes nothing that is certain."""
_OF_REQUEST = frozenset(Request.__struct_fields__) - {"time_limit_s"}
_LIMIT = frozenset({"time_limit_s", "time_limit_more_s"})
_OF_RESOURCES = frozenset(Resources.__struct_fields__)
_ENDS_LATER = frozenset({JobState.RUNNING, JobState.SUSPENDED, JobState.CONFIGURING})


def add(changes: JobChanges, before: Job, after: Job | None, *, text: str, now: float) -> None:
    """Add the job after an order, with a line for its history. `text` says what the user has done."""
    if after is None or after == before:
        return
    changes.jobs.append(after)
    changes.journal.append(JournalEntry(at_unix=now, job_id=after.id, text=text))
    if after.state is not JobState.PENDING:
        return
    if after.held != before.held:
        code = ("JobHeldAdmin" if after.held_by_admin else "JobHeldUser") if after.held else "None"
        changes.reasons[after.id] = PendingReason(code=code, sentence=SENTENCES[code])
        if after.held:
            changes.priorities[after.id] = 0


def canceled(who: Principal) -> Expected:
    """A waiting job ends at once. A running one ends when its processes have."""

    def after(job: Job, now: float) -> Job | None:
        if job.state is JobState.PENDING:
            return msgspec.structs.replace(
                job,
                state=JobState.CANCELLED,
                pending_tasks=(),
                end_at_unix=now,
                exit=ExitStatus(cause="cancelled"),
                ended_by_uid=who.uid,
                held=False,
                held_by_admin=False,
            )
        if job.state in _ENDS_LATER:
            return msgspec.structs.replace(job, state=JobState.COMPLETING, ended_by_uid=who.uid)
        return None

    return after


def held(*, by_admin: bool) -> Expected:
    """Only a waiting job is shown as held."""

    def after(job: Job, now: float) -> Job | None:
        if job.state is not JobState.PENDING or job.held:
            return None
        return msgspec.structs.replace(job, held=True, held_by_admin=by_admin)

    return after


def released(job: Job, now: float) -> Job | None:
    if job.state is not JobState.PENDING or not job.held:
        return None
    return msgspec.structs.replace(
        job, held=False, held_by_admin=False, requeued_held=False, special_exit=False
    )


def suspended(job: Job, now: float) -> Job | None:
    if job.state is not JobState.RUNNING:
        return None
    return msgspec.structs.replace(job, state=JobState.SUSPENDED, suspended_at_unix=now)


def resumed(job: Job, now: float) -> Job | None:
    if job.state is not JobState.SUSPENDED:
        return None
    lost_s = now - job.suspended_at_unix if job.suspended_at_unix is not None else 0.0
    return msgspec.structs.replace(
        job,
        state=JobState.RUNNING,
        suspended_at_unix=None,
        resumed_at_unix=now,
        suspended_s=job.suspended_s + lost_s,
    )


def updated(change: JobChange) -> Expected:
    """Put the changed fields into the request. Slurm rounds time limits up to whole minutes."""
    fields = change.changed_fields()

    def after(job: Job, now: float) -> Job | None:
        if job.is_finished:
            return None
        request = job.request
        new = {name: getattr(change, name) for name in fields & _OF_REQUEST}
        new["resources"] = msgspec.structs.replace(
            request.resources, **{name: getattr(change, name) for name in fields & _OF_RESOURCES}
        )
        if not fields & _LIMIT:
            return msgspec.structs.replace(job, request=msgspec.structs.replace(request, **new))
        limit_s = _limit_s(job, change)
        new |= {"time_limit_s": limit_s or None, "unlimited": limit_s is None}
        return msgspec.structs.replace(
            job, request=msgspec.structs.replace(request, **new), time_limit_s=limit_s
        )

    return after


def _limit_s(job: Job, change: JobChange) -> int | None:
    if change.time_limit_s is not UNSET:
        return limit_of(change.time_limit_s)
    if change.time_limit_more_s and job.time_limit_s is not None:
        return limit_of(max(60, job.time_limit_s + change.time_limit_more_s))
    return job.time_limit_s
