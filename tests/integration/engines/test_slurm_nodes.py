"""Nodes of a real Slurm: their reasons, and their state after an administrator has changed it."""

from __future__ import annotations

import asyncio
import os
import pwd
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing

import pytest
import pytest_asyncio
from tests.integration.engines.slurm_rig import NODE, commands_of, small_slurm
from tests.slurm_parity.peer.real_slurm import VERSIONS, RealSlurm
from tests.support.waiting import WAIT_S

from warpdeck.base.paths import Paths
from warpdeck.engines.slurm.engine import slurm_engine
from warpdeck.engines.slurm.nodes.nodes import SlurmNodes
from warpdeck.engines.slurm.settings import SlurmSettings
from warpdeck.model import NodeName
from warpdeck.ports.caller import Caller, Principal
from warpdeck.ports.engine import Engine
from warpdeck.protocol import requests as ask

pytestmark = [pytest.mark.slurm, pytest.mark.asyncio(loop_scope="module")]
ME = Caller(Principal(user=pwd.getpwuid(os.geteuid()).pw_name, uid=os.geteuid(), admin=True))


@pytest.fixture(scope="module", params=VERSIONS)
def slurm(request: pytest.FixtureRequest) -> Iterator[RealSlurm]:
    with small_slurm(request.param) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(slurm: RealSlurm, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    """A gateway that reads the nodes every two minutes only, as usual."""
    folder = tmp_path_factory.mktemp("nodes")
    (folder / "home").mkdir()
    settings = SlurmSettings(folder=str(folder / "shared"))
    commands = commands_of(slurm, folder)
    async with slurm_engine(
        Paths(str(folder / "home")), settings, clock=time.time, commands=commands
    ) as opened:
        yield opened


async def test_a_resumed_node_is_shown_as_usable_as_soon_as_slurm_says_so(
    engine: Engine, slurm: RealSlurm
) -> None:
    slurm.ok("scontrol", "update", f"node={NODE}", "state=down", "reason=fire")
    await engine.nodes.drain(ME, ask.NodeDrain(name=NODE, reason="smoke"))
    changes = engine.jobs.changes(ME, ask.Subscribe(topics=("nodes",)))
    states: list[str] = []
    async with asyncio.timeout(WAIT_S), aclosing(changes):
        async for build in changes:
            delta = await build()
            states += [row.state for row in delta.nodes]
            if delta.ready:
                await engine.nodes.resume(ME, ask.NodeResume(name=NODE))
            if states[-1:] == ["idle"]:
                break


@pytest.mark.parametrize(
    "reason",
    [
        "fan Comment=hot State=IDLE Extra=x",
        "x [root@2026-01-01T00:00:00] Comment=c",
        "State=IDLE",
        'd\u00e9j\u00e0 "quoted" ' + "z" * 300,
        "off  on = 1",
    ],
)
async def test_the_reason_of_a_node_is_told_as_it_was_given(engine: Engine, reason: str) -> None:
    row = await engine.nodes.drain(ME, ask.NodeDrain(name=NODE, reason=reason))
    assert (row.reason, row.comment, row.extra) == (" ".join(reason.split()), "", "")
    assert row.state == "drained" and row.reason_at is not None
    row = await engine.nodes.resume(ME, ask.NodeResume(name=NODE))
    assert not row.state.startswith("drain")


async def test_the_further_lines_of_a_reason_are_told(engine: Engine, slurm: RealSlurm) -> None:
    reason = "first\nNodeName=evil State=IDLE"
    slurm.ok("scontrol", "update", f"node={NODE}", "state=drain", f"reason={reason}")
    assert isinstance(engine.nodes, SlurmNodes)
    row = await engine.nodes.looks.look(NodeName(NODE))
    assert (row.state, row.reason) == ("drained", reason)
    row = await engine.nodes.resume(ME, ask.NodeResume(name=NODE))
    assert not row.state.startswith("drain")
