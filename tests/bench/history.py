"""Measure queries over a million finished jobs.

sacct requests one user's last day, and an old job by id. The app's history requests its first page, a page in
the middle, a filter that few jobs match, and the total cost of all matches.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

from warpdeck.model import (
    Allocation,
    ExitStatus,
    Job,
    JobId,
    JobState,
    NodeName,
    Request,
    Share,
    ShareStatus,
)
from warpdeck.model.finished_jobs import FinishedQuery
from warpdeck.notation.filters.job_filter import parse_filter
from warpdeck.ports.store import Changes
from warpdeck.store import SqliteStore

from .rig import Rig, rss_mb
from .table import Line, Measured, Table, timed

ENDED = 1_000_000
USERS = 500
OWNER = "daemon"
"""One of the users exists on the machine, because sacct rejects unknown users."""
DAYS = 200
"""Number of days, so that a user has ten jobs per day."""
BATCH = 20_000
RUNS = 15
DAY = Line(f"`sacct` of a user's last day, {ENDED:,} jobs", "ms", budget=200)
OLD = Line(f"`sacct -j`, {ENDED:,} jobs", "ms", budget=200)

FIRST = Line(f"history: first page and count, {ENDED:,} jobs", "ms", budget=400)
NEXT = Line(f"history: the next page, {ENDED:,} jobs", "ms", budget=50)
MIDDLE = Line(f"history: a page in the middle, {ENDED:,} jobs", "ms", budget=200)
RARE = Line(f"history: a filter that matches one user, {ENDED:,} jobs", "ms", budget=1500)
COSTS = Line(f"usage of {ENDED:,} jobs", "ms", budget=3000)
GROWTH = Line(f"store, memory for the history of {ENDED:,} jobs", "MB", budget=20)


def measure(table: Table, rig: Rig) -> None:
    """Fill the database of a stopped controller, and measure."""
    rig.hang_up()
    rig.home.ok("down")
    first = asyncio.run(_fill(rig.home.path / "state.db"))
    asyncio.run(_measure_history(table, rig.home.path / "state.db"))
    rig.home.ok("up")
    rig.wait_for_nodes()
    table.add(DAY, timed(lambda: _sacct(rig, "-u", OWNER, "-S", "now-1day"), RUNS))
    table.add(OLD, timed(lambda: _sacct(rig, "-j", str(first + 1000)), RUNS))


def _sacct(rig: Rig, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "warpdeck.slurm.runtime.commands", "sacct", "-n", *words],
        env=rig.home.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and done.stdout, done.stderr


async def _measure_history(table: Table, database: Path) -> None:
    store = await SqliteStore.open(str(database))
    before = rss_mb(os.getpid())
    page = (await store.search_finished(FinishedQuery(limit=200), counted=True)).ids
    queries = {
        FIRST: FinishedQuery(limit=200),
        NEXT: FinishedQuery(limit=200, beside=page[-1]),
        MIDDLE: FinishedQuery(limit=200, offset=ENDED // 2),
        RARE: FinishedQuery(limit=200, clauses=parse_filter("user:user77 train-7")),
    }
    for line, query in queries.items():
        samples = []
        for _ in range(RUNS):
            began = time.perf_counter()
            found = await store.search_finished(query, counted=line in (FIRST, RARE))
            await store.jobs(found.ids)
            samples.append(1000 * (time.perf_counter() - began))
        table.add(line, Measured(samples))
    began = time.perf_counter()
    await store.finished_costs(FinishedQuery())
    table.add(COSTS, Measured([1000 * (time.perf_counter() - began)]))
    table.add(GROWTH, Measured([rss_mb(os.getpid()) - before]))
    await store.close()


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
    """Return a job. The oldest is the first one, and the users alternate."""
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
