"""The step for which srun creates an allocation starts in the same transaction, or is requested later."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from tests.support.core import ANN, Agent, make_request
from tests.support.served import Served, served

from warpdeck.base.errors import StoreError
from warpdeck.controller.events.events import StepRequested, Submitted
from warpdeck.model import Job, JobId, JobState, NodeName
from warpdeck.model.step import StepOptions
from warpdeck.ports.store import Changes
from warpdeck.store import MemoryStore


class Disk(MemoryStore):
    """A store that records commits and can be full."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[Changes] = []
        self.full = False

    async def commit(self, changes: Changes) -> None:
        if self.full:
            raise StoreError("cannot write state.db: database or disk is full")
        self.commits.append(changes)
        await super().commit(changes)


async def allocation(site: Served, *, nodes: int = 1) -> Job:
    """Return an allocation held by an srun of ann; its launch is in progress."""
    request = msgspec.structs.replace(make_request(nodes=nodes), script="", holder="srun")
    outcome = await site.controller.apply(Submitted(principal=ANN, request=request))
    assert outcome.job is not None
    await site.until(lambda: len(site.fleet.launches) == nodes)
    return outcome.job


def step_of(job: Job) -> StepRequested:
    wanted = StepOptions(argv=("true",))
    return StepRequested(principal=ANN, job_id=job.id, options=wanted, cwd="/", first=NodeName(""))


async def test_the_initial_step_is_created_in_the_transaction_of_its_jobs_start(short_tmp: Path) -> None:
    disk = Disk()
    async with served(short_tmp / "h", store=disk) as site:
        agent = await site.add_node("a")
        job = await allocation(site)
        with site.controller.events.initial_steps.waiting(step_of(job)) as first:
            await site.report("a", agent.begin((job.id, 0)))
            step = await first.created()
        assert step is not None and (step.job_id, step.number) == (job.id, 0)
        assert [each.state for each in disk.commits[-1].jobs] == [JobState.RUNNING]
        assert disk.commits[-1].steps == (step,)
        await site.report("a", agent.begin((job.id, 0)))  # a repeated report starts nothing again
        assert list(site.controller.state.steps[job.id]) == [0]


async def test_a_step_over_several_nodes_is_requested_when_its_job_runs(short_tmp: Path) -> None:
    """The step needs a port of its first node."""
    async with served(short_tmp / "h", store=MemoryStore()) as site:
        agents = {name: await site.add_node(name) for name in ("a", "b")}
        job = await allocation(site, nodes=2)
        with site.controller.events.initial_steps.waiting(step_of(job)) as first:
            await _begin_all(site, agents, job)
            assert await first.created() is None
        assert not site.controller.state.steps.get(job.id)


async def test_a_disconnected_client_gets_no_step(short_tmp: Path) -> None:
    async with served(short_tmp / "h", store=MemoryStore()) as site:
        agent = await site.add_node("a")
        job = await allocation(site)
        with pytest.raises(TimeoutError), site.controller.events.initial_steps.waiting(step_of(job)):
            raise TimeoutError  # --immediate, for one
        await site.report("a", agent.begin((job.id, 0)))
        assert not site.controller.state.steps.get(job.id)


async def test_a_step_that_could_not_be_committed_is_requested_again(short_tmp: Path) -> None:
    disk = Disk()
    async with served(short_tmp / "h", store=disk) as site:
        agent = await site.add_node("a")
        job = await allocation(site)
        with site.controller.events.initial_steps.waiting(step_of(job)) as first:
            disk.full = True
            site.controller.nodes.post((agent.name, agent.begin((job.id, 0))))
            await asyncio.wait([first.answer])
            assert await first.created() is None
            disk.full = False
            await site.until(lambda: site.controller.state.jobs[job.id].state is JobState.RUNNING)
        assert not site.controller.state.steps.get(job.id)


async def _begin_all(site: Served, agents: dict[str, Agent], job: Job) -> None:
    for name, agent in agents.items():
        await site.report(name, agent.begin((JobId(job.id), 0)))
    assert site.controller.state.jobs[job.id].state is JobState.RUNNING
