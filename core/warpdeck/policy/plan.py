"""The planning function. It is pure: it looks at nothing but its arguments.

One mechanism serves every policy. A timeline holds the free resources of each node from now on. Pending jobs
are tried in queue order, and a job starts if it fits from now until its time limit. A job that does not fit
is blocked. The first `reservations` blocked jobs (all of them with conservative backfill) get the earliest
interval in which they fit. This interval is taken from the timeline, so that no later job can delay them
(EASY backfill; Lifka 1995; Mu'alem and Feitelson 2001). Other jobs may start wherever the timeline allows, in
order of priority or shortest first. Within one pass, free resources only shrink. So once a request has
failed, every equal request that runs as long or longer fails too.

A pass runs for every event, and most of its input has not changed since the last one. A cache of the last
pass (`PassCache`) makes it fast.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec
import numpy as np

from warpdeck.model import JobId, PendingReason
from warpdeck.policy.cache.pass_cache import PassCache
from warpdeck.policy.cache.waiting_queue import WaitingQueue
from warpdeck.policy.explain.explain import explain
from warpdeck.policy.input.decisions import EndDecision, Plan
from warpdeck.policy.input.settings import PlannerSettings
from warpdeck.policy.input.view import PendingJob, PlannerView
from warpdeck.policy.placement.pending_reason import own_pending_reason
from warpdeck.policy.priority.priority import Ranking, in_order
from warpdeck.policy.priority.queue_order import queue_order
from warpdeck.policy.priority.wait_guard import NOT_GUARDED, guard_keys
from warpdeck.policy.resources.cluster import Ints, Mask, rows_of
from warpdeck.policy.scheduler.idle_pass import starts_nothing
from warpdeck.policy.scheduler.resuming import resumptions
from warpdeck.policy.scheduler.rounds import backfill_pass, main_pass
from warpdeck.policy.scheduler.scheduling_pass import SchedulingPass


def plan(
    view: PlannerView,
    now: float,
    settings: PlannerSettings,
    *,
    cache: PassCache | None = None,
    explain_only: Collection[JobId] | None = None,
) -> Plan:
    """Return which jobs start now and where, and the reason and end of the wait of every other pending job.

    `cache` may be passed from one call to the next. It makes passes faster and does not change the result. If
    `explain_only` is given, only these jobs get a pending reason, and expected starts are computed only for
    jobs with a reservation. The decisions are the same. If it is empty and nothing can start, a plan with
    EASY backfill does not contain the reserved starts either, because nobody needs them.
    """
    cache = cache or PassCache()
    view = cache.follow(view, settings)
    if explain_only is not None and not explain_only and starts_nothing(cache, view, now):
        return Plan(ends=tuple(_ready(cache.queue, now)[1]))
    decided = _decide(view, now, cache=cache)
    current = decided.current
    pending_reasons: dict[JobId, PendingReason] = {}
    ranks: dict[JobId, int] = {}
    if explain_only is None or explain_only:
        pending_reasons, ranks = _explained(view, decided, explain_only)
    return Plan(
        starts=tuple(current.starter.starts),
        reserves=tuple(current.reserved.reserves),
        preempts=tuple(current.preempts),
        resumes=tuple(current.resumes),
        ends=tuple(decided.ends),
        pending_reasons=pending_reasons,
        priorities=ranks,
        more=current.starter.stopped,
    )


def _explained(
    view: PlannerView, decided: Decided, explain_only: Collection[JobId] | None
) -> tuple[dict[JobId, PendingReason], dict[JobId, int]]:
    """Return the pending reasons and the priorities of all jobs, or of those in `explain_only`."""
    current, table = decided.current, decided.current.context.queue.table
    explained = None if explain_only is None else np.isin(table["id"], list(explain_only))
    early = {
        job_id: reason
        for job_id, reason in decided.pending_reasons.items()
        if explain_only is None or job_id in explain_only
    }
    pending_reasons = explain(
        current,
        decided.order,
        fifo_blocked=decided.fifo_blocked,
        forecasts=None if explained is None else 0,
        explained=None if explained is None else explained[decided.order],
    )
    pending_reasons |= early
    ids, priorities, held = table["id"], decided.priorities, table.of(rows_of(table["is_held"]))
    if explained is not None:
        ids, priorities = ids[explained], priorities[explained]
        held = table.of(rows_of(table["is_held"] & explained))
    pending_reasons |= dict(zip(held["id"].tolist(), held["why_held"].tolist(), strict=True))
    ranks = dict(zip(ids.tolist(), priorities.tolist(), strict=True))
    _copy_to_components(view, pending_reasons, ranks)
    return pending_reasons, ranks


def _copy_to_components(
    view: PlannerView, pending_reasons: dict[JobId, PendingReason], priorities: dict[JobId, int]
) -> None:
    """Give each component the reason and the priority of its leader, with which it starts."""
    hetjob_leaders = set(view.hetjob_leaders)
    for leader in (job for job in view.pending if job.id in hetjob_leaders) if hetjob_leaders else ():
        for job in leader.components:
            if leader.id in pending_reasons:
                held = leader.held and not job.held
                pending_reasons[job.id] = (
                    _waits_for_its_leader(leader) if held else pending_reasons[leader.id]
                )
            if leader.id in priorities:
                priorities[job.id] = priorities[leader.id]


def _waits_for_its_leader(leader: PendingJob) -> PendingReason:
    return PendingReason(code="None", sentence=f"starts together with job {leader.name}, which is held")


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """The decisions of a pass, before pending reasons are computed. Row numbers refer to the queue of the
    pass.
    """

    current: SchedulingPass
    order: Ints
    """Rows of the eligible jobs, in the order in which they are tried."""
    fifo_blocked: Ints
    """Rows of the jobs that were not tried because jobs start in strict order."""
    ends: list[EndDecision]
    pending_reasons: dict[JobId, PendingReason]
    """Pending reasons of the jobs that are not eligible. Held jobs are missing, because their reasons never
    change.
    """
    priorities: Ints


def decide(
    view: PlannerView,
    now: float,
    settings: PlannerSettings,
    *,
    cache: PassCache | None = None,
    trial_job: JobId | None = None,
) -> Decided:
    """Make all decisions of a pass.

    The job `trial_job` gets no reservation, because the caller tries changes of this job.
    """
    cache = cache or PassCache()
    return _decide(cache.follow(view, settings), now, cache=cache, trial_job=trial_job)


def _decide(view: PlannerView, now: float, *, cache: PassCache, trial_job: JobId | None = None) -> Decided:
    """Make all decisions of a pass. `cache` must already have been updated to the view."""
    settings = cache.settings
    current = SchedulingPass(cache, view, now, trial_job=trial_job)
    priorities = Ranking(view, now, settings).of_queue(cache.queue)
    rows, ends, pending_reasons = _ready(cache.queue, now)
    every = len(rows) == len(cache.queue)
    table = cache.queue.table if every else cache.queue.table.of(rows)
    order_keys = queue_order(table, cache.queue, cache.cluster_table, view, now)
    current.reserved.protect(min(order_keys.starved_count, settings.overdue_reservations))
    guarded = guard_keys(table, now, settings)
    if guarded is not None:
        current.reserved.guard(table.where(guarded < NOT_GUARDED))
    has_claim: Mask = table["claim_until_unix"] > now
    order = in_order(
        table,
        cache.queue,
        view,
        has_claim=has_claim,
        priorities=priorities if every else priorities[rows],
        order_keys=order_keys.keys,
        guard_keys=guarded,
    )
    order = order if every else rows[order]
    remaining = main_pass(current, order)
    current.resumes += resumptions(current)
    if settings.backfill == "none":
        fifo_blocked = remaining
    else:
        fifo_blocked = remaining[:0]
        if settings.backfill_order == "shortest":
            expected = cache.queue.table["expected_s"][remaining].copy()
            expected[
                cache.queue.table["claim_until_unix"][remaining] > now
            ] = -1.0  # Negative, so that these jobs come first, as in the first round.
            remaining = remaining[np.argsort(expected, kind="stable")]
        backfill_pass(current, remaining)
    return Decided(
        current=current,
        order=order,
        fifo_blocked=fifo_blocked,
        ends=ends,
        pending_reasons=pending_reasons,
        priorities=priorities,
    )


def _ready(queue: WaitingQueue, now: float) -> tuple[Ints, list[EndDecision], dict[JobId, PendingReason]]:
    """Return the rows of the eligible jobs, the jobs to end, and the reasons of the other jobs that are not
    held.
    """
    ready = queue.table["is_ready"].copy()
    ends: list[EndDecision] = []
    pending_reasons: dict[JobId, PendingReason] = {}
    for row in rows_of(~ready & ~queue.table["is_held"]).tolist():
        job = queue.jobs[row]
        reason = own_pending_reason(job, now)
        end = _ends(job, reason, now, queue.settings)
        if end is not None:
            ends.append(end)
        elif reason is not None:
            pending_reasons[job.id] = reason
        else:
            ready[row] = True
    return rows_of(ready), ends, pending_reasons


def _ends(
    job: PendingJob, reason: PendingReason | None, now: float, settings: PlannerSettings
) -> EndDecision | None:
    kill = settings.kill_invalid_dependency if job.kill_invalid is None else job.kill_invalid
    if reason is not None and reason.code == "DependencyNeverSatisfied" and kill:
        return EndDecision(job_id=job.id, state="CANCELLED", code=reason.code, sentence=job.never)
    if job.deadline_unix is None:
        return None
    least = job.time_min_s or job.time_limit_s or 1
    if now + least <= job.deadline_unix:
        return None
    sentence = "it can no longer end before its deadline"
    return EndDecision(job_id=job.id, state="DEADLINE", code="DeadLine", sentence=sentence)
