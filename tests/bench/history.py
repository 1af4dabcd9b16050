"""How fast sacct answers over a million ended jobs: one user's last day, and a named job of long ago."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

from warpdeck.controller.ports import Changes
from warpdeck.model import Allocation, ExitStatus, Job, JobId, JobState, NodeName, Request, Share, ShareStatus
from warpdeck.store import SqliteStore

from .rig import Rig
from .table import Line, Table, timed

ENDED = 1_000_000
USERS = 500
OWNER = "daemon"
"""One of them is known to the machine, because sacct refuses users that are not."""
DAYS = 200
"""So a user's day has ten jobs."""
BATCH = 20_000
RUNS = 15
DAY = Line(f"`sacct` of a user's last day, {ENDED:,} jobs", "ms", budget=200)
OLD = Line(f"`sacct -j`, {ENDED:,} jobs", "ms", budget=200)


def measure(table: Table, rig: Rig) -> None:
    """Fills the controller's database while it is down."""
    rig.hang_up()
    rig.home.ok("down")
    first = asyncio.run(_fill(rig.home.path / "state.db"))
    rig.home.ok("up")
    rig.wait_for_nodes()
    table.add(DAY, timed(lambda: _sacct(rig, "-u", OWNER, "-S", "now-1day"), RUNS))
    table.add(OLD, timed(lambda: _sacct(rig, "-j", str(first + 1000)), RUNS))


def _sacct(rig: Rig, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "warpdeck.slurm.main", "sacct", "-n", *words],
        env=rig.home.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and done.stdout, done.stderr


async def _fill(database: Path) -> int:
    store = await SqliteStore.open(str(database))
    now = time.time()
    first = (await store.load(finished_since_unix=now)).next_job_id
    for start in range(0, ENDED, BATCH):
        jobs = [_job(JobId(first + number), number, now) for number in range(start, start + BATCH)]
        requests = tuple((job.id, job.request) for job in jobs)
        await store.commit(Changes(requests=requests, jobs=tuple(jobs), next_job_id=first + start + BATCH))
    await store.close()
    return first


def _job(job_id: JobId, number: int, now: float) -> Job:
    """Oldest first; users take turns."""
    ended = now - 7200 - DAYS * 86_400 * (1 - number / ENDED)
    node = NodeName(f"node{number % 64:03d}")
    request = Request(name=f"train-{number % 50}", script="#!/bin/sh\ntrue\n", env={"PATH": "/usr/bin:/bin"})
    done = ExitStatus(code=int(number % 7 == 0))
    return Job(
        id=job_id,
        array_job_id=job_id,
        request=request,
        user=OWNER if number % USERS == 0 else f"user{number % USERS}",
        uid=1000 + number % USERS,
        state=JobState.FAILED if done.code else JobState.COMPLETED,
        submit_at_unix=ended - 900,
        start_at_unix=ended - 600,
        end_at_unix=ended,
        exit=done,
        allocation=Allocation(shares=(Share(node=node, cpus=4, mem_bytes=2**32),)),
        shares=(ShareStatus(node=node, phase="exited", exit=done, cpu_seconds=600.0, peak_mem_bytes=2**30),),
    )
