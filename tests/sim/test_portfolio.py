"""Replays under the portfolio: shadows know only what the site knows, and a switch keeps every reserved start."""

from __future__ import annotations

import msgspec
import pytest
from tests.sim.test_replay import CPUS, random_jobs, site

from warpdeck.model import JobId
from warpdeck.policy import PlannerSettings
from warpdeck.policy.portfolio import ORDERS, Choice, settings_for
from warpdeck.sim.portfolio import PortfolioReplay, Shadow
from warpdeck.sim.replay import replay
from warpdeck.sim.resource_model import Pool
from warpdeck.sim.simjobs import SimJob, make_workload
from warpdeck.sim.trace import Trace

OWN = PlannerSettings(max_forecasts=0)
SWITCH_EVERY = 15


def jobs_of(seed: int) -> tuple[SimJob, ...]:
    return make_workload(Trace(jobs=tuple(random_jobs(seed))), Pool(CPUS), limits="log").jobs


@pytest.mark.parametrize("order", ORDERS)
def test_a_shadow_that_knows_everything_equals_a_replay(order: str) -> None:
    jobs, settings = jobs_of(1), settings_for(order, OWN, wait_bound_s=1000.0)
    shadow = Shadow(jobs, site(Pool(CPUS)), settings)
    shadow.advance(1e9, [job.pending.id for job in jobs], {})
    plain = replay(jobs, site(Pool(CPUS)), settings)
    assert shadow.started_s == {run.job.pending.id: run.start_s for run in plain.runs}


@pytest.mark.parametrize("seed", range(4))
def test_a_shadow_does_not_depend_on_run_times_that_the_site_does_not_know(seed: int) -> None:
    jobs = jobs_of(seed)
    known = [job.pending.id for job in jobs if job.pending.id % 7]
    ran_s = {job.pending.id: 0.4 * job.run_s for job in jobs if job.pending.id % 2}
    others = [
        job if job.pending.id in known else msgspec.structs.replace(job, run_s=job.run_s * 3 + 50)
        for job in jobs
    ]
    shadows = [
        Shadow(each, site(Pool(CPUS)), settings_for("shortest", OWN, wait_bound_s=None))
        for each in (jobs, others)
    ]
    for shadow in shadows:
        shadow.advance(1e9, known, ran_s)
    assert shadows[0].reached_s == shadows[1].reached_s < 1e9
    assert shadows[0].started_s == shadows[1].started_s
    shadows[0].advance(1e9, [job.pending.id for job in jobs], {})
    assert len(shadows[0].started_s) == len(jobs), "a shadow continues when it knows more"


class Alternating(PortfolioReplay):
    """The site's replay with a switch to another order every few events."""

    def __init__(self, jobs: tuple[SimJob, ...]) -> None:
        super().__init__(jobs, site(Pool(CPUS)), OWN, None)
        self.steps = 0
        self.promises: list[tuple[JobId, float]] = []

    def step(self, at_s: float) -> None:
        super().step(at_s)
        self.steps += 1
        if self.steps % SWITCH_EVERY == 0:
            self.promises += self.reserved_starts().items()
            order = list(ORDERS)[self.steps // SWITCH_EVERY % len(ORDERS)]
            self._switch(at_s, Choice(order=order, reason="for the test"))


@pytest.mark.parametrize("seed", range(6))
def test_a_switch_takes_no_reserved_start_back(seed: int) -> None:
    run = Alternating(jobs_of(seed))
    run.play()
    assert len(run.promises) > 5
    late = [(job_id, at_s) for job_id, at_s in run.promises if run.started_s[job_id] > at_s]
    assert not late
