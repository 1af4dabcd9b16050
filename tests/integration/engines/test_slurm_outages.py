"""A gateway while slurmctld, munge or the disk fails: nothing is lost, and the problem is told."""

from __future__ import annotations

import asyncio
import shlex
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path

import pytest
import pytest_asyncio
from tests.integration.engines.rig import Rig, labels
from tests.integration.engines.slurm_rig import OFTEN, commands_of, slurm_rig, small_slurm
from tests.slurm_parity.peer.real_slurm import PORT, RealSlurm
from tests.support.waiting import WAIT_S, eventually_async

from warpdeck.base.paths import Paths
from warpdeck.engines.slurm.commands import COMMAND_S
from warpdeck.engines.slurm.engine import slurm_engine
from warpdeck.engines.slurm.settings import SlurmSettings
from warpdeck.model import Request
from warpdeck.ports.caller import Caller, Principal
from warpdeck.ports.engine import Engine
from warpdeck.protocol import requests as ask
from warpdeck.protocol.job_rows import JobRow

pytestmark = pytest.mark.slurm


OUTAGE_S = 2 * COMMAND_S + WAIT_S
"""squeue itself tries again for up to a minute, or is ended after `COMMAND_S`. A second one may be running."""
MUNGE_FILES = {
    "socket": "munge.sock",
    "key-file": "munge/key",
    "pid-file": "munged.pid",
    "log-file": "munge/log",
    "seed-file": "munge/seed",
}
"""Options of munged as tests/slurm_parity/peer/slurm.sh gives them."""
RESETS = """
import os, socket, struct, sys
with open(sys.argv[2], "w") as pid:
    pid.write(str(os.getpid()))
with socket.create_server(("", int(sys.argv[1]))) as server:
    while True:
        client, _ = server.accept()
        client.recv(1)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
"""
"""A program that resets each connection, as the kernel does for a slurmctld that was killed while it answered."""


def pid_of(slurm: RealSlurm, daemon: str) -> str:
    return (slurm.folder / f"{daemon}.pid").read_text().strip()


def signal(slurm: RealSlurm, daemon: str, name: str) -> None:
    assert slurm.run(["kill", f"-{name}", pid_of(slurm, daemon)]).rc == 0


def start_again(slurm: RealSlurm) -> None:
    """Start slurmctld after it was killed, with its saved state."""
    assert slurm.run(["sh", "-c", "setsid slurmctld -D >/dev/null 2>&1 </dev/null &"]).rc == 0


@pytest.mark.asyncio(loop_scope="class")
class TestOutages:
    """The tests share one Slurm and one gateway, and leave both in order."""

    @pytest.fixture(scope="class")
    def slurm(self) -> Iterator[RealSlurm]:
        with small_slurm() as running:
            yield running

    @pytest_asyncio.fixture(scope="class", loop_scope="class")
    async def rig(self, slurm: RealSlurm) -> AsyncIterator[Rig]:
        async for made in slurm_rig(slurm):
            yield made

    async def labels(self, rig: Rig) -> list[str]:
        rows = await rig.engine.jobs.rows(rig.user, ask.Jobs())
        return labels(rows[0 : len(rows)])

    async def until_read_after(self, rig: Rig, begun: float) -> None:
        def state() -> str:
            about = rig.engine.site.about()
            return about.problem if (about.read_at or 0) > begun else "the queue is old"

        await eventually_async(
            lambda: not state(), timeout_s=OUTAGE_S, what=lambda: f"the queue is read again: {state()}"
        )

    async def test_a_killed_slurmctld_is_told_and_the_last_picture_stays(
        self, slurm: RealSlurm, rig: Rig
    ) -> None:
        slurm.ok("sbatch", "--hold", "--job-name=kept", "--wrap=true")
        await eventually_async(lambda: rig.engine.site.summary().jobs.get("PENDING") == 1)
        before = await self.labels(rig)
        signal(slurm, "slurmctld", "KILL")
        try:
            await eventually_async(
                lambda: rig.engine.site.about().problem != "", timeout_s=OUTAGE_S, what="the problem is told"
            )
            assert "slurmctld" in rig.engine.site.about().problem
            assert await self.labels(rig) == before, "the picture stays"
        finally:
            begun = time.time()
            start_again(slurm)
        await self.until_read_after(rig, begun)
        assert await self.labels(rig) == before

    async def test_a_slurmctld_that_ends_while_it_answers_is_told(self, slurm: RealSlurm, rig: Rig) -> None:
        signal(slurm, "slurmctld", "KILL")
        words = shlex.join([sys.executable, "-c", RESETS, str(PORT), f"{slurm.folder}/resets.pid"])
        assert slurm.run(["sh", "-c", f"setsid {words} >/dev/null 2>&1 </dev/null &"]).rc == 0
        try:
            await eventually_async(
                lambda: "Connection reset by peer" in rig.engine.site.about().problem,
                timeout_s=OUTAGE_S,
                what=lambda: f"the reset is told: {rig.engine.site.about().problem}",
            )
            assert "slurmctld has ended" in rig.engine.site.about().problem
        finally:
            signal(slurm, "resets", "KILL")
            begun = time.time()
            start_again(slurm)
        await self.until_read_after(rig, begun)

    async def test_a_client_stays_quick_while_slurmctld_hangs(self, slurm: RealSlurm, rig: Rig) -> None:
        signal(slurm, "slurmctld", "STOP")
        slowest = 0.0
        try:
            for _ in range(30):
                begun = time.monotonic()
                await self.labels(rig)
                slowest = max(slowest, time.monotonic() - begun)
                await asyncio.sleep(0.1)
        finally:
            signal(slurm, "slurmctld", "CONT")
        assert slowest < 0.5
        await self.until_read_after(rig, time.time())

    async def test_a_killed_munge_is_told(self, slurm: RealSlurm, rig: Rig) -> None:
        signal(slurm, "munged", "KILL")
        site = rig.engine.site
        await eventually_async(
            lambda: "munge" in site.about().problem, timeout_s=OUTAGE_S, what="the problem is told"
        )
        begun, folder = time.time(), slurm.folder
        options = [f"--{name}={folder}/{path}" for name, path in MUNGE_FILES.items()]
        words = shlex.join(["munged", "--foreground", "--force", *options])
        assert slurm.run(["sh", "-c", f"setsid {words} >/dev/null 2>&1 </dev/null &"]).rc == 0
        await self.until_read_after(rig, begun)

    async def test_a_subscriber_is_told_the_problem_and_its_end(self, slurm: RealSlurm, rig: Rig) -> None:
        changes = rig.engine.jobs.changes(rig.user, ask.Subscribe())
        killed = ended = False
        async with asyncio.timeout(2 * OUTAGE_S), aclosing(changes):
            async for build in changes:
                delta = await build()
                if delta.ready:
                    signal(slurm, "slurmctld", "KILL")
                    killed = True
                if killed and delta.engine.problem and not ended:
                    start_again(slurm)
                    ended = True
                if ended and not delta.engine.problem:
                    break


async def test_a_gateway_completes_its_record_when_it_starts_again(tmp_path: Path) -> None:
    """A job ends while no gateway runs, and another one is started."""
    home = tmp_path / "home"
    home.mkdir()
    me = Caller(Principal(user="root", uid=0))

    async def states(engine: Engine) -> dict[str, str]:
        rows = await engine.jobs.rows(me, ask.Jobs(finished=True))
        return {row.label: row.state for row in rows[0:10] if isinstance(row, JobRow)}

    with small_slurm() as slurm:
        settings = SlurmSettings(requests_per_minute=OFTEN, folder=str(tmp_path / "shared"))
        commands = commands_of(slurm, tmp_path)

        def opened() -> AbstractAsyncContextManager[Engine]:
            return slurm_engine(Paths(str(home)), settings, clock=time.time, commands=commands)

        async with opened() as engine:
            request = Request(script="#!/bin/sh\nexit 5\n", submit_dir=str(tmp_path), hold=True)
            made = await engine.submissions.submit(me, ask.Submit(request=request))
            assert await states(engine) == {made.label: "PENDING"}
        slurm.ok("scontrol", "release", made.label)
        await eventually_async(lambda: "F" in slurm.ok("squeue", "-h", "-t", "all", "-o", "%t"))
        async with opened() as engine:
            assert await states(engine) == {made.label: "FAILED"}
            detail = await engine.jobs.detail(me, ask.JobInfo(job=made.label))
            assert (detail.script, detail.row.exit_code) == ("#!/bin/sh\nexit 5\n", "5:0")
