"""A job is submitted once if slurmctld is killed, and if Slurm has forgotten the job meanwhile."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from tests.integration.engines.crash_site import CrashSite, submit
from tests.integration.engines.slurm_rig import GRES, NODE, SITE, small_slurm
from tests.slurm_parity.peer.real_slurm import VERSIONS, RealSlurm
from tests.support.home import temporary_home
from tests.support.waiting import eventually, eventually_async

from warpdeck.base.errors import UNCERTAIN, UserError
from warpdeck.engines.slurm.submitting.job_folder import INTENT
from warpdeck.engines.slurm.submitting.upkeep import KEPT_S, Upkeep
from warpdeck.model import Snapshot


@pytest.fixture(scope="module", params=VERSIONS)
def slurm(request: pytest.FixtureRequest) -> Iterator[RealSlurm]:
    with small_slurm(request.param) as peer:
        yield peer


@pytest.fixture
def site(slurm: RealSlurm) -> Iterator[CrashSite]:
    with temporary_home() as home:
        home.path.mkdir()
        yield CrashSite(slurm, home)


@pytest.mark.slurm
async def test_a_slurmctld_that_is_down_gets_the_job_later(site: CrashSite) -> None:
    async with site.gateway() as (_, submissions):
        site.signal("KILL")
        with pytest.raises(UserError, match="Unable to contact slurm controller"):
            await submit(submissions, site, "down")
        assert submissions.folders.all() == []
        site.restart()
        assert await submit(submissions, site, "down")
    assert site.count("down") == 1
    site.slurm.ok("scancel", "--user=root")


@pytest.mark.slurm
async def test_a_slurmctld_that_is_killed_while_sbatch_waits_gets_the_job_once(site: CrashSite) -> None:
    async with site.gateway() as (_, submissions):
        site.signal("STOP")
        waiting = asyncio.create_task(submit(submissions, site, "stopped"))
        await eventually_async((site.folder / "paused").exists, what="sbatch")
        await eventually_async(lambda: site.is_waiting("sbatch"), what="a connection to slurmctld")
        site.signal("KILL")
        with pytest.raises(UserError) as uncertain:
            await waiting
        assert uncertain.value.code in (UNCERTAIN, "slurm_unreachable")
        site.restart()
        job = await submit(submissions, site, "stopped")
        assert await submit(submissions, site, "stopped") == job
    assert site.count("stopped") == 1
    site.slurm.ok("scancel", "--user=root")


@pytest.mark.slurm
@pytest.mark.parametrize("version", ["22.05", "26.05"])
async def test_a_job_that_slurm_forgot_is_found_in_the_accounting(version: str) -> None:
    peer = RealSlurm(f"MinJobAge=2\n{SITE}", nodes=(NODE,), gres=GRES, accounting=True, version=version)
    with peer as slurm, temporary_home() as home:
        home.path.mkdir()
        site = CrashSite(slurm, home)
        site.use("exec >/dev/null", "kill -9 $PPID")
        with site.process() as process:
            # Slurm accounts for a job from the moment on at which only the resources are missing.
            slurm.ok("sbatch", "--exclusive", "--output=/dev/null", "--wrap=sleep 600")
            eventually(
                lambda: "R" in slurm.ok("squeue", "-h", "-o", "%t"), what="the job that holds the node"
            )
            assert site.order(process, 0, "forgotten", hold=False) == "-9"
            assert process.stdin is not None
            process.stdin.close()
        eventually(lambda: "/run" in slurm.ok("sacct", "-n", "-X", "-o", "SubmitLine%400"), what="sacct")
        slurm.ok("scancel", "--name=forgotten")
        eventually(lambda: site.count("forgotten") == 0, what="slurmctld to forget the job")
        site.use("", "")
        async with site.gateway() as (made, submissions):
            job = await submit(submissions, site, "forgotten", hold=False)
            assert slurm.ok("sacct", "-n", "-X", "--name=forgotten", "-o", "JobID").split() == [str(job)]
            recorded = await made.cluster.store.job(job)
            assert recorded is not None and recorded.request.script == "#!/bin/sh\ntrue\n"


@pytest.mark.slurm
async def test_files_are_kept_as_long_as_a_job_needs_them(site: CrashSite) -> None:
    site.use("", "")
    async with site.gateway() as (made, submissions):
        done, waiting = await submit(submissions, site, "done"), await submit(submissions, site, "waiting")
        trees = {name: submissions.trees.path(made.cluster.uid, name * 40) for name in "abc"}
        for path in trees.values():
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb"):
                pass
        job = made.cluster.state.jobs[waiting]
        code = Snapshot(commit="c", tree="a" * 40, root="/")
        made.cluster.state.upsert_job(
            msgspec.structs.replace(job, request=msgspec.structs.replace(job.request, snapshot=code))
        )
        # The record of another gateway of this user, on another login node, knows the code of the waiting job.
        (folder,) = (each for each in submissions.folders.all() if each.job_id() == waiting)
        told = folder.intent()
        code = Snapshot(commit="d", tree="c" * 40, root="/")
        told = msgspec.structs.replace(
            told, requests=tuple(msgspec.structs.replace(each, snapshot=code) for each in told.requests)
        )
        Path(folder.file(INTENT)).write_bytes(msgspec.json.encode(told))
        site.slurm.ok("scancel", str(done))
        await eventually_async(lambda: made.cluster.state.jobs[done].is_finished, what="the end of the job")
        await Upkeep(submissions).clean()
        assert len(submissions.folders.all()) == 2 and all(map(os.path.exists, trees.values()))
        later = replace(submissions, clock=lambda: time.time() + KEPT_S + 60)
        await Upkeep(later).clean()
        assert [folder.job_id() for folder in submissions.folders.all()] == [waiting]
        assert [name for name, path in trees.items() if os.path.exists(path)] == ["a", "c"]
    site.slurm.ok("scancel", "--user=root")
