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
import numpy as np

from warpdeck.model import JobId, Why

from .answer import End, Plan
from .explain import explain
from .passing import Kind, Pass
from .priority import Ranking, in_order
from .resuming import resumptions
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
    priorities = Ranking(view, now, settings).of_all(view.pending)
    queue, ends, whys = _eligible(view, now, settings)
    likely = np.array([likely_s(job) for job in queue], dtype=np.float64)
    waiting = turns(queue, view, now, settings=settings, sizes=current.tres, likely=likely)
    current.protect(min(waiting.late_count, settings.overdue_reservations))
    order = in_order(
        queue, view, settings, priorities=[priorities[job.id] for job in queue], turns=waiting.keys
    )
    ordered = [queue[at] for at in order.tolist()]
    behind, kinds = _try_in_order(current, ordered)
    current.resumes += resumptions(current)
    if settings.backfill == "none":
        for at in behind:
            current.pass_over(ordered[at])
    else:
        if settings.backfill_order == "shortest":
            behind = [behind[at] for at in np.argsort(likely[order][behind], kind="stable").tolist()]
        current.try_all((ordered[at], kinds[at]) for at in behind)
    return Decided(current=current, ordered=ordered, ends=ends, whys=whys, priorities=priorities)


def _try_in_order(current: Pass, ordered: list[PendingJob]) -> tuple[list[int], list[Kind]]:
    """Tries the jobs until enough are protected. The places in the order of those behind them, and all kinds by place."""
    kinds = [current.kind(job) for job in ordered]
    behind: list[int] = []
    for at in _borrowers_last(current, ordered):
        if current.is_protecting_enough(kinds[at]):
            behind.append(at)
        else:
            current.try_job(ordered[at], kinds[at])
    return behind, kinds


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


def _borrowers_last(current: Pass, ordered: list[PendingJob]) -> Iterable[int]:
    """Places in the order: jobs within their account's guaranteed quota go before those that would borrow."""
    return _by_quota(current, ordered) if current.rules.quotas else range(len(ordered))


def _by_quota(current: Pass, ordered: list[PendingJob]) -> Iterator[int]:
    borrowing = []
    for at, job in enumerate(ordered):
        if current.rules.within_quota(job, current.tres(job)):
            yield at
        else:
            borrowing.append(at)
    yield from borrowing
