"""Leases of an srun or salloc that is gone: they end in time, however often the controller is killed
meanwhile.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.core import ANN, Agent, make_request
from tests.support.served import Raw, Served, served

from warpdeck.controller.events.events import NodeUp, StepReported, StepRequested, Submitted
from warpdeck.engines.native.processes import step_leases
from warpdeck.engines.native.processes.step_leases import COME_BACK_S
from warpdeck.engines.native.processes.step_requests import NativeSteps
from warpdeck.model import Job, JobState, NodeName
from warpdeck.model.step import Step, StepOptions
from warpdeck.store import MemoryStore
from warpdeck_agent.wire.messages import Welcome
from warpdeck_agent.wire.steps import StepReport

A = NodeName("a")
PART_S = COME_BACK_S * 0.4


class Clock:
    """The clock of the controllers."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def clients_come_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases are checked only when a test asks for it, and each controller is old enough to end a lease."""
    monkeypatch.setattr(step_leases, "FIRST_LOOK_S", 3600.0)
    monkeypatch.setattr(step_leases, "LOOK_S", 0.0)


async def stepping(site: Served, *, caller: NodeName | None = None) -> Job:
    """Return a job whose step 0 runs without its srun."""
    job, _ = await site.start_job()
    requested = StepRequested(
        principal=ANN, job_id=job.id, options=StepOptions(argv=("true",)), cwd="/", first=A, caller=caller
    )
    await site.controller.apply(requested)
    running = StepReport(job_id=job.id, restarts=0, step=0, phase="running")
    await site.controller.apply(StepReported(name=A, report=running))
    return job


def step_of(site: Served, job: Job) -> Step:
    return site.controller.state.steps[job.id][0]


def back(job: Job) -> Welcome:
    """Return the Welcome of a reconnected node on which the job and its step run."""
    agent = Agent("a")
    agent.begin((job.id, 0))
    running = StepReport(job_id=job.id, restarts=0, step=0, phase="running")
    return replace(agent.welcome(), steps=[running])


async def look(site: Served, clock: Clock, *, after_s: float) -> None:
    clock.now += after_s
    steps = site.server.engine.steps
    assert isinstance(steps, NativeSteps)
    await steps.context.leases.look()


async def test_a_step_without_srun_ends_despite_controller_restarts(short_tmp: Path) -> None:
    store, clock = MemoryStore(), Clock()
    async with served(short_tmp / "1", store=store, clock=clock) as site:
        job = await stepping(site)
        await look(site, clock, after_s=0)
    for number in (2, 3):
        async with served(short_tmp / f"{number}", store=store, clock=clock) as site:
            await look(site, clock, after_s=PART_S)
            assert step_of(site, job).ending_cause == ""
    async with served(short_tmp / "4", store=store, clock=clock) as site:
        await look(site, clock, after_s=PART_S)
        assert step_of(site, job).ending_cause == "cancelled"


async def test_a_reconnected_srun_gets_a_full_lease(short_tmp: Path) -> None:
    store, clock = MemoryStore(), Clock()
    async with served(short_tmp / "1", store=store, clock=clock) as site:
        job = await stepping(site)
        await look(site, clock, after_s=0)
    async with served(short_tmp / "2", store=store, clock=clock) as site:
        await site.controller.apply(NodeUp(name=A, welcome=back(job)))
        raw = await Raw.connect(site.paths)
        assert (await raw.request("srun_attach", step=f"{job.id}.0"))["t"] == "ok"
        await site.until(lambda: bool(site.fleet.joined))
        await look(site, clock, after_s=2 * COME_BACK_S)
        assert step_of(site, job).client_gone_since_unix is None
    await raw.close()
    async with served(short_tmp / "3", store=store, clock=clock) as site:
        await look(site, clock, after_s=PART_S)
        await look(site, clock, after_s=PART_S)
        assert step_of(site, job).ending_cause == ""
        await look(site, clock, after_s=COME_BACK_S)
        assert step_of(site, job).ending_cause == "cancelled"


async def test_the_lease_of_an_unreachable_srun_starts_when_its_node_returns(short_tmp: Path) -> None:
    store, clock = MemoryStore(), Clock()
    async with served(short_tmp / "1", store=store, clock=clock) as site:
        job = await stepping(site, caller=A)
        await look(site, clock, after_s=0)
        assert step_of(site, job).client_gone_since_unix == clock.now
    async with served(short_tmp / "2", store=store, clock=clock) as site:
        await look(site, clock, after_s=10 * COME_BACK_S)
        assert step_of(site, job).ending_cause == "" and step_of(site, job).client_gone_since_unix is None
        await site.controller.apply(NodeUp(name=A, welcome=back(job)))
        await look(site, clock, after_s=PART_S)
        assert step_of(site, job).ending_cause == ""
        await look(site, clock, after_s=2 * COME_BACK_S)
        assert step_of(site, job).ending_cause == "cancelled"


@pytest.mark.parametrize("holder", ["srun", "salloc"])
async def test_an_allocation_without_a_client_is_released(short_tmp: Path, holder: str) -> None:
    store, clock = MemoryStore(), Clock()
    async with served(short_tmp / "1", store=store, clock=clock) as site:
        outcome = await site.controller.apply(
            Submitted(principal=ANN, request=make_request(holder=holder, script=""))
        )
        assert outcome.job is not None
        number = outcome.job.id
        await look(site, clock, after_s=0)
    for folder in ("2", "3"):
        async with served(short_tmp / folder, store=store, clock=clock) as site:
            await look(site, clock, after_s=PART_S)
            assert site.controller.state.jobs[number].state is JobState.PENDING
    async with served(short_tmp / "4", store=store, clock=clock) as site:
        await look(site, clock, after_s=PART_S)
        assert site.controller.state.jobs[number].is_finished
