"""Waiting for job ends over the socket, and requests that wait for a task whose launch is revoked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support.core import ANN, make_request
from tests.support.served import Raw, Served, served

from warpdeck.controller.events.events import Cancelled, LaunchRevoked, Planned, Prefetch, Submitted
from warpdeck.engines.shared import subscriptions
from warpdeck.engines.shared.job_waits import JobWaits
from warpdeck.model import ArraySpec, Job, JobId, NodeName


async def array_of(site: Served, tasks: int) -> JobId:
    request = make_request(array=ArraySpec(ranges=((0, tasks - 1, 1),)))
    outcome = await site.controller.apply(Submitted(principal=ANN, request=request))
    assert outcome.job is not None
    return outcome.job.id


async def message_for(raw: Raw, number: int) -> dict[str, Any]:
    """Return all messages until that submission is done."""
    every: dict[str, list[Any]] = {"begun": [], "ended": [], "done": [], "unknown": []}
    while number not in every["done"]:
        message = await raw.next()
        if message["t"] == "ends":
            for key, some in every.items():
                some += message[key]
    return every


async def test_ends_are_paged_and_further_jobs_can_be_awaited(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "END_ROWS", 2)
    async with served(short_tmp / "home") as site:
        agent = await site.add_node("a")
        array = await array_of(site, 5)
        await site.until(lambda: len(site.fleet.launches) == 5)
        raw = await Raw.connect(site.paths)
        assert (await raw.request("await_ends", jobs=[], fields=["label"], begun=True))["t"] == "ok"
        raw.send("await_more", stream=1, jobs=[array, 4711])
        assert (await message_for(raw, 4711))["unknown"] == [4711]
        for launch in list(site.fleet.launches):
            await site.report("a", agent.begin((launch.job_id, 0)))
            await site.report("a", agent.end((launch.job_id, 0)))
        every = await message_for(raw, array)
        assert sorted(row["label"] for row in every["ended"]) == [f"{array}_{task}" for task in range(5)]
        assert every["unknown"] == []
        later = await Raw.connect(site.paths)
        later.send("await_ends", id=1, jobs=[array], fields=["label"])
        assert len((await message_for(later, array))["ended"]) == 5
        for each in (raw, later):
            each.writer.close()


async def test_a_request_waits_for_a_task_whose_launch_was_revoked(short_tmp: Path) -> None:
    async with served(short_tmp / "home") as site:
        agent = await site.add_node("a")
        array = await array_of(site, 40)
        state = site.controller.state
        await site.until(lambda: bool(site.fleet.launches))
        runs = next(job for job in state.jobs.values() if job.shares)
        await site.report("a", agent.begin((runs.id, 0)))
        task = state.jobs[array].pending_tasks[0][0]
        await site.controller.apply(
            Planned(prefetches=(Prefetch(job_id=array, after=runs.id, tasks=(task,)),))
        )
        handed = state.jobs[state.index.successor[runs.id]]

        def has_ended(job: Job) -> bool:
            return job.is_finished

        controller = site.controller
        waits = JobWaits(
            state=state,
            ends=controller.ends,
            hub=controller.hub,
            collector=controller.outputs,
            clock=controller.clock,
        )
        waiting = asyncio.create_task(waits.until(handed, has_ended))
        await asyncio.sleep(0)
        await site.controller.apply(LaunchRevoked(name=NodeName("a"), launches=((handed.id, 0),)))
        assert handed.id not in state.jobs and not waiting.done()
        await site.controller.apply(Cancelled(principal=ANN, jobs=(f"{array}_{task}",)))
        async with asyncio.timeout(30):
            assert (await waiting).label() == f"{array}_{task}"
