"""A simulated cluster runs for days: of jobs that have ended little stays in memory."""

from __future__ import annotations

import asyncio
import gc
import random
import sys
from pathlib import Path

from tests.support.waiting import comes

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
"""Jobs one after the other; the first ones warm up what is kept for all."""
MOST_OBJECTS = 150
"""For each job: its launch and what was said of it, and none of the thousand readings of its curves."""


async def test_little_stays_of_each_job_that_has_ended(short_tmp: Path) -> None:
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
            await comes(lambda job=job: (job, 0) in node.due, what="it runs")
            clock.jump(RUN_S)
            await comes(lambda job=job: controller.state.jobs[job].is_finished, what="it has ended")
            evict_finished(controller.state, ended_before_unix=clock.now() + 1)
            if number == FIRST:
                gc.collect()
                first = sys.getallocatedblocks()
        gc.collect()
        grown = sys.getallocatedblocks() - first
    await store.close()
    assert len(node.written) == ALL and not node.tasks
    assert grown / (ALL - FIRST) < MOST_OBJECTS
