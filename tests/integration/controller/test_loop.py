"""The controller's loop: one transaction per batch, effects after the commit, and a store that temporarily
cannot write.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.core import ANN, GIB, make_request
from tests.support.served import served
from tests.support.waiting import WAIT_S

from warpdeck.base.errors import StoreError, UserError
from warpdeck.config import decode
from warpdeck.controller.events.events import Released, Submitted
from warpdeck.model import ArraySpec, JobId, JobState
from warpdeck.ports.store import Changes
from warpdeck.store import MemoryStore
from warpdeck_agent.wire import messages as wire


class Disk(MemoryStore):
    """A store that can be full or slow."""

    def __init__(self) -> None:
        super().__init__()
        self.full = False
        self.refused = 0
        self.commits: list[Changes] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def commit(self, changes: Changes) -> None:
        await self.gate.wait()
        if self.full:
            self.refused += 1
            raise StoreError("cannot write state.db: database or disk is full")
        self.commits.append(changes)
        await super().commit(changes)


async def test_simultaneous_requests_share_a_transaction(short_tmp: Path) -> None:
    disk = Disk()
    async with served(short_tmp / "h", store=disk) as site:
        disk.gate.clear()
        events = [Submitted(principal=ANN, request=make_request(hold=True)) for _ in range(50)]
        requested = [asyncio.ensure_future(site.controller.apply(event)) for event in events]
        disk.gate.set()
        ids = [outcome.job.id for outcome in await asyncio.gather(*requested) if outcome.job is not None]
        assert ids == list(range(1, 51))
        assert len(disk.commits) <= 2


async def test_nothing_is_answered_or_launched_before_the_commit(short_tmp: Path) -> None:
    disk = Disk()
    async with served(short_tmp / "h", store=disk) as site:
        await site.add_node("a")
        disk.gate.clear()
        requested = asyncio.ensure_future(
            site.controller.apply(Submitted(principal=ANN, request=make_request()))
        )
        await asyncio.wait([requested], timeout=0.05)
        assert not requested.done() and not site.fleet.launches
        disk.gate.set()
        await requested
        await site.until(lambda: bool(site.fleet.launches))
        stored = await disk.job(JobId(1))
        assert stored is not None and stored.state is JobState.CONFIGURING


async def test_a_full_disk_refuses_requests_and_loses_no_agent_report(short_tmp: Path) -> None:
    disk = Disk()
    async with served(short_tmp / "h", store=disk) as site:
        control = site.controller
        agent = await site.add_node("a")
        await control.apply(Submitted(principal=ANN, request=make_request()))
        await site.until(lambda: bool(site.fleet.launches))
        disk.full = True
        with pytest.raises(UserError, match="disk is full"):
            await control.apply(Submitted(principal=ANN, request=make_request()))
        assert control.state.next_job_id == 2 and len(control.state.jobs) == 1
        seen = control.hub.listen()
        control.nodes.post((agent.name, agent.begin((1, 0))))
        control.nodes.post((agent.name, agent.end((1, 0), exit_code=3)))
        before = disk.refused
        async with asyncio.timeout(WAIT_S):
            while disk.refused < before + 2:  # retries by itself
                await seen.changed.wait()
                seen.take()
        assert control.state.jobs[JobId(1)].state is JobState.CONFIGURING
        disk.full = False
        await site.until(lambda: control.state.jobs[JobId(1)].is_finished)
        assert str(control.state.jobs[JobId(1)].exit) == "3:0"
        stored = await disk.job(JobId(1))
        assert stored is not None and stored.state is JobState.FAILED


async def test_a_node_is_not_read_further_before_the_commit_of_its_report(short_tmp: Path) -> None:
    disk = Disk()
    async with served(short_tmp / "h", store=disk) as site:
        agent = await site.add_node("a")
        await site.controller.apply(Submitted(principal=ANN, request=make_request()))
        disk.full = True
        site.controller.nodes.post((agent.name, agent.end((1, 0), exit_code=3)))
        event_received = asyncio.ensure_future(site.controller.events.wait_processed())
        await site.until(lambda: disk.refused > 0)
        await asyncio.wait([event_received], timeout=0.05)
        assert not event_received.done()
        disk.full = False
        await asyncio.wait_for(event_received, WAIT_S)
        stored = await disk.job(JobId(1))
        assert stored is not None and stored.state is JobState.FAILED


async def test_a_start_shares_the_commit_of_the_end_that_frees_its_resources(short_tmp: Path) -> None:
    disk = Disk()
    async with served(short_tmp / "h", store=disk) as site:
        agent = await site.add_node("a")
        for _ in range(2):
            await site.controller.apply(Submitted(principal=ANN, request=make_request(gpus=4)))
        await site.report("a", agent.begin((1, 0)))
        await site.report("a", agent.end((1, 0)))
        states = {job.id: job.state for job in disk.commits[-1].jobs}
        assert states == {1: JobState.COMPLETED, 2: JobState.CONFIGURING}
        await site.until(lambda: len(site.fleet.launches) == 2)


async def test_all_tasks_of_an_array_run_once_one_after_the_other(short_tmp: Path) -> None:
    disk = Disk()
    async with served(short_tmp / "h", store=disk) as site:
        agent = await site.add_node("a")
        array = ArraySpec(ranges=((1, 40, 1),))
        await site.controller.apply(Submitted(principal=ANN, request=make_request(gpus=2, array=array)))
        for number in range(40):
            await site.until(lambda so_far=number: len(site.fleet.launches) > so_far)
            launch = site.fleet.launches[number]
            await site.report("a", agent.begin((launch.job_id, 0)))
            await site.report("a", agent.end((launch.job_id, 0)))
        jobs = site.controller.state.jobs.values()
        await site.until(lambda: all(job.state is JobState.COMPLETED for job in jobs))
        assert sorted(job.array_task_id or 0 for job in jobs) == list(range(1, 41))
        assert len(site.fleet.launches) == 40


async def test_the_planner_survives_a_full_disk(short_tmp: Path) -> None:
    disk = Disk()
    async with served(short_tmp / "h", store=disk) as site:
        agent = await site.add_node("a")
        stranger = [wire.GpuProcess(pid=1, mem_bytes=GIB)]
        site.controller.nodes.post((agent.name, sample(stranger)))
        await site.controller.apply(Submitted(principal=ANN, request=make_request(gpus=4)))
        await site.until(lambda: JobId(1) in site.controller.state.planned.pending_reasons)
        disk.full = True
        seen = site.controller.hub.listen()
        site.controller.nodes.post((agent.name, sample([])))  # nobody asked: the planner finds out by itself
        async with asyncio.timeout(WAIT_S):
            while not disk.refused:
                await seen.changed.wait()
                seen.take()
        assert not site.fleet.launches
        disk.full = False
        await site.until(lambda: bool(site.fleet.launches))


def sample(processes: list[wire.GpuProcess]) -> wire.Sample:
    """Return a sample of four GPUs with these processes on each."""
    gpus = [wire.GpuSample(index=index, processes=processes) for index in range(4)]
    return wire.Sample(at_unix=1.0, cpu_pct=0.0, mem_used_bytes=0, gpus=gpus)


async def test_a_changed_group_membership_applies_to_waiting_jobs(short_tmp: Path) -> None:
    groups = {ANN.user: frozenset({"lab"})}
    rules = decode('[partitions.lab]\nallow_groups = ["lab"]\n', "f").config
    async with served(
        short_tmp / "h", config=rules, groups_of=groups.__getitem__, groups_every_s=0.01
    ) as site:
        control = site.controller
        await site.add_node("a")
        await control.rules.learn_groups([ANN.user])
        for _ in range(2):
            await control.apply(Submitted(principal=ANN, request=make_request(gpus=4)))

        def waits_for(code: str) -> bool:
            why = control.state.planned.pending_reasons.get(JobId(2))
            return why is not None and why.code == code

        await site.until(lambda: waits_for("Resources"))
        groups[ANN.user] = frozenset()
        await site.until(lambda: waits_for("PartitionConfig"))
        groups[ANN.user] = frozenset({"lab"})
        await site.until(lambda: waits_for("Resources"))


async def test_held_jobs_cause_no_scheduling_pass(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        await site.add_node("a")  # the first pass of the controller is over
        held = await site.controller.apply(Submitted(principal=ANN, request=make_request(hold=True)))
        assert held.job is not None
        await site.until(lambda: bool(site.controller.state.planned.pending_reasons))
        passes = site.controller.statistics.counters.passes
        await site.add_node("b")
        await site.add_node("c")
        assert site.controller.statistics.counters.passes == passes
        await site.controller.apply(Released(principal=ANN, jobs=(str(held.job.id),)))
        await site.until(lambda: len(site.fleet.launches) == 1)
