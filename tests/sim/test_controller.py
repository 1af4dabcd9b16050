"""The real controller with a store in memory and a simulated fleet, under random actions and kills."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from warpdeck.base.errors import UserError
from warpdeck.config import decode
from warpdeck.controller.events.events import Cancelled, Held, NodeAdded, Released, Requeued, Submitted
from warpdeck.controller.launch.code_trees import TreeFiles
from warpdeck.controller.loop.adapters import Adapters
from warpdeck.controller.loop.controller import Controller
from warpdeck.model import (
    ArraySpec,
    Dependencies,
    Dependency,
    GpuRequest,
    Job,
    JobId,
    JobState,
    Node,
    NodeName,
    Request,
    Resources,
)
from warpdeck.ports.caller import Principal
from warpdeck.sim.demo import NoOutputs
from warpdeck.sim.fleet import SimFleet, SimNode
from warpdeck.store import MemoryStore
from warpdeck_agent.wire import messages as wire

ANN, BOB = Principal(user="ann", uid=1), Principal(user="bob", uid=2)
ROOT = Principal(user="root", uid=0, admin=True)


def make_nodes() -> list[SimNode]:
    return [SimNode(NodeName(f"n{number}"), gpus=4, cpus=16) for number in range(3)]


class Rig:
    """A controller that can be killed and started again on the same store and nodes."""

    def __init__(self, seed: int, *, rules: str = "") -> None:
        self.config = decode(rules, "config.toml").config
        self.rng = random.Random(seed)
        self.store = MemoryStore()
        self.nodes = make_nodes()
        self.runs: dict[tuple[str, int, int], int] = {}
        self.endless: set[str] = set()

    def run_time(self, launch: wire.Launch) -> tuple[float, int]:
        if launch.env["SLURM_JOB_NAME"] == "endless":
            return 3600.0, 0
        return self.rng.uniform(0.0, 0.05), int(launch.env["SLURM_JOB_NAME"] == "fails")

    @asynccontextmanager
    async def controller(self) -> AsyncIterator[Controller]:
        """Run a controller and kill it at the end. The nodes are not informed and continue."""
        fleet = SimFleet(self.nodes, clock=time.time, rng=self.rng, run_time=self.run_time)
        adapters = Adapters(
            store=self.store,
            fleet=fleet,
            trees=TreeFiles("/nonexistent"),
            outputs=NoOutputs(),
            clock=time.time,
            submit_host="test",
        )
        made = Controller(adapters, config=self.config)
        await made.load()
        task = asyncio.get_running_loop().create_task(made.run())
        if not made.state.nodes:
            for node in self.nodes:
                added = Node(name=node.name, target="simulated")
                await made.apply(NodeAdded(node=added))
                fleet.connect(added)
        try:
            yield made
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def until(controller: Controller, reached: Callable[[], bool], *, timeout_s: float = 60.0) -> None:
    """Wait until the condition holds. Each change of the state wakes the check."""
    listener = controller.hub.listen()
    try:
        async with asyncio.timeout(timeout_s):
            while not reached():
                await listener.changed.wait()
                listener.take()
    finally:
        controller.hub.leave(listener)


async def submit(controller: Controller, request: Request, who: Principal = ANN) -> Job:
    outcome = await controller.apply(Submitted(principal=who, request=request))
    assert outcome.job is not None
    return outcome.job


def request(name: str = "job", *, gpus: int = 0, nodes: int = 1, **fields: object) -> Request:
    resources = Resources(
        nodes_min=nodes, nodes_max=nodes, gpus=GpuRequest(per_node=gpus) if gpus else GpuRequest()
    )
    return Request(name=name, script="#!/bin/sh\n", resources=resources, **fields)  # type: ignore[arg-type]


def no_gpu_has_two_jobs(controller: Controller) -> None:
    held: dict[tuple[str, int], JobId] = {}
    for job in controller.state.jobs.values():
        for share in job.allocation.shares if job.holds_resources and job.allocation else ():
            for index in share.gpus:
                assert held.setdefault((share.node, index), job.id) == job.id


async def ready(controller: Controller) -> None:
    await until(controller, lambda: all(node.cpus for node in controller.state.nodes.values()))


async def test_jobs_arrays_and_gangs_run_to_completion() -> None:
    rig = Rig(1)
    async with rig.controller() as controller:
        await ready(controller)
        good = await submit(controller, request(gpus=2))
        bad = await submit(controller, request("fails"))
        gang = await submit(controller, request(gpus=4, nodes=3))
        array = await submit(controller, request(array=ArraySpec(ranges=((0, 9, 1),), throttle=2)))
        jobs = controller.state.jobs
        await until(controller, lambda: bool(jobs) and all(job.is_finished for job in jobs.values()))
        assert jobs[good.id].state is JobState.COMPLETED
        assert jobs[bad.id].state is JobState.FAILED
        assert len(jobs[gang.id].shares) == 3
        tasks = controller.state.array_members(array.id)
        assert sorted(job.array_task_id or 0 for job in tasks) == list(range(10))


async def test_dependencies_hold_and_failures_are_final() -> None:
    rig = Rig(2)
    async with rig.controller() as controller:
        await ready(controller)
        first = await submit(controller, request("fails"))

        def after(kind: str) -> Dependencies:
            return Dependencies(clauses=(Dependency(kind=kind, job_id=first.id),))

        any_end = await submit(controller, request(dependencies=after("afterany")))
        success = await submit(controller, request(dependencies=after("afterok")))
        jobs = controller.state.jobs
        await until(controller, lambda: jobs[any_end.id].is_finished and jobs[success.id].is_finished)
        ended = jobs[success.id]
        assert ended.state is JobState.CANCELLED and ended.exit is not None
        assert "depends on the success of job" in ended.exit.message


async def test_jobs_can_be_canceled_held_released_and_requeued() -> None:
    rig = Rig(3)
    async with rig.controller() as controller:
        await ready(controller)
        jobs = controller.state.jobs
        held = await submit(controller, request(hold=True))
        endless = await submit(controller, request("endless", gpus=1))
        await until(controller, lambda: jobs[endless.id].state is JobState.RUNNING)
        denied = await controller.apply(Cancelled(principal=BOB, jobs=(str(endless.id),)))
        assert "belongs to ann" in denied.errors[0] and jobs[endless.id].state is JobState.RUNNING
        await controller.apply(Requeued(principal=ANN, jobs=(str(endless.id),)))
        await until(
            controller, lambda: jobs[endless.id].restarts == 1 and jobs[endless.id].state is JobState.RUNNING
        )
        await controller.apply(Cancelled(principal=ANN, jobs=(str(endless.id),)))
        await until(controller, lambda: jobs[endless.id].state is JobState.CANCELLED)
        assert jobs[held.id].state is JobState.PENDING
        await controller.apply(Released(principal=ANN, jobs=(str(held.id),)))
        await until(controller, lambda: jobs[held.id].state is JobState.COMPLETED)
        refused = await controller.apply(Held(principal=ANN, jobs=(str(held.id), "77", "x")))
        assert len(refused.errors) == 3 and not refused.labels


async def test_one_waiting_task_of_an_array_can_be_canceled() -> None:
    rig = Rig(4)
    async with rig.controller() as controller:
        await ready(controller)
        array = await submit(controller, request(hold=True, array=ArraySpec(ranges=((0, 2, 1),))))
        await controller.apply(Cancelled(principal=ANN, jobs=(f"{array.id}_1",)))
        labels = {job.label(): job.state for job in controller.state.array_members(array.id)}
        assert labels == {f"{array.id}_[0,2]": JobState.PENDING, f"{array.id}_1": JobState.CANCELLED}


async def test_a_request_larger_than_every_node_is_refused_and_takes_no_id() -> None:
    rig = Rig(5)
    async with rig.controller() as controller:
        await ready(controller)
        before = controller.state.next_job_id
        with pytest.raises(UserError, match="never start"):
            await submit(controller, request(gpus=5))
        assert controller.state.next_job_id == before


async def test_a_time_limit_ends_a_job_as_timeout() -> None:
    rig = Rig(6)
    async with rig.controller() as controller:
        await ready(controller)
        job = await submit(controller, request("endless", time_limit_s=1))
        await until(controller, lambda: controller.state.jobs[job.id].state is JobState.TIMEOUT)


@pytest.mark.parametrize("seed", range(6))
async def test_random_actions_and_kills_lose_no_job(seed: int) -> None:
    rig = Rig(seed)
    answered: list[JobId] = []
    for _ in range(4):
        async with rig.controller() as controller:
            await ready(controller)
            for _ in range(rig.rng.randint(5, 15)):
                await random_action(rig, controller, answered)
                no_gpu_has_two_jobs(controller)
            for node in rig.nodes:
                node.up = True
    async with rig.controller() as controller:
        await ready(controller)
        jobs = controller.state.jobs
        assert set(answered) <= set(jobs), f"seed {seed}: an answered id is lost"
        waiting = sorted({str(job.array_job_id) for job in jobs.values() if job.held})
        await controller.apply(Released(principal=ANN, jobs=tuple(waiting)))
        try:
            await until(controller, lambda: all(job.is_finished for job in jobs.values()))
        except TimeoutError:
            raise AssertionError(
                [
                    (
                        job.label(),
                        job.state,
                        job.held,
                        job.ending_cause,
                        job.restarts,
                        job.shares,
                        controller.state.planned.pending_reasons.get(job.id),
                    )
                    for job in jobs.values()
                    if not job.is_finished
                ]
            ) from None
        no_gpu_has_two_jobs(controller)


async def random_action(rig: Rig, controller: Controller, answered: list[JobId]) -> None:
    """Perform a random action of a user or the network."""
    rng = rig.rng
    action = rng.choice(("submit", "submit", "submit", "cancel", "hold", "requeue", "lose", "find", "rest"))
    node = rng.choice(rig.nodes)
    known = (str(rng.choice(answered)),) if answered else ("1",)
    if action == "submit":
        array = ArraySpec(ranges=((0, rng.randint(1, 6), 1),)) if rng.random() < 0.3 else None
        wanted = request(
            gpus=rng.randint(0, 4), nodes=rng.randint(1, 2), array=array, hold=rng.random() < 0.1
        )
        answered.append((await submit(controller, wanted)).id)
    elif action == "cancel":
        await controller.apply(Cancelled(principal=ANN, jobs=known))
    elif action == "hold":
        await controller.apply(Held(principal=ANN, jobs=known))
    elif action == "requeue":
        await controller.apply(Requeued(principal=ANN, jobs=known))
    elif action == "lose":
        fleet = controller.fleet
        assert isinstance(fleet, SimFleet)
        fleet.break_link(node.name)
    elif action == "find":
        fleet = controller.fleet
        assert isinstance(fleet, SimFleet)
        fleet.restore_link(node.name)
    else:
        await asyncio.wait({asyncio.get_running_loop().create_future()}, timeout=0.02)


async def test_another_job_starts_among_prefetched_short_tasks() -> None:
    """Prefetched tasks are revoked when another job arrives, and all tasks run once."""
    rig = Rig(11)
    tasks = 300
    async with rig.controller() as controller:
        await ready(controller)
        array = await submit(controller, request(gpus=2, array=ArraySpec(ranges=((1, tasks, 1),))))
        jobs, state = controller.state.jobs, controller.state
        await until(controller, lambda: bool(state.index.successor))
        other = await submit(controller, request("first", gpus=4, nice=-1000), ROOT)
        await until(controller, lambda: jobs[other.id].is_finished)
        assert jobs[other.id].state is JobState.COMPLETED
        assert sum(job.is_finished for job in state.array_members(array.id)) < tasks, (
            "the other job did not wait for the whole array"
        )
        await until(controller, lambda: bool(state.index.successor))
        await controller.apply(Held(principal=ANN, jobs=(str(array.id),)))
        assert not state.index.successor, "no prefetched task starts after the hold"
        await until(controller, lambda: not state.index.active)
        await controller.apply(Released(principal=ANN, jobs=(str(array.id),)))
        await until(controller, lambda: all(job.is_finished for job in jobs.values()))
        members = state.array_members(array.id)
        assert sorted(job.array_task_id or 0 for job in members) == list(range(1, tasks + 1))
        assert {(job.state, job.restarts) for job in members} == {(JobState.COMPLETED, 0)}


async def test_a_controller_killed_among_short_tasks_runs_no_task_twice() -> None:
    rig = Rig(12)
    async with rig.controller() as controller:
        await ready(controller)
        array = await submit(controller, request(gpus=2, array=ArraySpec(ranges=((1, 300, 1),))))
        await until(controller, lambda: bool(controller.state.index.successor))
    for node in rig.nodes:
        node.up = True
    async with rig.controller() as controller:
        for known in controller.state.nodes.values():
            controller.fleet.connect(known)
        jobs = controller.state.jobs
        await until(controller, lambda: all(job.is_finished for job in jobs.values()))
        members = controller.state.array_members(array.id)
        assert [job.restarts for job in members] == [0] * 300
        assert all(job.state is JobState.COMPLETED for job in members)
