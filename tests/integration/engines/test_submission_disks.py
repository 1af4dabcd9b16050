"""A full disk loses no submission, and nothing is submitted that is not recorded."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from tests.integration.engines.crash_site import ME, CrashSite, submit
from tests.integration.engines.killed_gateways import submission
from tests.integration.engines.slurm_rig import small_slurm
from tests.support.home import temporary_home

from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.submitting.upkeep import Upkeep


@pytest.fixture
def site() -> Iterator[CrashSite]:
    """A site with a small file system for the files of jobs."""
    with temporary_home() as home:
        home.path.mkdir()
        shared = home.path.parent / "shared"
        shared.mkdir()
        # Slurm sees only what was mounted before it started.
        with mounted(shared, kib=64), small_slurm() as slurm:
            yield CrashSite(slurm, home)


@pytest.mark.slurm
async def test_a_full_disk_submits_nothing_that_is_not_recorded(site: CrashSite) -> None:
    async with site.gateway() as (_, submissions):
        message = submission(site.folder, "large", "n3")
        script = "#!/bin/sh\n" + "# a long script\n" * 6000
        request = msgspec.structs.replace(message.request, script=script)
        with pytest.raises(UserError, match="No space left on device"):
            await submissions.submit(ME, msgspec.structs.replace(message, request=request))
        assert site.jobs() == [] and os.listdir(submissions.folders.path) == []
        assert (await submissions.submit(ME, message)).job_id
        assert site.jobs() == ["large"]
    site.slurm.ok("scancel", "--user=root")


@pytest.mark.slurm
async def test_an_answer_that_finds_no_space_is_read_from_the_queue(site: CrashSite) -> None:
    site.use(f"cat /dev/zero >{site.folder}/shared/fill 2>/dev/null", "")
    async with site.gateway() as (_, submissions):
        job = await submit(submissions, site, "unanswered")
        assert site.jobs() == ["unanswered"]
        assert await submit(submissions, site, "unanswered") == job
    site.slurm.ok("scancel", "--user=root")


@pytest.mark.slurm
async def test_a_job_that_cannot_be_recorded_is_answered_with_a_note_and_recorded_later(
    site: CrashSite,
) -> None:
    with mounted(site.home.path, kib=1024):
        fill = site.home.path / "fill"
        async with site.gateway() as (made, submissions):
            with fill.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
                while True:
                    file.write(bytes(1024))
            name = "unrecorded" * 20
            message = submission(site.folder, name, "full")
            first = await submissions.submit(ME, message)
            assert "cannot record it now" in first.notes[0] and "full" in first.notes[0]
            assert site.jobs() == [name] and len(submissions.unsettled) == 1
            assert (await submissions.submit(ME, message)).job_id == first.job_id
            fill.unlink()
            await Upkeep(submissions).settle_all()
            assert submissions.unsettled == set()
            job = (await submissions.submit(ME, message)).job_id
            assert job == first.job_id and site.jobs() == [name]
            assert await made.cluster.store.job(job) is not None
    site.slurm.ok("scancel", "--user=root")


@contextmanager
def mounted(folder: Path, *, kib: int) -> Iterator[None]:
    """Mount a small file system of its own on the folder."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
