"""Planning passes over the state, and what they say of those who wait.

What is decided never waits: a pass follows every event. What is told does, on a large site: one job that ends changes the words
of all who wait ("n17, the freest, has 2 free"), and ten thousand changed rows for every event would drown planner and clients.
So most passes tell only the jobs that nobody told anything yet, and every TELL_S one tells all.

A job with which no plan can be made, through a bug of ours, is left out and told so: it must not keep all others from starting.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

import msgspec

from warpdeck.controller.events.events import Outcome
from warpdeck.controller.state import bug_reports
from warpdeck.controller.state.planner_view import build_view
from warpdeck.controller.state.state import State, amend
from warpdeck.model import Job, JobId, PendingReason
from warpdeck.policy import PassCache, PendingJob, Plan, Settings, View, plan

TELL_S = 1.0
"""On a large site all who wait are told anew no more often than this."""
WORDS_S = 0.2
"""Until a pass that can only tell why somebody waits: who submits in a loop goes before."""
SMALL_PASS = 500
"""A pass over no more nodes and jobs than this (about 3 ms) tells everybody, and is made within the transaction that calls for
it: a job that ends and the one that follows it on its node are one commit. By size, not by time, so that a simulation can be
replayed."""

MOST_LEFT_OUT = 8
"""Jobs that one pass leaves out: each is looked for with some twenty plans."""
LEFT_OUT = PendingReason(
    code="SystemFailure",
    sentence="planning it meets an error inside the controller, which is in its log; change the job, or submit another",
)


def is_small(state: State) -> bool:
    """Whether the site is small."""
    return len(state.nodes) + len(state.index.active) + len(state.index.pending) <= SMALL_PASS


def goes_along(state: State, outcomes: Iterable[tuple[object, Outcome | None]]) -> bool:
    """Whether a pass belongs into the transaction that had these outcomes: on a small site, where it may start something.

    Who submits a job that is held, or that waits for the record of its code, has the answer first.
    """
    made = (outcome for _, outcome in outcomes if outcome is not None and outcome.replan)
    return is_small(state) and state.has_to_plan and any(not _must_wait(each.job) for each in made)


def may_rest(outcomes: Iterable[tuple[object, Outcome | None]]) -> bool:
    """Whether nothing that these outcomes call for could start by a pass: then it need not be made before the next request."""
    made = [outcome for _, outcome in outcomes if outcome is not None and outcome.replan]
    return bool(made) and all(_must_wait(each.job) for each in made)


def _must_wait(job: Job | None) -> bool:
    return job is not None and (job.held or job.request.code_due_unix is not None)


def _keep_priorities(state: State, made: Plan) -> None:
    """Before anything is made of the plan: a job that starts keeps the priority with which it did."""
    if not made.priorities:
        return
    known = state.planned.priorities | made.priorities  # another object: a thread may read the one before
    if len(known) > 2 * len(state.index.pending):
        known = {job_id: known[job_id] for job_id in state.index.pending if job_id in known}
    state.planned.priorities = known


def _without(view: View, some: Collection[JobId]) -> View:
    if not some:
        return view
    return msgspec.structs.replace(view, pending=tuple(job for job in view.pending if job.id not in some))


def _fails(view: View, pending: tuple[PendingJob, ...], now: float, settings: Settings) -> bool:
    try:
        plan(msgspec.structs.replace(view, pending=pending), now, settings)
    except Exception:  # which one it is, a pass has logged
        return True
    return False


class Passes:
    """One after the other, with what one remembers of the last."""

    def __init__(self) -> None:
        self._memory = PassCache()
        self._told_all_unix = -math.inf
        self._owes_words = False
        self._left_out: dict[JobId, PendingJob] = {}

    def make(self, state: State, now: float) -> Plan:
        """One pass. Whatever happens before `keep` takes its words makes the jobs concerned untold again."""
        untold, state.planned.untold = state.planned.untold, {}
        tells_all = is_small(state) or not 0 <= now - self._told_all_unix < TELL_S
        if tells_all:
            self._told_all_unix = now
        self._owes_words = not tells_all
        try:
            made = self._plan(
                build_view(state, now=now), now, state.site.settings, None if tells_all else untold
            )
        except Exception:
            state.planned.untold = untold | state.planned.untold
            raise
        _keep_priorities(state, made)
        return made

    def _plan(self, view: View, now: float, settings: Settings, tell: Collection[JobId] | None) -> Plan:
        """Without the jobs with which it cannot be made. They are tried again when they are others."""
        known = {job.id: job for job in view.pending if job.id in self._left_out} if self._left_out else {}
        self._left_out = {job_id: job for job_id, job in self._left_out.items() if known.get(job_id) == job}
        try:
            made = plan(_without(view, self._left_out), now, settings, memory=self._memory, tell=tell)
        except Exception:
            bug_reports.note("a planning pass")
            self._memory = PassCache()
            self._leave_out(view, now, settings)
            made = plan(_without(view, self._left_out), now, settings, memory=self._memory)
        return (
            amend(made, whys=made.whys | dict.fromkeys(self._left_out, LEFT_OUT)) if self._left_out else made
        )

    def _leave_out(self, view: View, now: float, settings: Settings) -> None:
        """Finds the jobs to leave out, by halves."""
        for _ in range(MOST_LEFT_OUT):
            some = _without(view, self._left_out).pending
            if not _fails(view, some, now, settings):
                return
            while len(some) > 1:
                half = some[: len(some) // 2]
                some = half if _fails(view, half, now, settings) else some[len(half) :]
            self._left_out.update((job.id, job) for job in some)

    def keep(self, state: State, made: Plan) -> list[JobId]:
        """Takes the words for those who still wait. The jobs whose words have changed."""
        changed: list[JobId] = []
        for job_id, why in made.whys.items():
            if state.planned.whys.get(job_id) != why and job_id in state.index.pending:
                state.planned.whys[job_id] = why
                changed.append(job_id)
        if state.site.settings.backfill == "conservative":
            for reserve in made.reserves:
                state.promise(reserve.job_id, reserve.at_unix)
        return changed

    def next_s(self, now: float, *, most_s: float) -> float:
        """How long after a pass the next is due if nothing happens."""
        return min(most_s, max(0.0, self._told_all_unix + TELL_S - now)) if self._owes_words else most_s
