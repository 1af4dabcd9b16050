"""The database after a kill -9 of its process and the loss of its -wal file, of a part of it, or of the -shm file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from warpdeck.store import SqliteStore

COMMITS = """
import asyncio, os, sys, traceback
from warpdeck.model import Job, JobId, Request
from warpdeck.ports.store import Changes
from warpdeck.store import SqliteStore

def submission(number):
    request = Request(script=f"#!/bin/sh\\n# {number} " + "x" * 20_000)
    job = Job(id=JobId(number), array_job_id=JobId(number), request=request, user="ann", uid=1000)
    return Changes(requests=((job.id, request),), jobs=(job,), next_job_id=number + 1)

async def main():
    store = await SqliteStore.open(sys.argv[1])
    for number in range(1, 6):
        await store.commit(submission(number))
    await store._db.execute_fetchall("PRAGMA wal_checkpoint(TRUNCATE)")
    for number in range(6, 11):
        await store.commit(submission(number))
    print("committed", flush=True)
    await asyncio.Event().wait()

try:
    asyncio.run(main())
except BaseException:
    traceback.print_exc()
    os._exit(1)
"""
"""Jobs 1 to 5 are in the database file, jobs 6 to 10 only in the -wal file."""


@pytest.fixture
def killed(short_tmp: Path) -> Path:
    """Return the database of a process that was killed after its commits."""
    path = short_tmp / "state.db"
    with subprocess.Popen(
        [sys.executable, "-c", COMMITS, str(path)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None and child.stdout.readline() == "committed\n"
        child.kill()
    return path


async def loaded_ids(path: Path) -> tuple[list[int], int]:
    """Return the ids of all jobs after another start, and the next free id."""
    store = await SqliteStore.open(str(path))
    try:
        found = await store.load(finished_since_unix=0.0)
        assert all(job.request.script.startswith("#!/bin/sh") for job in found.jobs)
        assert not found.unreadable
        return [job.id for job in found.jobs], found.next_job_id
    finally:
        await store.close()


async def test_a_killed_process_loses_no_commit(killed: Path) -> None:
    assert await loaded_ids(killed) == (list(range(1, 11)), 11)


async def test_without_the_index_of_the_wal_nothing_is_lost(killed: Path) -> None:
    Path(f"{killed}-shm").unlink()
    assert await loaded_ids(killed) == (list(range(1, 11)), 11)


async def test_without_the_wal_the_state_of_the_last_checkpoint_is_whole(killed: Path) -> None:
    """The controller then meets launches of its agents that it does not know; `warpdeck recover` adopts them."""
    for suffix in ("-wal", "-shm"):
        Path(f"{killed}{suffix}").unlink()
    assert await loaded_ids(killed) == (list(range(1, 6)), 6)


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
async def test_a_cut_wal_leaves_whole_transactions(killed: Path, part: float) -> None:
    wal = f"{killed}-wal"
    os.truncate(wal, int(os.path.getsize(wal) * part))
    ids, next_id = await loaded_ids(killed)
    assert ids == list(range(1, next_id)) and 5 <= len(ids) < 10


async def test_damaged_pages_in_the_wal_leave_whole_transactions(killed: Path) -> None:
    size = os.path.getsize(f"{killed}-wal")
    with open(f"{killed}-wal", "r+b") as file:
        file.seek(size * 2 // 3)
        file.write(os.urandom(8192))
    ids, next_id = await loaded_ids(killed)
    assert ids == list(range(1, next_id)) and 5 <= len(ids) < 10
