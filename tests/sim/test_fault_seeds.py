"""Many short storms of all kinds of faults: each job that was acknowledged runs to its right end, exactly once.

Each seed is a cluster of three nodes with some minutes of virtual time and several controllers, each of which is killed. A failure
names its seed, and `storm(seed)` repeats it.
"""

from __future__ import annotations

import pytest

from warpdeck.controller.loop.controller import Controller
from warpdeck.controller.state.invariants import violations
from warpdeck.model import JobState
from warpdeck.sim.cluster import SimCluster
from warpdeck.sim.faults import HARSH
from warpdeck.sim.virtualtime import run_virtual

CONTROLLERS = 3
STEPS = 12
SEEDS = 1000
CHUNK = 50
"""Seeds of one test."""


def ignore(controller: Controller) -> None:
    """Do nothing. The cluster itself checks the invariants of the state after each change."""


async def storm(seed: int) -> list[str]:
    """Run one storm. Return the sentences about what went wrong."""
    cluster = SimCluster(seed, faults=HARSH)

    async def live() -> None:
        async with cluster.controller(on_change=ignore) as controller:
            for _ in range(STEPS):
                await cluster.step(controller)

    for _ in range(CONTROLLERS):
        await cluster.run_until_crash(live())
    cluster.calm()
    async with cluster.controller(on_change=ignore) as controller:
        await cluster.drain_queue(controller)
        assert violations(controller.state) == []
        return wrongs(cluster, controller)


def wrongs(cluster: SimCluster, controller: Controller) -> list[str]:
    """Compare the ends of all jobs with what has run on the nodes."""
    jobs = controller.state.jobs
    found = [f"the acknowledged job {each} is lost" for each in cluster.submitted if each not in jobs]
    found += [
        f"{key} started {count} times on {name}"
        for (name, key), count in cluster.starts_of.items()
        if count > 1
    ]
    for job in jobs.values():
        if not job.is_finished:
            found.append(f"job {job.id} waits for ever: {job.state}")
        if job.state is not JobState.COMPLETED or job.has_leader:
            continue  # Components end with their leader.
        assert job.allocation is not None
        head = job.allocation.node_names()[0]  # The other nodes only hold their resources.
        end = cluster.ends_of.get((head, (job.id, job.restarts)))
        if end is None or end.exit_code or end.signal or end.cause:
            told = end and (end.exit_code, end.signal, end.cause)
            found.append(f"job {job.id} is COMPLETED, but on {head} it ended with {told}")
    return found


@pytest.mark.parametrize(
    "first", [pytest.param(at, marks=pytest.mark.slow if at else ()) for at in range(0, SEEDS, CHUNK)]
)
def test_no_storm_loses_a_job_or_runs_one_twice(first: int) -> None:
    wrong = {seed: found for seed in range(first, first + CHUNK) if (found := run_virtual(storm(seed)))}
    assert wrong == {}
