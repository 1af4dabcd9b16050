"""A job that has waited longer than the bound starts by the time that was reserved for it, on random busy sites."""

from __future__ import annotations

import math
from random import Random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.pass_player import started_job
from tests.support.builders import node, pending, view

from warpdeck.model import JobId
from warpdeck.policy import PassCache, PendingJob, PlannerSettings, RunningJob, plan

NOW, BOUND_S, JOBS = 1_000_000.0, 2_000.0, 40
NOBODY = JobId(0)
"""A plan with something to explain contains the reserved starts."""
seeds = st.integers(0, 2**32)


class BusySite:
    """A small site to which jobs are submitted faster than they end. Jobs end at or before their limits."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.now = NOW
        self.gpus = rng.choice((2, 4, 8))
        self.nodes = [node(f"n{number}", gpus=self.gpus) for number in range(rng.randint(1, 3))]
        self.settings = PlannerSettings(
            wait_bound_s=BOUND_S,
            queue_order=rng.choice(("response", "submission")),
            backfill_order=rng.choice(("priority", "shortest")),
            reservation_holds=rng.choice(("nodes", "start")),
            reservations=rng.choice((0, 1, 3)),
        )
        self.cache = PassCache()
        self.waiting: dict[JobId, PendingJob] = {}
        self.running: dict[JobId, tuple[RunningJob, float]] = {}
        self.last_id = 0

    def submit(self) -> None:
        """Submit a job; one in five takes whole nodes."""
        rng, self.last_id = self.rng, self.last_id + 1
        is_wide = rng.random() < 0.2
        job = pending(
            self.last_id,
            gpus=self.gpus if is_wide else rng.randint(1, self.gpus),
            nodes=rng.randint(1, len(self.nodes)) if is_wide else 1,
            limit_s=rng.choice((60, 300, 1500, 4000)),
            eligible_at_unix=self.now,
            nice=rng.choice((0, 0, 100)),
            priority=rng.choice((None, None, None, 500)),
        )
        self.waiting[job.id] = job

    def advance(self) -> None:
        """Advance to the next end of a job, or a little, and submit more jobs."""
        ends = min((end for _, end in self.running.values()), default=self.now)
        self.now = max(self.now, min(ends, self.now + self.rng.uniform(10, 400)))
        self.running = {key: pair for key, pair in self.running.items() if pair[1] > self.now}
        while self.last_id < JOBS and self.rng.random() < 0.7:
            self.submit()

    def step(self) -> dict[JobId, float]:
        """Run one pass. Return the starts, and the reserved starts, of the jobs that waited before it."""
        site = view(self.nodes, list(self.waiting.values()), [job for job, _ in self.running.values()])
        by_id = tuple(sorted(site.running, key=lambda job: job.id))
        site = msgspec.structs.replace(site, running=by_id)
        made = plan(site, self.now, self.settings, cache=self.cache, explain_only=[NOBODY])
        found = {each.job_id: each.at_unix for each in made.reserves}
        for start in made.starts:
            job = self.waiting.pop(start.job_id)
            found[job.id] = self.now
            ran_s = (job.time_limit_s or 0) * self.rng.choice((0.1, 0.5, 1.0))
            self.running[job.id] = started_job(job, start, self.now), self.now + ran_s
        return found


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_the_oldest_guarded_job_starts_by_its_first_reserved_time(seed: int) -> None:
    site = BusySite(Random(seed))
    promised: dict[JobId, float] = {}
    while site.last_id < JOBS or site.waiting:
        site.advance()
        guarded = [job for job in site.waiting.values() if site.now - job.eligible_at_unix > BOUND_S]
        oldest = min(guarded, key=lambda job: (job.eligible_at_unix, job.id), default=None)
        found = site.step()
        assert all(job.id in found for job in guarded), "a guarded job has neither a start nor a reservation"
        if oldest is not None:
            assert found[oldest.id] <= promised.get(oldest.id, math.inf)
            promised = {oldest.id: found[oldest.id]}
