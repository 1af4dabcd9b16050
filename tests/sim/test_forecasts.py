"""Forecasts come true. A client requests them from the real controller over simulated nodes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from tests.support.core import make_request
from tests.support.waiting import eventually_async

from warpdeck.base.paths import Paths
from warpdeck.client.asyncio_client import AsyncioClient
from warpdeck.controller.loop.controller import Controller
from warpdeck.model import Job, JobId, JobState, NodeName, Request
from warpdeck.notation.values.durations import parse_limit
from warpdeck.protocol.requests import DryRun, Forecast, Submit
from warpdeck.sim.clock import SimClock
from warpdeck.sim.demo import simulated
from warpdeck.sim.fleet import SimNode
from warpdeck.store import MemoryStore

HOUR_S = 3600.0
SLACK_S = 60.0
"""Time that a busy machine and the start of a simulated job may take."""


class Cluster:
    """One node of four GPUs, its controller and a client. Jobs run until their time limit."""

    def __init__(self, controller: Controller, client: AsyncioClient, clock: SimClock) -> None:
        self.controller = controller
        self.client = client
        self.clock = clock

    async def submit(self, request: Request) -> JobId:
        return JobId((await self.client.ask(Submit(request=request))).job_id)

    def job(self, job_id: JobId) -> Job:
        return self.controller.state.jobs[job_id]

    async def runs(self, job_id: JobId) -> Job:
        await eventually_async(lambda: self.job(job_id).state is JobState.RUNNING, what=f"job {job_id} runs")
        return self.job(job_id)

    async def is_explained(self, job_id: JobId) -> None:
        await eventually_async(
            lambda: job_id in self.controller.state.planned.pending_reasons, what=f"job {job_id} is explained"
        )


@asynccontextmanager
async def one_node(folder: Path) -> AsyncIterator[Cluster]:
    paths, clock = Paths(str(folder / "h")), SimClock(behind_s=24 * HOUR_S)
    (folder / "h").mkdir(mode=0o700)
    cluster = simulated(
        paths,
        [SimNode(NodeName("gpu1"), gpus=4, cpus=16)],
        store=MemoryStore(),
        rng=random.Random(1),
        clock=clock,
        run_time=lambda launch: (float(launch.time_limit_s or HOUR_S), 0),
        stop=asyncio.Event(),
    )
    async with cluster as (controller, server):
        await server.start()
        async with await AsyncioClient.connect(paths, start=False) as client:
            yield Cluster(controller, client, clock)


async def test_a_job_starts_at_the_time_of_its_dry_run(short_tmp: Path) -> None:
    async with one_node(short_tmp) as cluster:
        await cluster.runs(await cluster.submit(make_request("first", gpus=4, time_limit_s=7200)))
        request = make_request("asked", gpus=4, time_limit_s=600)
        answer = await cluster.client.ask(DryRun(request=request))
        assert answer.verdict == "later" and answer.expected_start is not None
        job_id = await cluster.submit(request)
        await cluster.is_explained(job_id)
        cluster.clock.jump(answer.expected_start - cluster.clock.now() - SLACK_S)
        assert cluster.job(job_id).state is JobState.PENDING
        cluster.clock.jump(SLACK_S)
        started = (await cluster.runs(job_id)).start_at_unix
        assert started is not None and abs(started - answer.expected_start) < SLACK_S


@pytest.mark.parametrize("limit_s", [None, 8 * 3600])
async def test_a_suggested_time_limit_starts_the_job_now(short_tmp: Path, limit_s: int | None) -> None:
    async with one_node(short_tmp) as cluster:
        await cluster.runs(await cluster.submit(make_request("half", gpus=2, time_limit_s=7200)))
        head = await cluster.submit(make_request("head", gpus=4, time_limit_s=600))
        await cluster.is_explained(head)
        request = make_request("asked", gpus=2, time_limit_s=limit_s)
        answer = await cluster.client.ask(DryRun(request=request))
        assert answer.verdict == "later" and [each.label for each in answer.leaders] == [str(head)]
        shorter = next(change for change in answer.changes if "--time=" in change).partition("--time=")[2]
        changed = msgspec.structs.replace(request, time_limit_s=parse_limit(shorter))
        assert (await cluster.client.ask(DryRun(request=changed))).verdict == "now"
        unchanged, shortened = await cluster.submit(request), await cluster.submit(changed)
        await cluster.runs(shortened)
        assert cluster.job(unchanged).state is JobState.PENDING
        why = await cluster.client.ask(Forecast(job=str(unchanged)))
        assert why.verdict == "later" and why.job == str(unchanged)


async def test_many_dry_runs_at_once_are_all_answered(short_tmp: Path) -> None:
    async with one_node(short_tmp) as cluster:
        await cluster.runs(await cluster.submit(make_request("all", gpus=4, time_limit_s=7200)))
        requests = [
            cluster.client.ask(DryRun(request=make_request(gpus=1 + number % 4, time_limit_s=600)))
            for number in range(20)
        ]
        found = await asyncio.gather(*requests)
        assert {each.verdict for each in found} == {"later"}
        assert len(cluster.controller.state.jobs) == 1
