"""Planning passes over the state, and the pending reasons that they produce.

Decisions are never delayed: a pass follows every event. Pending reasons are delayed on a large site, because
the end of one job changes the text of all pending jobs ("best is n17 with 2 free"). Ten thousand changed
rows for every event would overload the planner and the clients. Most passes therefore compute a pending
reason only for jobs that have none. Once every REFRESH_S seconds, one pass refreshes all of them.

If a bug makes it impossible to plan a job, that job is left out of the passes, and its pending reason reports
the bug. All other jobs can still start.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

import msgspec

from warpdeck.controller.events.effects import Outcome
from warpdeck.controller.state import bug_reports
from warpdeck.controller.state.planner_view import build_view
from warpdeck.controller.state.state import State, replace
from warpdeck.model import Job, JobId, PendingReason
from warpdeck.policy import PassCache, PendingJob, Plan, PlannerSettings, PlannerView, plan

REFRESH_S = 1.0
"""Minimum number of seconds between two refreshes of all pending reasons on a large site."""
REASONS_DELAY_S = 0.2
"""Seconds to wait before a pass that can only produce pending reasons. Clients that submit in a loop are
served first.
"""
SMALL_PASS = 500
"""Size (nodes + active jobs + pending jobs) up to which a site is small.

A pass over a small site takes about 3 ms. It computes all pending reasons, and it runs inside the transaction
that requires it. A job's end and the start of the next job on its node are then one commit. The limit is a
size and not a time, so that a simulation can be replayed.
"""

MAX_LEFT_OUT = 8
"""Maximum number of jobs that one pass leaves out. Finding one of them takes about twenty plans."""
LEFT_OUT = PendingReason(
    code="SystemFailure",
    sentence="error inside the controller while scheduling this job, see the controller's log; change the job or submit it again",
)


def is_small(state: State) -> bool:
    """Return whether the site is small."""
    return len(state.nodes) + len(state.index.active) + len(state.index.pending) <= SMALL_PASS


def plans_inline(state: State, outcomes: Iterable[tuple[object, Outcome | None]]) -> bool:
    """Return whether a pass should run inside the transaction that had these outcomes.

    This is the case on a small site if the pass may start a job. It is not the case if all new jobs are held
    or wait for their code snapshot, because their submitters then get the answer first.
    """
    made = (outcome for _, outcome in outcomes if outcome is not None and outcome.replan)
    return is_small(state) and state.has_to_plan and any(not _must_wait(each.job) for each in made)


def may_delay_pass(outcomes: Iterable[tuple[object, Outcome | None]]) -> bool:
    """Return whether a pass could start nothing after these outcomes.

    The pass can then run later than the next request.
    """
    made = [outcome for _, outcome in outcomes if outcome is not None and outcome.replan]
    return bool(made) and all(_must_wait(each.job) for each in made)


def _must_wait(job: Job | None) -> bool:
    return job is not None and (job.held or job.request.code_due_unix is not None)


def _keep_priorities(state: State, made: Plan) -> None:
    """Store the priorities of the pass before its decisions are applied.

    A job that starts keeps the priority with which it was started.
    """
    if not made.priorities:
        return
    known = state.planned.priorities | made.priorities
    if len(known) > 2 * len(state.index.pending):
        known = {job_id: known[job_id] for job_id in state.index.pending if job_id in known}
    state.planned.priorities = known


def _without(view: PlannerView, some: Collection[JobId]) -> PlannerView:
    if not some:
        return view
    return msgspec.structs.replace(view, pending=tuple(job for job in view.pending if job.id not in some))


def _fails(view: PlannerView, pending: tuple[PendingJob, ...], now: float, settings: PlannerSettings) -> bool:
    try:
        plan(msgspec.structs.replace(view, pending=pending), now, settings)
    except Exception:  # A pass has already logged the exception.
        return True
    return False


class Passes:
    """Runs passes one after another and keeps the pass cache between them."""

    def __init__(self) -> None:
        self._cache = PassCache()
        self._refreshed_unix = -math.inf
        self._reasons_are_due = False
        self._left_out: dict[JobId, PendingJob] = {}

    def make(self, state: State, now: float) -> Plan:
        """Run one pass.

        Jobs that change before `keep` stores their reasons count as having no reason again.
        """
        unexplained, state.planned.unexplained = state.planned.unexplained, {}
        refreshes_all = is_small(state) or not 0 <= now - self._refreshed_unix < REFRESH_S
        if refreshes_all:
            self._refreshed_unix = now
        self._reasons_are_due = not refreshes_all
        try:
            made = self._plan(
                build_view(state, now=now), now, state.site.settings, None if refreshes_all else unexplained
            )
        except Exception:
            state.planned.unexplained = unexplained | state.planned.unexplained
            raise
        _keep_priorities(state, made)
        return made

    def _plan(
        self, view: PlannerView, now: float, settings: PlannerSettings, explain_only: Collection[JobId] | None
    ) -> Plan:
        """Run the plan without the jobs that make it fail. They are planned again once they have changed."""
        known = {job.id: job for job in view.pending if job.id in self._left_out} if self._left_out else {}
        self._left_out = {job_id: job for job_id, job in self._left_out.items() if known.get(job_id) == job}
        try:
            made = plan(
                _without(view, self._left_out), now, settings, cache=self._cache, explain_only=explain_only
            )
        except Exception:
            bug_reports.report_bug("a planning pass")
            self._cache = PassCache()
            self._leave_out(view, now, settings)
            made = plan(_without(view, self._left_out), now, settings, cache=self._cache)
        return (
            replace(made, pending_reasons=made.pending_reasons | dict.fromkeys(self._left_out, LEFT_OUT))
            if self._left_out
            else made
        )

    def _leave_out(self, view: PlannerView, now: float, settings: PlannerSettings) -> None:
        """Find the jobs to leave out by bisection."""
        for _ in range(MAX_LEFT_OUT):
            some = _without(view, self._left_out).pending
            if not _fails(view, some, now, settings):
                return
            while len(some) > 1:
                half = some[: len(some) // 2]
                some = half if _fails(view, half, now, settings) else some[len(half) :]
            self._left_out.update((job.id, job) for job in some)

    def keep(self, state: State, made: Plan) -> list[JobId]:
        """Store the pending reasons of the jobs that are still pending.

        Returns the jobs with a changed reason.
        """
        changed: list[JobId] = []
        for job_id, reason in made.pending_reasons.items():
            if state.planned.pending_reasons.get(job_id) != reason and job_id in state.index.pending:
                state.planned.pending_reasons[job_id] = reason
                changed.append(job_id)
        if state.site.settings.backfill == "conservative":
            for reserve in made.reserves:
                state.reserve_start(reserve.job_id, reserve.at_unix)
        return changed

    def next_s(self, now: float, *, most_s: float) -> float:
        """Return the seconds until the next pass is due if nothing happens."""
        return (
            min(most_s, max(0.0, self._refreshed_unix + REFRESH_S - now)) if self._reasons_are_due else most_s
        )
