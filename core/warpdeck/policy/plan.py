"""The one decision function. Pure: everything it may look at is in its arguments.

One mechanism serves every policy. A timeline holds what is free on each node from now on. Waiting jobs come in queue
order; a job starts if it fits from now until its limit. One that does not is blocked: the first `reservations` of them
(all, if conservative) get the earliest interval that fits, and it is taken from the timeline, so that nobody behind can
delay them (EASY backfill; Lifka 1995; Mu'alem and Feitelson 2001). What remains may start wherever the timeline allows,
in order of priority or shortest first. Within a pass free resources only shrink: what failed once fails for every equal
request that runs as long or longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from warpdeck.model import JobId, Why

from .answer import End, Plan
from .explain import explain
from .passing import Kind, Pass
from .priority import Ranking, in_order
from .settings import Settings
from .turns import likely_s, turns
from .view import PendingJob, View
from .why import before_its_time


def plan(view: View, now: float, settings: Settings) -> Plan:
    """Which jobs start now and where, and for every other waiting job why not and when."""
    decided = decide(view, now, settings)
    current = decided.current
    whys = {**decided.whys, **explain(current, decided.ordered)}
    return Plan(
        starts=tuple(current.starts),
        reserves=tuple(current.reserves),
        preempts=tuple(current.preempts),
        resumes=tuple(current.resumes),
        ends=tuple(decided.ends),
        whys=whys,
        priorities=decided.priorities,
        more=current.stopped,
    )


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """A pass whose decisions are made, before they are put into words."""

    current: Pass
    ordered: list[PendingJob]
    ends: list[End]
    whys: dict[JobId, Why]
    """Of jobs that could not start in any case."""
    priorities: dict[JobId, int]


def decide(view: View, now: float, settings: Settings, *, without_place: JobId | None = None) -> Decided:
    """All decisions of a pass. The job `without_place` gets no reservation, so that changes of it can be tried."""
    current = Pass(view, now, settings, without_place=without_place)
    ranking = Ranking(view, now, settings)
    priorities = {job.id: ranking.of(job) for job in view.pending}
    queue, ends, whys = _eligible(view, now, settings)
    waiting = turns(queue, view, now, settings=settings, sizes=current.tres)
    current.protect(min(waiting.overdue_count, settings.overdue_reservations))
    ordered = in_order(
        queue, view, settings, priorities=[priorities[job.id] for job in queue], turns=waiting.keys
    )
    behind: list[tuple[PendingJob, Kind]] = []
    for job in _borrowers_last(current, ordered):
        kind = current.kind(job)
        if current.is_protecting_enough(kind):
            behind.append((job, kind))
        else:
            current.try_job(job, kind)
    current.resume_suspended()
    if settings.backfill == "none":
        for job, _ in behind:
            current.pass_over(job)
    else:
        current.try_all(_backfill_order(behind, settings))
    return Decided(current=current, ordered=ordered, ends=ends, whys=whys, priorities=priorities)


def _eligible(
    view: View, now: float, settings: Settings
) -> tuple[list[PendingJob], list[End], dict[JobId, Why]]:
    """The jobs that could start as far as they themselves go; those that end; the reasons of the others."""
    queue: list[PendingJob] = []
    ends: list[End] = []
    whys: dict[JobId, Why] = {}
    for job in view.pending:
        if not (job.held or job.never or job.waits_for or job.begin_at_unix or job.deadline_unix):
            queue.append(job)
            continue
        reason = before_its_time(job, now)
        end = _ends(job, reason, now, settings)
        if end is not None:
            ends.append(end)
        elif reason is not None:
            whys[job.id] = reason
        else:
            queue.append(job)
    return queue, ends, whys


def _ends(job: PendingJob, reason: Why | None, now: float, settings: Settings) -> End | None:
    kill = settings.kill_invalid_dependency if job.kill_invalid is None else job.kill_invalid
    if reason is not None and reason.code == "DependencyNeverSatisfied" and kill:
        return End(job_id=job.id, state="CANCELLED", code=reason.code, sentence=job.never)
    if job.deadline_unix is None:
        return None
    least = job.time_min_s or job.time_limit_s or 1
    if now + least <= job.deadline_unix:
        return None
    sentence = "it cannot end before its deadline any more"
    return End(job_id=job.id, state="DEADLINE", code="DeadLine", sentence=sentence)


def _borrowers_last(current: Pass, ordered: list[PendingJob]) -> Iterable[PendingJob]:
    """Jobs within their account's guaranteed quota go before those that would borrow."""
    return _by_quota(current, ordered) if current.rules.quotas else ordered


def _by_quota(current: Pass, ordered: list[PendingJob]) -> Iterator[PendingJob]:
    borrowing = []
    for job in ordered:
        if current.rules.within_quota(job, current.tres(job)):
            yield job
        else:
            borrowing.append(job)
    yield from borrowing


def _backfill_order(
    behind: list[tuple[PendingJob, Kind]], settings: Settings
) -> list[tuple[PendingJob, Kind]]:
    return sorted(behind, key=_likely_length) if settings.backfill_order == "shortest" else behind


def _likely_length(entry: tuple[PendingJob, Kind]) -> float:
    return likely_s(entry[0])
