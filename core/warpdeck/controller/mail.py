"""Which mails a job's changes ask for, and their words. Pure.

As Slurm has it: an array is told of as a whole unless ARRAY_TASKS asks for its tasks; a job that failed is told of as failed where
FAIL is asked for, as ended where only END is.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from warpdeck.model import FINISHED, Job, JobState
from warpdeck.notation.mail import SHARES
from warpdeck.notation.times import format_duration

FAILURES = frozenset(
    {JobState.FAILED, JobState.TIMEOUT, JobState.NODE_FAIL, JobState.OUT_OF_MEMORY, JobState.DEADLINE}
)
WAITING = frozenset({JobState.PENDING, JobState.CONFIGURING})


class Seen(msgspec.Struct, frozen=True):
    """How a job was when it was last looked at."""

    state: JobState
    restarts: int
    began: bool = False
    told: tuple[str, ...] = ()
    """Shares of its time limit that were told."""


class Mail(msgspec.Struct, frozen=True, kw_only=True):
    """One mail. `to` is as the user wrote it, or the user's name."""

    job_id: int
    user: str
    to: str
    event: str
    subject: str
    state: str
    exit_code: str
    nodes: tuple[str, ...] = ()


def seen(job: Job, told: tuple[str, ...] = ()) -> Seen:
    """How the job is now."""
    return Seen(job.state, job.restarts, job.start_at_unix is not None, told)


def mails(before: Seen, job: Job, others: Sequence[Seen], *, now: float) -> list[Mail]:
    """What to send for a job that has changed. `others` of its array are as they were last looked at: of those that change at the
    same time one after the other is looked at, and exactly one of them is the first that began and the last that ended.
    """
    events = [event for event in _events(before, job, others, now) if event in job.request.mail_types]
    if job.is_finished and before.state is not job.state:
        events += _end(job, others)
    return [_mail(event, job, now) for event in events]


def _events(before: Seen, job: Job, others: Sequence[Seen], now: float) -> list[str]:
    found = []
    if job.restarts > before.restarts:
        found.append("REQUEUE")
    began = job.start_at_unix is not None and job.state not in WAITING
    if began and before.state in WAITING and not (_as_whole(job) and any(other.began for other in others)):
        found.append("BEGIN")
    if job.state is JobState.RUNNING and job.time_limit_s and job.start_at_unix is not None:
        share = (now - job.start_at_unix - job.suspended_s) / job.time_limit_s
        over = [event for event, least in SHARES.items() if share >= least and event not in before.told]
        found += over
    return found


def told(before: Seen, sent: Sequence[Mail]) -> tuple[str, ...]:
    """The shares of the time limit that were told by now."""
    return (*before.told, *(mail.event for mail in sent if mail.event in SHARES))


def _end(job: Job, others: Sequence[Seen]) -> list[str]:
    asked = job.request.mail_types
    if job.start_at_unix is None and "INVALID_DEPEND" in asked and job.ending_cause == "dependency":
        return ["INVALID_DEPEND"]
    states = {job.state}
    if _as_whole(job):
        if not all(other.state in FINISHED for other in others):
            return []
        states |= {other.state for other in others}
    if "FAIL" in asked and not FAILURES.isdisjoint(states):
        return ["FAIL"]
    if "TIME_LIMIT" in asked and JobState.TIMEOUT in states:
        return ["TIME_LIMIT"]
    return ["END"] if "END" in asked else []


def _as_whole(job: Job) -> bool:
    return job.request.array is not None and "ARRAY_TASKS" not in job.request.mail_types


WORDS = {
    "BEGIN": "Began",
    "END": "Ended",
    "FAIL": "Failed",
    "REQUEUE": "Requeued",
    "INVALID_DEPEND": "Invalid dependency",
    "TIME_LIMIT": "Reached time limit",
    **{event: f"Reached {share:.0%} of time limit" for event, share in SHARES.items()},
}


def _mail(event: str, job: Job, now: float) -> Mail:
    exit_code = str(job.exit) if job.exit is not None else ""
    number = job.array_job_id if _as_whole(job) else job.label()
    label = f"{'Array Summary ' if _as_whole(job) else ''}Job_id={number}"
    subject = f"Slurm {label} Name={job.request.name} {WORDS[event]}"
    if event == "BEGIN" and job.start_at_unix is not None:
        subject += f", Queued time {format_duration(job.start_at_unix - job.submit_at_unix)}"
    elif job.start_at_unix is not None:
        subject += f", Run time {format_duration((job.end_at_unix or now) - job.start_at_unix)}"
    if job.is_finished and event != "BEGIN":
        subject += f", {job.state.value}" + (f", ExitCode {exit_code.partition(':')[0]}" if exit_code else "")
    return Mail(
        job_id=job.id,
        user=job.user,
        to=job.request.mail_user or job.user,
        event=event,
        subject=subject,
        state=job.state.value,
        exit_code=exit_code,
        nodes=job.allocation.node_names() if job.allocation is not None else (),
    )
