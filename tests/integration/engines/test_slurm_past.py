"""The past of the nodes of a real Slurm, which slurmctld does not keep: it is what the gateways have seen."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from tests.integration.engines.rig import Rig
from tests.integration.engines.slurm_rig import NODE, commands_of, slurm_rig, small_slurm
from tests.slurm_parity.peer.real_slurm import RealSlurm
from tests.support.waiting import eventually_awaited

from warpdeck.base.paths import Paths
from warpdeck.engines.shared.past_nodes import NO_INDEXES
from warpdeck.engines.slurm.engine import slurm_engine
from warpdeck.engines.slurm.settings import SlurmSettings
from warpdeck.model import GpuRequest, Resources
from warpdeck.ports.caller import Caller, Principal
from warpdeck.ports.engine import Engine
from warpdeck.protocol import requests as ask
from warpdeck.protocol.node_rows import NodeEventRow, PastNodeRow

pytestmark = [pytest.mark.slurm, pytest.mark.asyncio(loop_scope="module")]
ME = Caller(Principal(user=pwd.getpwuid(os.geteuid()).pw_name, uid=os.geteuid(), admin=True))
SECOND_S = 1.0
"""Precision of Slurm's times."""


@pytest.fixture(scope="module")
def slurm() -> Iterator[RealSlurm]:
    with small_slurm() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(slurm: RealSlurm) -> AsyncIterator[Rig]:
    async for made in slurm_rig(slurm):
        yield made


@asynccontextmanager
async def gateway(slurm: RealSlurm, folder: Path) -> AsyncIterator[Engine]:
    """Run a gateway with the record in this folder."""
    (folder / "home").mkdir(exist_ok=True)
    settings = SlurmSettings(folder=str(folder / "shared"))
    commands = commands_of(slurm, folder)
    async with slurm_engine(
        Paths(str(folder / "home")), settings, clock=time.time, commands=commands
    ) as engine:
        yield engine


async def events(engine: Engine, since: float) -> list[NodeEventRow]:
    told = await engine.nodes.timeline(ME, ask.NodeTimeline(since=since, until=time.time() + 60))
    return [event for event in told.events if event.node == NODE and event.kind != "job"]


async def past(engine: Engine, at: float) -> PastNodeRow:
    rows = await engine.nodes.past(ME, ask.NodesAt(at=at, name=NODE))
    [row] = rows[0 : len(rows)]
    return row


async def test_an_administrators_drain_is_found_by_the_usual_looks(rig: Rig, slurm: RealSlurm) -> None:
    since = time.time()

    async def kinds() -> list[str]:
        return [event.kind for event in await events(rig.engine, since)]

    async def is_told(*wanted: str) -> bool:
        return await kinds() == list(wanted)

    slurm.ok("scontrol", "update", f"node={NODE}", "state=drain", "reason=a fan Comment=hot")
    ordered = time.time()
    await eventually_awaited(lambda: is_told("drain"), what="the drain")
    slurm.ok("scontrol", "update", f"node={NODE}", "state=resume")
    await eventually_awaited(lambda: is_told("drain", "resume"), what="the end of the drain")
    drain, resume = await events(rig.engine, since)
    assert (drain.text, drain.user) == ("a fan Comment=hot", ME.who.user)
    assert since <= drain.at <= ordered + SECOND_S < resume.at + SECOND_S
    assert (await past(rig.engine, drain.at)).state.startswith("drain")
    assert (await past(rig.engine, resume.at)).state == "idle"


async def test_a_restarted_gateway_knows_the_past_and_the_time_of_a_drain_that_it_has_missed(
    slurm: RealSlurm, tmp_path: Path
) -> None:
    since = time.time()
    async with gateway(slurm, tmp_path) as engine:
        row = await engine.nodes.drain(ME, ask.NodeDrain(name=NODE, reason="first"))
        assert row.state == "drained"
        await engine.nodes.resume(ME, ask.NodeResume(name=NODE))
        before = await events(engine, since)
        assert [(event.kind, event.text) for event in before] == [("drain", "first"), ("resume", "")]
    slurm.ok("scontrol", "update", f"node={NODE}", "state=drain", "reason=second")
    missed = time.time()
    async with gateway(slurm, tmp_path) as engine:
        after = await events(engine, since)
        assert after[:2] == before
        [drain] = after[2:]
        assert (drain.kind, drain.text) == ("drain", "second")
        assert before[-1].at < drain.at <= missed + SECOND_S
        row = await past(engine, drain.at)
        assert (row.state, row.reason) == ("drained", "second")
        assert (await past(engine, before[-1].at)).state == "idle"
        await engine.nodes.resume(ME, ask.NodeResume(name=NODE))


async def test_a_past_node_shows_the_jobs_that_held_its_gpus(rig: Rig) -> None:
    job = await rig.running(resources=Resources(gpus=GpuRequest(per_node=2)))

    async def holders() -> list[int]:
        row = await past(rig.engine, time.time())
        return [gpu.index for gpu in row.gpus if gpu.job == job]

    # The gateway reads the indexes a moment after the start.
    held = await eventually_awaited(holders, what="the GPUs of the job")
    ran_at = (
        await rig.detail(job)
    ).row.start  # Slurm's times have no fractions, so the job may end before now.
    assert ran_at is not None
    await rig.cancel(job)
    await rig.reached(job)
    row = await past(rig.engine, ran_at)
    assert [gpu.index for gpu in row.gpus if gpu.job == job] == held and len(held) == 2
    assert row.jobs == [job] and row.unknown and NO_INDEXES not in row.untold
    told = await rig.engine.nodes.timeline(ME, ask.NodeTimeline(since=ran_at - 1, until=time.time(), steps=1))
    assert told.gpus == len(row.gpus)
    assert 0 <= told.allocated[0] <= 2
