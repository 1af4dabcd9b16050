"""Memory of a simulated cluster that runs for days: ended jobs leave little behind."""

from __future__ import annotations

import asyncio
import gc
import random
import sys
from pathlib import Path

from tests.support.waiting import eventually_async

from warpdeck.base.paths import Paths
from warpdeck.controller.loop.housekeeping import evict_finished
from warpdeck.model import NodeName
from warpdeck.sim import workload
from warpdeck.sim.clock import SimClock
from warpdeck.sim.demo import simulated, submit
from warpdeck.sim.fleet import SimNode
from warpdeck.store import SqliteStore

RUN_S = 3600.0
FIRST, ALL = 5, 25
"""Number of jobs that run one after the other. The first ones fill caches that all jobs share."""
MOST_OBJECTS = 150
"""Limit for each job: its launch and its reports, without the thousand measurements of its curves."""


async def test_an_ended_job_leaves_few_objects_in_memory(short_tmp: Path) -> None:
    home = short_tmp / "h"
    home.mkdir(mode=0o700)
    paths = Paths(str(home))
    store = await SqliteStore.open(paths.database)
    clock = SimClock(behind_s=2 * ALL * RUN_S)
    node = SimNode(NodeName("a"), gpus=8, cpus=96)
    cluster = simulated(
        paths,
        [node],
        store=store,
        rng=random.Random(1),
        clock=clock,
        run_time=lambda launch: (RUN_S, 0),
        stop=asyncio.Event(),
    )
    first = 0
    async with cluster as (controller, _):
        for number in range(1, ALL + 1):
            job = await submit(controller, workload.principal_of("bob"), workload.training("bob", nodes=1))
            await eventually_async(lambda job=job: (job, 0) in node.due, what="the job runs")
            clock.jump(RUN_S)
            await eventually_async(
                lambda job=job: controller.state.jobs[job].is_finished, what="the job has ended"
            )
            evict_finished(controller.state, ended_before_unix=clock.now() + 1)
            if number == FIRST:
                gc.collect()
                first = sys.getallocatedblocks()
        gc.collect()
        grown = sys.getallocatedblocks() - first
    await store.close()
    assert len(node.written) == ALL and not node.tasks
    assert grown / (ALL - FIRST) < MOST_OBJECTS
