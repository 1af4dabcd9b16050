"""Decide which mails the changes of a job cause, and write their texts. Pure functions.

As in Slurm, an array is reported as a whole unless ARRAY_TASKS requests mails for its tasks, and a failed job
is reported as failed if FAIL is requested. Two cases differ from Slurm. If only END is requested, a failed
job is reported as ended; Slurm does this for arrays, but sends nothing for other jobs. An array with tasks
that were all ended by signals counts as failed; Slurm reports it as ended, and sends nothing if only FAIL is
requested.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from warpdeck.model import FINISHED, Job, JobState
from warpdeck.notation.values.mail_types import MAIL_SHARES

FAILURES = frozenset(
    {JobState.FAILED, JobState.TIMEOUT, JobState.NODE_FAIL, JobState.OUT_OF_MEMORY, JobState.DEADLINE}
)
WAITING = frozenset({JobState.PENDING, JobState.CONFIGURING})
NEVER = "DependencyNeverSatisfied"
"""Pending reason of a job that can never start but is not ended for this reason (--kill-on-invalid-dep=no).
"""
INVALID = "INVALID_DEPEND"
ONCE_ONLY = (*MAIL_SHARES, INVALID)
"""Events that are reported only once."""
DAY_S = 86_400


class MailedEvents(msgspec.Struct, frozen=True):
    """State of a job at the last check for mails."""

    state: JobState
    restarts: int
    reported: tuple[str, ...] = ()
    """Once-only events that were already reported: shares of the time limit, and an invalid dependency."""
    start_unix: float | None = None
    suspended_s: float = 0.0
    status: int = 0
    """Exit status in the encoding of wait(2)."""

    @property
    def has_begun(self) -> bool:
        return self.start_unix is not None


class Mail(msgspec.Struct, frozen=True, kw_only=True):
    """A mail to send. `to` is the address that the user wrote, or the user's name."""

    job_id: int
    user: str
    to: str
    event: str
    subject: str
    state: str
    exit_code: str
    nodes: tuple[str, ...] = ()


def mail_state(job: Job, reported: tuple[str, ...] = ()) -> MailedEvents:
    """Return the present state of the job for the next check."""
    status = job.exit.code << 8 | job.exit.signal if job.exit is not None else 0
    return MailedEvents(job.state, job.restarts, reported, job.start_at_unix, job.suspended_s, status)


def mails(
    before: MailedEvents, job: Job, others: Iterable[MailedEvents], *, now: float, reason_code: str = ""
) -> list[Mail]:
    """Return the mails to send for a job that has changed.

    `others` are the other jobs of its array at their last check. If several tasks change at the same time,
    they are checked one after the other. Exactly one of them is therefore the first that started, and one the
    last that ended. There may be a hundred thousand others, so no more of them are read than necessary.
    `reason_code` is the reason code of a waiting job.
    """
    found = _events(before, job, others, now)
    if reason_code == NEVER and INVALID not in before.reported:
        found.append(INVALID)
    events = [event for event in found if event in job.request.mail_types]
    if job.is_finished and before.state is not job.state:
        events += _end(job, others)
    tasks = [mail_state(job), *others] if events and as_whole(job) else []
    return [
        _mail(event, job, _times(event, before, job, now) + _outcome(event, job, tasks)) for event in events
    ]


def _events(before: MailedEvents, job: Job, others: Iterable[MailedEvents], now: float) -> list[str]:
    found = []
    if job.restarts > before.restarts:
        found.append("REQUEUE")
    has_begun = job.start_at_unix is not None and job.state not in WAITING
    if (
        has_begun
        and before.state in WAITING
        and not (as_whole(job) and any(other.has_begun for other in others))
    ):
        found.append("BEGIN")
    if job.state is JobState.RUNNING and job.time_limit_s and job.start_at_unix is not None:
        share = (now - job.start_at_unix - job.suspended_s) / job.time_limit_s
        over = [
            event for event, least in MAIL_SHARES.items() if share >= least and event not in before.reported
        ]
        found += over
    return found


def reported_once(before: MailedEvents, sent: Sequence[Mail]) -> tuple[str, ...]:
    """Return the once-only events that have been reported, including those in `sent`."""
    return (*before.reported, *(mail.event for mail in sent if mail.event in ONCE_ONLY))


def _end(job: Job, others: Iterable[MailedEvents]) -> list[str]:
    requested = job.request.mail_types
    found = []
    if job.start_at_unix is None and INVALID in requested and job.ending_cause == "dependency":
        found.append(INVALID)
    states = {job.state}
    if as_whole(job):
        if not all(other.state in FINISHED for other in others):
            return found
        states |= {other.state for other in others}
    if "TIME_LIMIT" in requested and JobState.TIMEOUT in states:
        found.append("TIME_LIMIT")
    if "FAIL" in requested and not FAILURES.isdisjoint(states):
        found.append("FAIL")
    elif "END" in requested:
        found.append("END")
    return found


def as_whole(job: Job) -> bool:
    """Return whether mails for this job report its array as a whole."""
    return job.request.array is not None and "ARRAY_TASKS" not in job.request.mail_types


EVENT_TEXTS = {
    "BEGIN": "Began",
    "END": "Ended",
    "FAIL": "Failed",
    "REQUEUE": "Requeued",
    "INVALID_DEPEND": "Invalid dependency",
    "TIME_LIMIT": "Reached time limit",
    **{event: f"Reached {share:.0%} of time limit" for event, share in MAIL_SHARES.items()},
}


def _times(event: str, before: MailedEvents, job: Job, now: float) -> str:
    """Return the text with the job's waiting or run time; "" for an array as a whole."""
    if as_whole(job) or event == INVALID:
        return ""
    if event == "BEGIN":
        return f", Queued time {_clock((job.start_at_unix or now) - job.submit_at_unix)}"
    if event == "REQUEUE":
        ran_s = now - before.start_unix - before.suspended_s if before.start_unix is not None else 0.0
    elif job.start_at_unix is not None:
        ran_s = (job.end_at_unix or now) - job.start_at_unix - job.suspended_s
    else:
        ran_s = 0.0
    return f", Run time {_clock(ran_s)}"


def _clock(seconds: float) -> str:
    days, rest = divmod(int(max(0.0, seconds)), DAY_S)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock


def _outcome(event: str, job: Job, tasks: Sequence[MailedEvents]) -> str:
    """Return the text about the end of the job. For an array, it contains the range of the tasks' exit
    statuses.
    """
    if event not in ("END", "FAIL"):
        return ""
    if tasks:
        requeued = ", with requeued tasks" if any(task.restarts for task in tasks) else ""
        return f", {_array_outcome(job, [task.status for task in tasks])}{requeued}"
    by_signal = job.exit is not None and job.exit.signal and job.exit.cause not in ENDED_BY_US
    return f", {job.state.value}" + (
        "" if by_signal else f", ExitCode {job.exit.code if job.exit is not None else 0}"
    )


ENDED_BY_US = ("timeout", "cancelled", "node_fail")
"""Causes of an end for which warpdeck sent the signal, and not the job itself."""


def _array_outcome(job: Job, statuses: Sequence[int]) -> str:
    least, most = min(statuses), max(statuses)
    if not (least & 0xFF or most & 0xFF):
        word = "Mixed" if most and not least else job.state.value
        return f"{word}, ExitCode [{least >> 8}-{most >> 8}]"
    if most & 0xFF:
        return f"Mixed, MaxSignal [{most & 0xFF}]"
    return f"Mixed, MaxExitCode [{most >> 8}]"


def _mail(event: str, job: Job, more: str) -> Mail:
    name = f"Job_id={job.label()}"
    if as_whole(job):
        name = f"Array Summary Job_id={job.array_job_id}_* ({job.array_job_id})"
    elif job.request.array is not None:
        name = f"Array Task Job_id={job.label()} ({job.id})"
    return Mail(
        job_id=job.id,
        user=job.user,
        to=job.request.mail_user or job.user,
        event=event,
        subject=f"Slurm {name} Name={job.request.name} {EVENT_TEXTS[event]}{more}",
        state=job.state.value,
        exit_code=str(job.exit) if job.exit is not None else "",
        nodes=job.allocation.node_names() if job.allocation is not None else (),
    )
