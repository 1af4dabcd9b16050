"""Resource use of warpdeck when idle, with a long history, and per running job."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from tests.support.waiting import eventually
from warpdeck.model import ExitStatus, Job, JobId, JobState, Request
from warpdeck.ports.store import Changes, JournalEntry
from warpdeck.store import SqliteStore

from .rig import Rig, cpu_percent, pss_mb, rss_mb
from .table import Line, Measured, Table

IDLE_S = 8.0
STORED = 100_000
WAITING = 10_000
"""Number of stored jobs that wait. The others ended within the last hour, so they are in memory too."""
BATCH = 5000
RUNNING = 2
"""Number of concurrent jobs: the number of processors of the smallest machine."""

CONTROLLER_MEMORY = Line("controller, idle, nothing in the queue", "MB")
CONTROLLER_CPU = Line("controller, idle, CPU of one core", "%", budget=2)
AGENT_MEMORY = Line("agent, idle", "MB", budget=30)
AGENT_CPU = Line("agent, idle, samples at 1 Hz, CPU of one core", "%", budget=0.5)
SUPERVISOR = Line("supervisor of all jobs, idle (PSS)", "MB")
RUNNING_JOB = Line("agent and supervisor, for each running job (PSS)", "MB", budget=1)
RESTART = Line(f"controller restarted after kill -9 with {STORED:,} jobs", "s", budget=2)
LOADED_MEMORY = Line(f"controller with {STORED:,} jobs", "MB", budget=300)
LOADED_CPU = Line(f"controller with {STORED:,} jobs, idle CPU of one core", "%", budget=2)


def measure_idle(table: Table, rig: Rig) -> None:
    """Measure an idle controller and an idle agent without clients."""
    rig.hang_up()
    controller, agent = rig.controller_pid(), rig.agent_pid()
    table.add(CONTROLLER_MEMORY, Measured([rss_mb(controller)]))
    table.add(CONTROLLER_CPU, Measured([cpu_percent(controller, over_s=IDLE_S)]))
    table.add(AGENT_MEMORY, Measured([rss_mb(agent)]))
    table.add(AGENT_CPU, Measured([cpu_percent(agent, over_s=IDLE_S)]))


def measure_supervisor(table: Table, rig: Rig) -> None:
    """Measure the supervisor, and the memory of supervisor and agent for each job."""
    pids = (rig.supervisor_pid(), rig.agent_pid())
    table.add(SUPERVISOR, Measured([pss_mb(pids[0])]))
    before = sum(pss_mb(pid) for pid in pids)
    jobs = [rig.submit("#!/bin/sh\nexec sleep 1000\n", output="sleep.out") for _ in range(RUNNING)]
    eventually(lambda: rig.counts().get("RUNNING", 0) == RUNNING, what="running jobs")
    table.add(RUNNING_JOB, Measured([(sum(pss_mb(pid) for pid in pids) - before) / RUNNING]))
    rig.client.call("cancel", jobs=[str(job) for job in jobs])
    rig.wait_until_idle()


def measure_restart(table: Table, rig: Rig) -> None:
    """Kill a controller with a database of many jobs, and measure the time until the next one answers."""
    rig.hang_up()
    rig.home.ok("down")
    asyncio.run(fill(rig.home.path / "state.db"))
    found = []
    for _ in range(3):
        rig.home.ok("up")
        rig.home.kill_controller()
        begun = time.perf_counter()
        rig.home.ok("up")
        rig.counts()
        found.append(time.perf_counter() - begun)
        rig.hang_up()
    table.add(RESTART, Measured(found))
    rig.wait_for_nodes()
    rig.hang_up()
    pid = rig.controller_pid()
    table.add(LOADED_MEMORY, Measured([rss_mb(pid)]))
    table.add(LOADED_CPU, Measured([cpu_percent(pid, over_s=IDLE_S)]))


async def fill(database: Path) -> None:
    """Write STORED jobs to the store of a stopped controller."""
    store = await SqliteStore.open(str(database))
    now = time.time()
    loaded = await store.load(finished_since_unix=now)
    first = loaded.next_job_id
    for start in range(0, STORED, BATCH):
        jobs = [_job(JobId(first + number), number, now) for number in range(start, start + BATCH)]
        entries = [JournalEntry(at_unix=now, job_id=job.id, text="submitted by bench, held") for job in jobs]
        await store.commit(
            Changes(
                requests=tuple((job.id, job.request) for job in jobs),
                jobs=tuple(jobs),
                journal=tuple(entries),
                next_job_id=first + start + BATCH,
            )
        )
    await store.close()


def _job(job_id: JobId, number: int, now: float) -> Job:
    request = Request(
        name=f"train-{number % 50}",
        script="#!/bin/sh\ntrue\n",
        submit_dir="/tmp",
        env={"PATH": "/usr/bin:/bin"},
    )
    base = Job(id=job_id, array_job_id=job_id, request=request, user="bench", uid=0, submit_at_unix=now)
    if number < WAITING:
        return Job(
            id=job_id,
            array_job_id=job_id,
            request=request,
            user="bench",
            uid=0,
            submit_at_unix=now,
            held=True,
        )
    return Job(
        id=base.id,
        array_job_id=base.id,
        request=request,
        user="bench",
        uid=0,
        submit_at_unix=now,
        state=JobState.COMPLETED,
        start_at_unix=now,
        end_at_unix=now,
        exit=ExitStatus(),
    )
