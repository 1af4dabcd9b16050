"""Subscriptions: the applied deltas equal a new query; a slow reader gets fewer, larger updates, and others
are not affected.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.core import ANN, Agent, make_request
from tests.support.served import Raw, Served, served
from tests.support.waiting import WAIT_S

from warpdeck.controller.events.events import (
    Cancelled,
    Held,
    NodeDrained,
    NodeLost,
    NodeRemoved,
    NodeResumed,
    NodeUp,
    Released,
    Requeued,
    Submitted,
)
from warpdeck.model import ArraySpec, JobState, NodeName
from warpdeck.protocol import requests
from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.node_rows import NodeRow


class Mirror:
    """A subscriber's copy of the data."""

    def __init__(self) -> None:
        self.jobs: dict[int, JobRow] = {}
        self.nodes: dict[str, NodeRow] = {}
        self.ready = False
        self.changed = asyncio.Event()

    def take(self, delta: dict[str, Any]) -> None:
        for row in msgspec.convert(delta["jobs"], list[JobRow]):
            self.jobs[row.id] = row
        for node in msgspec.convert(delta["nodes"], list[NodeRow]):
            self.nodes[node.name] = node
        for number in delta["gone_jobs"]:
            self.jobs.pop(number, None)
        for name in delta["gone_nodes"]:
            self.nodes.pop(name, None)
        self.ready = self.ready or delta["ready"]
        self.changed.set()


async def follow(raw: Raw, mirror: Mirror) -> None:
    """Apply deltas forever."""
    raw.send("subscribe", id=1)
    while True:
        message = await raw.next()
        if message["t"] == "delta":
            mirror.take(message)


async def fresh(site: Served) -> Mirror:
    """Return the answer to a new query."""
    mirror = Mirror()
    async with await site.client() as client:
        mirror.jobs = {row.id: row for row in (await client.ask(requests.Jobs(finished=True))).jobs}
        mirror.nodes = {row.name: row for row in (await client.ask(requests.Nodes())).nodes}
    return mirror


async def agrees(site: Served, mirror: Mirror) -> None:
    """Wait until the copy equals the data; AssertionError if it never does."""
    async with asyncio.timeout(WAIT_S):
        while True:
            mirror.changed.clear()
            now = await fresh(site)
            if mirror.ready and (mirror.jobs, mirror.nodes) == (now.jobs, now.nodes):
                return
            await mirror.changed.wait()


@pytest.mark.parametrize("seed", range(3))
async def test_deltas_equal_a_fresh_snapshot_at_any_time(short_tmp: Path, seed: int) -> None:
    rng, mirror = random.Random(seed), Mirror()
    async with served(short_tmp / "h") as site:
        agents = [await site.add_node(name) for name in ("a", "b")]
        raw = await Raw.connect(site.paths)
        task = asyncio.get_running_loop().create_task(follow(raw, mirror))
        for _ in range(6):
            for _ in range(12):
                await something(site, agents, rng)
            await agrees(site, mirror)
        task.cancel()
        await asyncio.wait([task])
        await raw.close()


async def something(site: Served, agents: list[Agent], rng: random.Random) -> None:
    """Run one random event."""
    control, agent = site.controller, rng.choice(agents)
    name = (str(rng.randint(1, 8)),)
    match rng.randint(0, 8):
        case 0 | 1:
            array = ArraySpec(ranges=((0, 3, 1),)) if rng.random() < 0.3 else None
            await control.apply(
                Submitted(principal=ANN, request=make_request(gpus=rng.randint(0, 3), array=array))
            )
        case 2:
            kind = rng.choice((Cancelled, Held, Released, Requeued))
            await control.apply(kind(principal=ANN, jobs=name))
        case 3:
            await control.apply(NodeLost(name=agent.name, reason="cut"))
        case 4:
            await control.apply(NodeUp(name=agent.name, welcome=agent.welcome()))
        case 5:
            await control.apply(NodeDrained(name=agent.name, reason="fan"))
        case 6:
            await control.apply(NodeResumed(name=agent.name))
        case _:
            await nodes_work(site, agents, rng)


async def nodes_work(site: Served, agents: list[Agent], rng: random.Random) -> None:
    """Start the launched jobs, and end some of them."""
    for job in list(site.controller.state.jobs.values()):
        for share in job.shares if job.holds_resources else ():
            agent = next(each for each in agents if each.name == share.node)
            launch = (job.id, job.restarts)
            ends = job.state is JobState.COMPLETING or rng.random() < 0.3
            message = agent.end(launch) if ends else agent.begin(launch)
            await site.report(agent.name, message)


async def test_a_removed_node_is_reported_as_gone(short_tmp: Path) -> None:
    mirror = Mirror()
    async with served(short_tmp / "h") as site:
        await site.add_node("a")
        raw = await Raw.connect(site.paths)
        task = asyncio.get_running_loop().create_task(follow(raw, mirror))
        await agrees(site, mirror)
        assert list(mirror.nodes) == ["a"]
        await site.controller.apply(NodeRemoved(name=NodeName("a")))
        await agrees(site, mirror)
        assert mirror.nodes == {}
        task.cancel()
        await asyncio.wait([task])
        await raw.close()


async def test_a_slow_reader_delays_no_others_and_gets_merged_deltas(short_tmp: Path) -> None:
    quick, slow = Mirror(), Mirror()
    async with served(short_tmp / "h") as site:
        for number in range(400):
            request = make_request(f"{number}" + "x" * 1000, hold=True)
            await site.controller.apply(Submitted(principal=ANN, request=request))
        deaf, good = await Raw.connect(site.paths), await Raw.connect(site.paths)
        deaf.send("subscribe", id=1)
        task = asyncio.get_running_loop().create_task(follow(good, quick))
        await site.until(lambda: len(site.controller.hub.listeners) >= 2)
        jobs = tuple(str(number) for number in range(1, 401))
        for turn in range(60):
            kind = Released if turn % 2 else Held
            await site.controller.apply(kind(principal=ANN, jobs=jobs))
        await site.controller.apply(Cancelled(principal=ANN, jobs=jobs))
        await agrees(site, quick)
        for connection in site.server.connections:
            assert connection.unread_bytes < 16 * 2**20
        task.cancel()
        await asyncio.wait([task])
        while len(slow.jobs) < 400 or any(row.state != "CANCELLED" for row in slow.jobs.values()):
            message = await deaf.next()
            if message["t"] == "delta":
                slow.take(message)
        assert slow.jobs == quick.jobs
        await deaf.close()
        await good.close()
