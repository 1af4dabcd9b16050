"""python -m warpdeck.sim.demo --home FOLDER: a controller over 8 simulated nodes of 8 GPUs with a workload that goes on."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
import time

from warpdeck.api.server import ApiServer
from warpdeck.controller.app import Controller
from warpdeck.controller.config import Config
from warpdeck.controller.daemon import take_lock
from warpdeck.controller.events import NodeAdded, Submitted, Who
from warpdeck.controller.trees import TreeFiles
from warpdeck.errors import UserError
from warpdeck.model import ArraySpec, GpuAsk, JobId, Node, NodeName, Request, Resources
from warpdeck.paths import Paths
from warpdeck.store import MemoryStore
from warpdeck_agent.wire import messages as wire

from .fleet import SimFleet, SimNode

NODES, GPUS, CPUS = 8, 8, 96
USERS = ("alice", "bob", "carol", "dave")
NAMES = ("llama-sft", "vit-ablate", "eval-mmlu", "whisper-ft", "sd-lora", "rlhf-ppo", "notebook", "tokenize")
MAX_WAITING = 12
"""The workload rests while so many jobs wait, so that the demo can run for days."""


class NoOutputs:
    """Simulated output is nowhere to be brought from."""

    def begin(
        self, job_id: JobId, restarts: int, node: NodeName, *, files: dict[str, str], uid: int, user: str
    ) -> None:
        return None

    async def finished(self, job_id: JobId, restarts: int, node: NodeName) -> None:
        return None


def random_request(rng: random.Random) -> Request:
    """A job as such a lab submits them."""
    name = rng.choice(NAMES)
    gpus = rng.choice((1, 1, 1, 2, 2, 4, 8))
    nodes = rng.choice((1, 1, 1, 1, 2)) if gpus == 8 else 1
    array = ArraySpec(ranges=((0, rng.randint(2, 9), 1),), throttle=4) if name == "vit-ablate" else None
    return Request(
        name=name,
        script=f"#!/bin/bash\n#SBATCH --job-name={name} --gpus-per-node={gpus}\npython train.py\n",
        resources=Resources(
            nodes_min=nodes, nodes_max=nodes, cpus_per_task=gpus * 4, gpus=GpuAsk(per_node=gpus)
        ),
        time_limit_s=rng.choice((600, 1800, 3600, 14_400)),
        array=array,
        submit_dir="/demo",
    )


def run_time(rng: random.Random, launch: wire.Launch) -> tuple[float, int]:
    """(seconds, exit code): most end well, some fail early."""
    if rng.random() < 0.08:
        return rng.uniform(3, 15), 1
    return rng.uniform(30, 400), 0


async def work(controller: Controller, rng: random.Random) -> None:
    """Submits for ever."""
    for _ in range(24):
        await submit(controller, rng)
    while True:
        await asyncio.sleep(rng.uniform(1, 6))
        if len(controller.state.pending) < MAX_WAITING:
            await submit(controller, rng)


async def submit(controller: Controller, rng: random.Random) -> None:
    who = Who(user=rng.choice(USERS), uid=1000)
    await controller.apply(Submitted(who=who, request=random_request(rng)))


async def serve(paths: Paths, *, seed: int) -> None:
    """Runs until SIGTERM."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    rng = random.Random(seed)
    nodes = [SimNode(NodeName(f"gpu{number:02d}"), gpus=GPUS, cpus=CPUS) for number in range(1, NODES + 1)]
    fleet = SimFleet(nodes, clock=time.time, rng=rng, run_time=lambda launch: run_time(rng, launch))
    trees = TreeFiles(paths.trees)
    controller = Controller(
        MemoryStore(),
        fleet,
        trees=trees,
        outputs=NoOutputs(),
        clock=time.time,
        config=Config(keep_finished_s=600.0),
        submit_host="demo",
    )
    await controller.load()
    server = ApiServer(controller, trees, paths, stop=stop)
    async with asyncio.TaskGroup() as group:
        loop_task = group.create_task(controller.run())
        for node in nodes:
            added = Node(name=node.name, target="simulated")
            await controller.apply(NodeAdded(node=added))
            controller.fleet.connect(added)
        workload = group.create_task(work(controller, rng))
        await server.start()
        await stop.wait()
        await server.close()
        workload.cancel()
        loop_task.cancel()


def main() -> int:
    """Serves the demo in a home of its own."""
    parser = argparse.ArgumentParser(prog="warpdeck.sim.demo")
    parser.add_argument("--home", required=True)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    os.umask(0o077)
    paths = Paths(args.home)
    try:
        lock = take_lock(paths)
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    asyncio.run(serve(paths, seed=args.seed))
    os.close(lock)
    return 0


if __name__ == "__main__":
    sys.exit(main())
