"""Replay a workload under the portfolio: the order is chosen again and again from what each order would have given.

The data:

* The *site* is the replay that counts. It starts with `START`, and uses the order of the last decision.
* A *shadow* is one continuous replay per order of the set, of the same jobs from the first one on. It knows only what
  the site knows: a job's run time once the job has ended on the site, and until then that the job has run at least as
  long as it has run there. A shadow stops where it would need more, so it lags behind.
* Every DECIDE_EVERY_S of virtual time, or more where fewer than DECIDE_JOBS jobs were submitted since, the shadows
  advance, the last MAX_EVIDENCE_JOBS jobs that all shadows have reached are divided into windows, and
  `policy.portfolio.choose` decides.

The decision itself takes time: each pass of a shadow counts as PASS_S, and the choice takes effect only after that.
At a switch, the jobs with a reserved start keep it. The bound on waits is the longest wait that EASY's shadow gave.
"""

from __future__ import annotations

import bisect
import math
import time
from collections.abc import Iterable, Sequence

import msgspec

from warpdeck.model import JobId
from warpdeck.policy import PlannerSettings, PlannerView, plan
from warpdeck.policy.portfolio import EASY, ORDERS, START, Choice, Figures, Window, choose, settings_for

from .replay import Ended, Progress, Replay, ReplayResult
from .report import bounded_slowdown
from .simjobs import SimJob

DECIDE_EVERY_S = 6 * 3600.0
DECIDE_JOBS = 100
MAX_EVIDENCE_JOBS = 5_000
WINDOWS = 5
PASS_S = 0.002
"""Assumed time of a shadow's pass, in a process of the lowest priority."""
LEAST_BOUND_S = 86_400.0
"""The bound on waits is never shorter. A shorter one, before EASY has shown its longest wait, would guard too many jobs."""
BOUND_GROWS = 1.05
"""The bound is changed only by more than this factor, because a change of settings empties the planner's cache."""
MAX_LOG = 1_000
"""Maximum number of decisions that are kept."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that changed the order: when it took effect, and why."""

    at_s: float
    order: str
    reason: str


class Shadow(Replay):
    """A replay of one order that knows only the run times that the site knows."""

    def __init__(self, jobs: Sequence[SimJob], site: PlannerView, settings: PlannerSettings) -> None:
        super().__init__(jobs, site, settings, None)
        self._known: set[JobId] = set()
        self._open: dict[JobId, float] = {}
        """Running jobs whose run time is not known yet, with the end that they will have."""
        self.reached_s = 0.0

    def advance(self, until_s: float, ended: Iterable[JobId], ran_s: dict[JobId, float]) -> None:
        """Replay as far as the knowledge allows.

        `ended` are the jobs that have ended on the site since the last call, and `ran_s` is the time for which jobs
        that run there have run so far.
        """
        for job_id in ended:
            self._known.add(job_id)
            if job_id in self._open:
                self._running.set_end(job_id, self._open.pop(job_id))
        horizon_s = min([until_s, *(self.started_s[each] + ran_s.get(each, 0.0) for each in self._open)])
        while (at_s := self.next_event_s()) <= horizon_s and at_s < math.inf:
            before = len(self._open)
            self.step(at_s)
            if len(self._open) > before:
                new = (self.started_s[each] + ran_s.get(each, 0.0) for each in self._open)
                horizon_s = min(horizon_s, *new)
        self.reached_s = max(self.reached_s, horizon_s)

    def _end_of(self, job: SimJob, ends_s: float) -> float:
        if job.pending.id in self._known:
            return ends_s
        self._open[job.pending.id] = ends_s
        return math.inf

    def _end(self, ended: Ended) -> None:
        self._open.pop(ended.job_id, None)  # A preempted job ends although its run time is not known.
        super()._end(ended)

    def longest_wait_s(self) -> float:
        """Return the longest wait of any job so far, started or not."""
        waiting = (self.reached_s - job.eligible_at_unix for job in self._pending.values())
        return max(self._longest_wait_s, max(waiting, default=0.0))

    def wait_s(self, job: SimJob, at_s: float) -> float:
        """Return the job's wait until `at_s` or its start."""
        return min(self.started_s.get(job.pending.id, math.inf), at_s) - job.pending.eligible_at_unix


class PortfolioReplay(Replay):
    """The replay of the site, with its shadows."""

    def __init__(
        self, jobs: Sequence[SimJob], site: PlannerView, settings: PlannerSettings, progress: Progress | None
    ) -> None:
        super().__init__(jobs, site, settings_for(START, settings, wait_bound_s=LEAST_BOUND_S), progress)
        self._own = settings
        self._in_order = sorted(jobs, key=lambda job: (job.pending.eligible_at_unix, job.pending.id))
        self._eligible_s = [job.pending.eligible_at_unix for job in self._in_order]
        self._shadows = {
            order: Shadow(jobs, site, settings_for(order, settings, wait_bound_s=None)) for order in ORDERS
        }
        self._ended: list[JobId] = []
        self._submitted = self._judged = 0
        self._next_decision_s = DECIDE_EVERY_S
        self._due: tuple[float, Choice] | None = None
        """A choice that takes effect at this time."""
        self._order = START
        self._bound_s: float | None = None
        self.decisions: list[Decision] = []
        """The switches, oldest first."""

    def step(self, at_s: float) -> None:
        """Apply the events of this time under the order that is in force by then."""
        if self._due is not None and at_s >= self._due[0]:
            self._switch(*self._due)
            self._due = None
        super().step(at_s)
        self._submitted = bisect.bisect_right(self._eligible_s, at_s, lo=self._submitted)
        if at_s >= self._next_decision_s and self._submitted - self._judged >= DECIDE_JOBS:
            self._decide(at_s)

    def _end(self, ended: Ended) -> None:
        runs = len(self._runs)
        super()._end(ended)
        if len(self._runs) > runs:
            self._ended.append(ended.job_id)

    def _decide(self, now_s: float) -> None:
        self._judged, self._next_decision_s = self._submitted, now_s + DECIDE_EVERY_S
        ran_s = {job.id: now_s - job.start_at_unix for job in self._running.jobs}
        passes = -sum(shadow.passes for shadow in self._shadows.values())
        for shadow in self._shadows.values():
            shadow.advance(now_s, self._ended, ran_s)
        self._ended = []
        passes += sum(shadow.passes for shadow in self._shadows.values())
        self._raise_bound()
        choice = choose(self._evidence(), in_force=self._order)
        if choice.order != self._order:
            self._due = now_s + passes * PASS_S, choice

    def _evidence(self) -> list[Window]:
        """Return the windows of the jobs that all shadows have reached and that have ended on the site."""
        reached_s = min(shadow.reached_s for shadow in self._shadows.values())
        end = min(self._submitted, bisect.bisect_left(self._eligible_s, reached_s))
        latest = self._in_order[max(0, end - MAX_EVIDENCE_JOBS) : end]
        reached = [job for job in latest if job.pending.id in self._runs]
        size = max(1, -(-len(reached) // WINDOWS))
        parts = [reached[at : at + size] for at in range(0, len(reached), size)]
        return [
            {order: _figures(shadow, part, reached_s) for order, shadow in self._shadows.items()}
            for part in parts
        ]

    def _raise_bound(self) -> None:
        """Derive the bound on waits from EASY's shadow, and let the other shadows use it too."""
        bound_s = max(LEAST_BOUND_S, self._shadows[EASY].longest_wait_s())
        if self._bound_s is None or bound_s > BOUND_GROWS * self._bound_s:
            self._bound_s = bound_s
            for order, shadow in self._shadows.items():
                shadow.use(settings_for(order, self._own, wait_bound_s=bound_s))
            self.use(settings_for(self._order, self._own, wait_bound_s=bound_s))

    def _switch(self, at_s: float, choice: Choice) -> None:
        """Put the order in force. Jobs with a reserved start keep it."""
        for job_id, reserved_s in self.reserved_starts().items():
            pending = self._pending[job_id]
            self._pending[job_id] = msgspec.structs.replace(pending, reserved_start_unix=reserved_s)
        self._order = choice.order
        self.use(settings_for(choice.order, self._own, wait_bound_s=self._bound_s))
        if len(self.decisions) < MAX_LOG:
            self.decisions.append(Decision(at_s=at_s, order=choice.order, reason=choice.reason))

    def reserved_starts(self) -> dict[JobId, float]:
        """Return the starts that are reserved for waiting jobs under the order in force."""
        view = msgspec.structs.replace(
            self._site,
            running=tuple(self._running.jobs),
            pending=tuple(self._pending.values()),
            longest_wait_s=self._longest_wait_s,
        )
        made = plan(view, self._now_s, self._settings)
        return {each.job_id: each.at_unix for each in made.reserves if each.job_id in self._pending}


def replay_portfolio(
    jobs: Sequence[SimJob], site: PlannerView, settings: PlannerSettings, *, progress: Progress | None = None
) -> tuple[ReplayResult, list[Decision]]:
    """Replay the jobs under the portfolio. Return the result and the switches."""
    begun_s = time.process_time()
    run = PortfolioReplay(jobs, site, settings, progress)
    run.play()
    return run.record(time.process_time() - begun_s), run.decisions


def _figures(shadow: Shadow, jobs: Sequence[SimJob], at_s: float) -> Figures:
    waits = [shadow.wait_s(job, at_s) for job in jobs]
    slowdowns = [bounded_slowdown(wait, job.run_s) for wait, job in zip(waits, jobs, strict=True)]
    return Figures(
        jobs=len(jobs),
        mean_wait_s=sum(waits) / len(waits),
        mean_slowdown=sum(slowdowns) / len(slowdowns),
        max_wait_s=max(waits),
    )
