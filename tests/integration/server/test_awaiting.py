"""Waiting for job ends over the socket, and requests that wait for a task whose launch is revoked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support.core import ANN, make_request
from tests.support.served import Raw, Served, served

from warpdeck.controller.events.events import Ahead, Cancelled, LaunchRevoked, Planned, Submitted
from warpdeck.model import ArraySpec, Job, JobId, NodeName
from warpdeck.server import end_subscriptions
from warpdeck.server.end_subscriptions import wait_for


async def array_of(site: Served, tasks: int) -> JobId:
    request = make_request(array=ArraySpec(ranges=((0, tasks - 1, 1),)))
    outcome = await site.controller.apply(Submitted(who=ANN, request=request))
    assert outcome.job is not None
    return outcome.job.id


async def told(raw: Raw, number: int) -> dict[str, Any]:
    """Return all messages until that submission is done."""
    every: dict[str, list[Any]] = {"begun": [], "ended": [], "done": [], "unknown": []}
    while number not in every["done"]:
        message = await raw.next()
        if message["t"] == "ends":
            for key, some in every.items():
                some += message[key]
    return every


async def test_ends_come_in_pages_and_more_may_be_waited_for(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(end_subscriptions, "PAGE_ROWS", 2)
    async with served(short_tmp / "home") as site:
        agent = await site.add_node("a")
        array = await array_of(site, 5)
        await site.until(lambda: len(site.fleet.launches) == 5)
        raw = await Raw.connect(site.paths)
        assert (await raw.request("await_ends", jobs=[], fields=["label"], begun=True))["t"] == "ok"
        raw.send("await_more", stream=1, jobs=[array, 4711])
        assert (await told(raw, 4711))["unknown"] == [4711]
        for launch in list(site.fleet.launches):
            await site.report("a", agent.begin((launch.job_id, 0)))
            await site.report("a", agent.end((launch.job_id, 0)))
        every = await told(raw, array)
        assert sorted(row["label"] for row in every["ended"]) == [f"{array}_{task}" for task in range(5)]
        assert every["unknown"] == []
        again = await Raw.connect(site.paths)
        again.send("await_ends", id=1, jobs=[array], fields=["label"])
        assert len((await told(again, array))["ended"]) == 5
        for each in (raw, again):
            each.writer.close()


class Quiet:
    """The connection of a waiting request."""

    def __init__(self, site: Served) -> None:
        self.server = site.server

    async def progress(self, number: int, line: str) -> None:
        return None


async def test_a_request_follows_a_task_that_is_taken_back(short_tmp: Path) -> None:
    async with served(short_tmp / "home") as site:
        agent = await site.add_node("a")
        array = await array_of(site, 40)
        state = site.controller.state
        await site.until(lambda: bool(site.fleet.launches))
        runs = next(job for job in state.jobs.values() if job.shares)
        await site.report("a", agent.begin((runs.id, 0)))
        task = state.jobs[array].pending_tasks[0][0]
        await site.controller.apply(Planned(aheads=(Ahead(job_id=array, behind=runs.id, tasks=(task,)),)))
        handed = state.jobs[state.index.follower[runs.id]]

        def has_ended(job: Job) -> bool:
            return job.is_finished

        waits = asyncio.create_task(wait_for(Quiet(site), handed, has_ended))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        await site.controller.apply(LaunchRevoked(name=NodeName("a"), launches=((handed.id, 0),)))
        assert handed.id not in state.jobs and not waits.done()
        await site.controller.apply(Cancelled(who=ANN, jobs=(f"{array}_{task}",)))
        async with asyncio.timeout(30):
            assert (await waits).label() == f"{array}_{task}"
