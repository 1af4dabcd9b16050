"""Planning passes over the state, and what they say of those who wait.

What is decided never waits: a pass follows every event. What is told does, on a large site: one job that ends changes the words
of all who wait ("n17, the freest, has 2 free"), and ten thousand changed rows for every event would drown planner and clients.
So most passes tell only the jobs that nobody told anything yet, and every TELL_S one tells all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from warpdeck.model import Job, JobId
from warpdeck.policy import Memory, Plan, plan

from .events import Outcome
from .state import State
from .view import build_view

TELL_S = 1.0
"""On a large site all who wait are told anew no more often than this."""
WORDS_S = 0.2
"""Until a pass that can only tell why somebody waits: who submits in a loop goes before."""
SMALL_PASS = 500
"""A pass over no more nodes and jobs than this (about 3 ms) tells everybody, and is made within the transaction that calls for
it: a job that ends and the one that follows it on its node are one commit. By size, not by time, so that a simulation can be
replayed."""


def is_small(state: State) -> bool:
    """Whether the site is small."""
    return len(state.nodes) + len(state.active) + len(state.pending) <= SMALL_PASS


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
    known = state.priorities | made.priorities  # another object: a thread may read the one before
    if len(known) > 2 * len(state.pending):
        known = {job_id: known[job_id] for job_id in state.pending if job_id in known}
    state.priorities = known


class Passes:
    """One after the other, with what one remembers of the last."""

    def __init__(self) -> None:
        self._memory = Memory()
        self._told_all_unix = -math.inf
        self._owes_words = False

    def make(self, state: State, now: float) -> Plan:
        """One pass. Whatever happens before `keep` takes its words makes the jobs concerned untold again."""
        untold, state.untold = state.untold, {}
        tells_all = is_small(state) or not 0 <= now - self._told_all_unix < TELL_S
        if tells_all:
            self._told_all_unix = now
        self._owes_words = not tells_all
        view = build_view(state, now=now)
        made = plan(view, now, state.site.settings, memory=self._memory, tell=None if tells_all else untold)
        _keep_priorities(state, made)
        return made

    def keep(self, state: State, made: Plan) -> list[JobId]:
        """Takes the words for those who still wait. The jobs whose words have changed."""
        changed: list[JobId] = []
        for job_id, why in made.whys.items():
            if state.whys.get(job_id) != why and job_id in state.pending:
                state.whys[job_id] = why
                changed.append(job_id)
        if state.site.settings.backfill == "conservative":
            for reserve in made.reserves:
                state.promise(reserve.job_id, reserve.at_unix)
        return changed

    def next_s(self, now: float, *, most_s: float) -> float:
        """How long after a pass the next is due if nothing happens."""
        return min(most_s, max(0.0, self._told_all_unix + TELL_S - now)) if self._owes_words else most_s
