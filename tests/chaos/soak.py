"""Run many jobs through one controller, and print its memory at a tenth, at half and at the end of them.

The controller, the planner and the SQLite store are real; the nodes are simulated, in virtual time. Half of the jobs are tasks of
arrays. Ended jobs leave the memory after `keep_finished_s` as in a real controller, so the memory is flat if nothing else
is kept for each job. The exit code is 1 if it grows by more than LARGEST_GROWTH after the first tenth, or a job does not complete.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import resource
import sys
import time
from pathlib import Path

import msgspec

from warpdeck.base.controller_starts import SiteIdentity, StartMaker
from warpdeck.config import Config
from warpdeck.controller.events.events import NodeAdded, Submitted
from warpdeck.controller.launch.code_trees import TreeFiles
from warpdeck.controller.loop.adapters import Adapters
from warpdeck.controller.loop.controller import Controller
from warpdeck.model import ArraySpec, Node, NodeName, Request, Resources
from warpdeck.ports.caller import Principal
from warpdeck.ports.store import Changes
from warpdeck.sim.cluster import EPOCH_UNIX
from warpdeck.sim.demo import NoOutputs
from warpdeck.sim.disk import SimDisk, SimStore
from warpdeck.sim.faults import Faults
from warpdeck.sim.fleet import SimFleet, SimNode
from warpdeck.sim.virtualtime import run_virtual

NODES, CPUS, USERS = 4, 64, 20
BATCH = 500
"""Jobs that are submitted at once."""
KEPT_S = 60.0
"""Virtual seconds for which an ended job stays in memory. At ten seconds a job, a steady number of some thousand jobs does."""
RUN_S = (1.0, 10.0)
SAMPLE_S = 600.0
LARGEST_GROWTH = 0.05
PAGE_BYTES = resource.getpagesize()


def rss_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


class Soak:
    """One controller over simulated nodes."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self.rng = random.Random(1)
        self.disk = SimDisk(Faults(), self.rng)
        self.submitted = 0
        self.memory: dict[int, int] = {}
        """Memory in bytes by the number of jobs that were submitted."""

    def clock(self) -> float:
        return EPOCH_UNIX + asyncio.get_running_loop().time()

    async def run(self) -> int:
        """Return the number of jobs that completed."""
        store = await self.disk.open_store()
        nodes = [SimNode(NodeName(f"n{number}"), gpus=4, cpus=CPUS) for number in range(NODES)]
        fleet = SimFleet(
            nodes,
            clock=self.clock,
            rng=self.rng,
            run_time=lambda launch: (self.rng.uniform(*RUN_S), 0),
            sample_s=SAMPLE_S,
        )
        starts = StartMaker(
            identity=SiteIdentity("soak"), host="soak", pid=1, clock=self.clock, new_instance=lambda: "soak"
        )
        known = await store.starts()
        await store.commit_safely(Changes(start=starts.next(known.start, known.fenced_by)))
        adapters = Adapters(
            store=store,
            fleet=fleet,
            trees=TreeFiles("/nonexistent"),
            outputs=NoOutputs(),
            clock=self.clock,
            submit_host="soak",
            starts=starts,
        )
        controller = Controller(adapters, config=msgspec.structs.replace(Config(), keep_finished_s=KEPT_S))
        await controller.load()
        serving = asyncio.create_task(controller.run())
        for node in nodes:
            added = Node(name=node.name, target="soak")
            await controller.apply(NodeAdded(node=added))
            fleet.connect(added)
        await self._load(controller)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        return await self._completed(store)

    async def _load(self, controller: Controller) -> None:
        marks = [self.jobs // 10, self.jobs // 2, self.jobs]
        while self.submitted < self.jobs:
            await self._submit(controller)
            while len(controller.state.index.pending) > BATCH:
                await asyncio.sleep(1.0)
            if self.submitted >= marks[0]:
                await asyncio.sleep(5 * KEPT_S)  # Each measurement is made with an empty queue.
                self.memory[self.submitted] = rss_bytes()
                marks.pop(0)
                self._print(self.submitted)

    def _print(self, jobs: int) -> None:
        mebibytes = self.memory[jobs] / 2**20
        print(f"{jobs:7,} jobs: {mebibytes:.1f} MiB, {time.process_time():.0f} CPU s", flush=True)

    async def _submit(self, controller: Controller) -> None:
        """Submit an array, and as many single jobs of different users."""
        for number in range(BATCH // 2 + 1):
            uid = self.rng.randrange(USERS)
            tasks = BATCH // 2 if number == 0 else 0
            request = Request(
                name=f"job{self.submitted}",
                script=f"#!/bin/sh\necho {self.submitted}\n",
                resources=Resources(cpus_per_task=self.rng.randint(1, 4)),
                time_limit_s=60,
                array=ArraySpec(ranges=((0, tasks - 1, 1),)) if tasks else None,
            )
            principal = Principal(user=f"user{uid}", uid=1000 + uid)
            await controller.apply(Submitted(principal=principal, request=request))
            self.submitted += tasks or 1

    async def _completed(self, store: SimStore) -> int:
        found = await store.finished_jobs(user=None, limit=10 * self.jobs)
        return sum(job.state == "COMPLETED" for job in found)


def main() -> int:
    """Run the jobs and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.soak")
    parser.add_argument("--jobs", type=int, default=100_000)
    soak = Soak(parser.parse_args().jobs)
    completed = run_virtual(soak.run())
    first, *_, last = soak.memory.values()
    growth = last / first - 1
    print(f"{completed:,} of {soak.submitted:,} jobs completed, growth after the first tenth: {growth:+.1%}")
    return int(completed != soak.submitted or growth > LARGEST_GROWTH)


if __name__ == "__main__":
    sys.exit(main())
