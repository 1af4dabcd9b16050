"""A job is submitted once, whenever the gateway, sbatch or slurmctld is killed, and when a disk is full."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.integration.engines.crash_site import ME, CrashSite, submit
from tests.integration.engines.killed_gateways import submission
from tests.integration.engines.slurm_rig import small_slurm
from tests.slurm_parity.peer.real_slurm import RealSlurm
from tests.support.home import temporary_home
from tests.support.waiting import eventually, eventually_async

from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.submitting.upkeep import Upkeep

POINTS = 40


@pytest.fixture(scope="module")
def slurm() -> Iterator[RealSlurm]:
    with small_slurm() as peer:
        yield peer


@pytest.fixture
def site(slurm: RealSlurm) -> Iterator[CrashSite]:
    with temporary_home() as home:
        home.path.mkdir()
        yield CrashSite(slurm, home)


@pytest.mark.slurm
async def test_a_gateway_that_is_killed_at_any_line_submits_each_job_once(site: CrashSite) -> None:
    with site.process() as process:
        lines = int(site.order(process, 0, "counted"))
        points = [1 + number * lines // POINTS for number in range(POINTS)]
        names = [f"killed-{point}" for point in points]
        ended = [site.order(process, point, name) for point, name in zip(points, names, strict=True)]
        assert process.stdin is not None
        process.stdin.close()
    assert ended.count("-9") >= POINTS - 2, ended
    async with site.gateway() as (made, submissions):
        ids = await asyncio.gather(*(submit(submissions, site, name) for name in names))
        assert len(set(ids)) == len(names)
        assert site.jobs() == sorted(["counted", *names])
        assert [await submit(submissions, site, name) for name in names] == ids
        stored = {job.id: job for job in await made.cluster.store.jobs(ids)}
        assert [stored[number].request.script for number in ids] == ["#!/bin/sh\ntrue\n"] * len(ids)
        assert [stored[number].request.name for number in ids] == names
        submissions.unsettled.update(submissions.folders.all())
        await Upkeep(submissions).settle_all()
        assert {folder.job_id() for folder in submissions.folders.all() if folder.is_settled()} >= set(ids)
        assert len(submissions.folders.all()) == len(names) + 1
    site.slurm.ok("scancel", "--user=root")


@pytest.mark.slurm
@pytest.mark.parametrize("position", ["before", "after"])
async def test_a_new_gateway_waits_for_the_sbatch_of_a_killed_one(site: CrashSite, position: str) -> None:
    fifo = site.folder / "fifo"
    os.mkfifo(fifo)
    pause = f"read -r line <{fifo}"
    # After the real sbatch has submitted, its answer is lost.
    site.use(pause if position == "before" else "exec >/dev/null", pause if position == "after" else "")
    name = f"paused-{position}"
    with site.process() as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps([0, name, f"nonce of {name}", True]) + "\n")
        process.stdin.flush()
        eventually((site.folder / "paused").exists, what="sbatch")
        if position == "after":
            eventually(lambda: site.count(name) == 1, what="the job")
        child = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
        os.kill(child, signal.SIGKILL)
        process.stdin.close()
        (site.folder / "paused").unlink()
        async with site.gateway() as (_, submissions):
            repeated = asyncio.create_task(submit(submissions, site, name))
            site.use("", "")
            other = await submit(submissions, site, "other")
            assert not repeated.done()
            fifo.write_text("go on\n")
            job = await repeated
            assert site.count(name) == 1 and job != other
            assert await submit(submissions, site, name) == job
    site.slurm.ok("scancel", "--user=root")


@pytest.mark.slurm
async def test_the_upkeep_completes_or_removes_what_a_killed_gateway_has_left(site: CrashSite) -> None:
    site.use("exit 137", "")
    async with site.gateway() as (_, submissions):
        message = submission(site.folder, "never", "n1")
        intent_only = asyncio.create_task(submissions.submit(ME, message))
        with pytest.raises(UserError):
            await intent_only
        assert submissions.folders.all() == []
    site.use("exec >/dev/null", "kill -9 $PPID")
    with site.process() as process:
        assert site.order(process, 0, "left") == "-9"
        assert process.stdin is not None
        process.stdin.close()
    async with site.gateway() as (made, submissions):
        [folder] = submissions.folders.all()
        assert not folder.is_settled()
        async with Upkeep(submissions).running():
            await eventually_async(folder.is_settled, what="the record")
        job_id = folder.job_id()
        assert job_id is not None
        job = await made.cluster.store.job(job_id)
        assert job is not None and job.request.script == "#!/bin/sh\ntrue\n"
        assert await submit(submissions, site, "left") == job_id
    assert site.count("left") == 1 and site.count("never") == 0
    site.slurm.ok("scancel", "--user=root")


@pytest.mark.slurm
async def test_a_refusal_of_slurm_leaves_nothing(site: CrashSite) -> None:
    async with site.gateway() as (_, submissions):
        message = submission(site.folder, "refused", "n2")
        changed = msgspec.structs.replace(message.request, partition="nowhere")
        with pytest.raises(UserError, match="Invalid partition name specified"):
            await submissions.submit(ME, msgspec.structs.replace(message, request=changed))
        assert submissions.folders.all() == []
        assert os.listdir(submissions.folders.path) == []
        # The nonce was not used up.
        assert (await submissions.submit(ME, message)).job_id
    site.slurm.ok("scancel", "--user=root")
