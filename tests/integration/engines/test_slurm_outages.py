"""A gateway while slurmctld, munge or the disk fails: nothing is lost, and the problem is told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing

import pytest
import pytest_asyncio
from tests.integration.engines.contract import Rig, labels
from tests.integration.engines.slurm_rig import slurm_rig, small_slurm
from tests.slurm_parity.peer.real_slurm import RealSlurm
from tests.support.waiting import eventually_async

from warpdeck.protocol import requests as ask

pytestmark = [pytest.mark.slurm, pytest.mark.asyncio(loop_scope="class")]


def pid_of(slurm: RealSlurm, daemon: str) -> str:
    return (slurm.folder / f"{daemon}.pid").read_text().strip()


def signal(slurm: RealSlurm, daemon: str, name: str) -> None:
    assert slurm.run(["kill", f"-{name}", pid_of(slurm, daemon)]).rc == 0


def start_again(slurm: RealSlurm) -> None:
    """Start slurmctld after it was killed, with its saved state."""
    assert slurm.run(["sh", "-c", "setsid slurmctld -D >/dev/null 2>&1 </dev/null &"]).rc == 0


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
        site = rig.engine.site
        await eventually_async(
            lambda: (site.about().read_at or 0) > begun and not site.about().problem,
            what="the queue is read again",
        )

    async def test_a_killed_slurmctld_is_told_and_the_last_picture_stays(
        self, slurm: RealSlurm, rig: Rig
    ) -> None:
        slurm.ok("sbatch", "--hold", "--job-name=kept", "--wrap=true")
        await eventually_async(lambda: rig.engine.site.summary().jobs.get("PENDING") == 1)
        before = await self.labels(rig)
        signal(slurm, "slurmctld", "KILL")
        await eventually_async(lambda: rig.engine.site.about().problem != "", what="the problem is told")
        assert "slurmctld" in rig.engine.site.about().problem
        assert await self.labels(rig) == before, "the picture stays"
        begun = time.time()
        start_again(slurm)
        await self.until_read_after(rig, begun)
        assert await self.labels(rig) == before

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

    async def test_a_stopped_munge_is_told(self, slurm: RealSlurm, rig: Rig) -> None:
        signal(slurm, "munged", "STOP")
        begun = time.time()
        signal(slurm, "munged", "CONT")
        await self.until_read_after(rig, begun)

    async def test_a_subscriber_is_told_the_problem_and_its_end(self, slurm: RealSlurm, rig: Rig) -> None:
        changes = rig.engine.jobs.changes(rig.user, ask.Subscribe())
        killed = ended = False
        async with asyncio.timeout(120), aclosing(changes):
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

    async def test_a_job_that_ends_while_nobody_could_look_is_seen_to_end(
        self, slurm: RealSlurm, rig: Rig
    ) -> None:
        job = slurm.ok("sbatch", "--parsable", "--output=/dev/null", "--wrap=sleep 3; exit 5").strip()
        await eventually_async(lambda: rig.engine.site.summary().jobs.get("RUNNING") == 1)
        signal(slurm, "slurmctld", "KILL")
        await asyncio.sleep(4)  # The job ends in this time.
        start_again(slurm)
        await rig.reached(job)
        row = (await rig.detail(job)).row
        assert (row.state, row.exit_code) == ("FAILED", "5:0")
