"""Fault storms over the real controller in virtual time: the invariants hold at every step, and nothing is lost."""

from __future__ import annotations

import asyncio
from functools import cache

import pytest
from tests.support import invariants

from warpdeck.controller.loop.controller import Controller
from warpdeck.controller.state.invariants import violations
from warpdeck.controller.state.planner_view import build_view
from warpdeck.model import JobState
from warpdeck.policy import PlannerSettings, plan
from warpdeck.sim.cluster import SimCluster
from warpdeck.sim.virtualtime import Stalled, run_virtual

CONTROLLERS = 3
"""Number of controllers that are killed one after the other in each storm."""
STEPS = 40


def check_invariants(controller: Controller) -> None:
    """Check the invariants of the state, and of the plan that the planner would make now."""
    assert violations(controller.state) == []
    starts = controller.state.starts
    assert starts.own.epoch == starts.own.pid and starts.fenced_by is None, (
        "each controller has the next epoch"
    )
    assert not controller.state.recovery.is_needed, "an ordinary crash needs no person"
    now = controller.clock()
    view = build_view(controller.state, now=now)
    made = plan(view, now, PlannerSettings())
    for holds in invariants.ALL:
        holds(view, made)


async def storm(seed: int) -> tuple[SimCluster, Controller]:
    cluster = SimCluster(seed)
    for _ in range(CONTROLLERS):
        async with cluster.controller(on_change=check_invariants) as controller:
            for _ in range(STEPS):
                await cluster.step(controller)
    async with cluster.controller(on_change=check_invariants) as controller:
        await cluster.drain_queue(controller)
        check_invariants(controller)
        return cluster, controller


@cache
def after_storm(seed: int) -> tuple[SimCluster, Controller]:
    """Return the cluster and its controller after a storm. The tests must not change them."""
    return run_virtual(storm(seed))


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(each, marks=pytest.mark.slow) for each in range(3, 8))]
)
def test_a_storm_of_faults_loses_nothing_and_runs_nothing_twice(seed: int) -> None:
    cluster, controller = after_storm(seed)
    jobs = controller.state.jobs
    open_ids = [job_id for job_id in cluster.submitted if job_id in jobs and not jobs[job_id].is_finished]
    stored = run_virtual(known_ids(cluster))
    assert set(cluster.submitted) <= stored, f"seed {seed}: an answered id is lost"
    assert not open_ids, f"seed {seed}"
    twice = {key: count for key, count in cluster.starts_of.items() if count > 1}
    assert not twice, f"seed {seed}: started twice: {twice}"


async def known_ids(cluster: SimCluster) -> set[int]:
    return {int(job.id) for job in await cluster.store.finished_jobs(user=None, limit=1_000_000)}


@pytest.mark.slow
def test_equal_seeds_give_equal_storms() -> None:
    def ended(controller: Controller) -> list[tuple[int, JobState, float | None]]:
        return [(job.id, job.state, job.end_at_unix) for job in controller.state.jobs.values()]

    (_, first), (_, second) = after_storm(5), run_virtual(storm(5))
    assert ended(first) == ended(second)


def test_virtual_time_passes_at_once_and_a_stall_is_detected() -> None:
    async def a_year() -> float:
        await asyncio.sleep(365 * 86_400)
        return asyncio.get_running_loop().time()

    assert run_virtual(a_year()) == pytest.approx(365 * 86_400)

    async def wait_forever() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stalled):
        run_virtual(wait_forever())
