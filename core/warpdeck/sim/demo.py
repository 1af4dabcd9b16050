"""A controller over 8 simulated nodes with 8 GPUs each and an endless workload, for the demo.

Run it with python -m warpdeck.sim.demo --home FOLDER. Two hours of the past are simulated at the start (see
`clock`). The demo therefore has jobs of all ages and states, a drained node, a process without a job, an
array, a job with a dependency, a held job, and an interactive shell. The program ends on SIGTERM, or when its
standard input ends, so that it never outlives its parent.
"""

from __future__ import annotations

import gc

if __name__ == "__main__":
    # As in the controller's process, collections during the imports are in vain. `Collector.loading` enables them.
    gc.disable()

import argparse
import asyncio
import contextlib
import errno
import os
import random
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

from warpdeck.base.controller_daemon import take_lock
from warpdeck.base.errors import UserError
from warpdeck.base.passwd import name_of
from warpdeck.base.paths import Paths
from warpdeck.config import Config, load
from warpdeck.controller.events.events import NodeAdded, NodeDrained, Submitted
from warpdeck.controller.launch.code_trees import TreeFiles
from warpdeck.controller.loop.adapters import Adapters
from warpdeck.controller.loop.controller import Controller
from warpdeck.daemon.collector import Collector
from warpdeck.engines.native.engine import native_engine
from warpdeck.model import JobId, JobState, Node, NodeName, Request
from warpdeck.ports.caller import Principal
from warpdeck.ports.engine import Engine
from warpdeck.ports.ports import OutputFile
from warpdeck.ports.store import Store
from warpdeck.server.server import ApiServer
from warpdeck.store import SqliteStore
from warpdeck_agent.wire import messages as wire

from . import demo_config, workload
from .clock import SimClock
from .fleet import GIB, SAMPLE_S, START_S, SimFleet, SimNode

NODES, GPUS, CPUS = 8, 8, 96
DRAINED, FOREIGN_PROCESS_AT = "gpu08", ("gpu05", 3)
MAX_WAITING = 12
"""No job is submitted while this many jobs wait, so that the demo can run for days."""
PAST_S = 2 * 3600.0
READINGS_S = 2.0
"""Seconds between two readings of a node. The demo's app would use twice the CPU time with a reading each second."""
STEPS, SHELL_STEP, SWEEP_STEP = 24, 2, 14
TRANSITIONAL = (JobState.CONFIGURING, JobState.COMPLETING)
SWEEP = "lr=3e-4,1e-4,3e-5 seed=0..7"
CONFIG = "grace_s = 2.0\n"
"""A short grace time, so that canceled jobs end quickly."""


class NoOutputs:
    """Replaces the collection of output files. Simulated jobs write none."""

    def start(self, on_note: Callable[[JobId, str], None]) -> None:
        return None

    def begin(
        self,
        job_id: JobId,
        restarts: int,
        node: NodeName,
        *,
        files: dict[str, str],
        append: bool,
        uid: int,
        umask: int,
    ) -> None:
        return None

    async def finished(self, job_id: JobId, restarts: int, node: NodeName) -> None:
        return None

    async def read(self, path: str, *, uid: int) -> OutputFile:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def make_nodes() -> list[SimNode]:
    """Create gpu01 to gpu08. One GPU has a process that belongs to no job."""
    nodes = [SimNode(NodeName(f"gpu{number:02d}"), gpus=GPUS, cpus=CPUS) for number in range(1, NODES + 1)]
    name, index = FOREIGN_PROCESS_AT
    foreign_process = wire.GpuProcess(pid=4711, mem_bytes=11 * GIB, user="dave", command="jupyter-lab")
    next(node for node in nodes if node.name == name).foreign_processes[index] = foreign_process
    return nodes


@asynccontextmanager
async def simulated(
    paths: Paths,
    nodes: list[SimNode],
    *,
    store: Store,
    rng: random.Random,
    clock: SimClock,
    run_time: Callable[[wire.Launch], tuple[float, int]],
    stop: asyncio.Event,
    config: str = CONFIG,
    adapt: Callable[[Engine], Engine] = lambda engine: engine,
    sample_s: float = SAMPLE_S,
) -> AsyncIterator[tuple[Controller, ApiServer]]:
    """Run a controller over these nodes until the end of the block. Its server answers after `start` was
    called.

    `config` is the text of a config.toml for a home that has none. `sample_s` is the period of the
    nodes' readings. `adapt` returns the engine that the server
    uses. The store and the nodes outlive the
    controller, and another controller finds its jobs there.
    """
    fleet = SimFleet(nodes, clock=clock.now, rng=rng, run_time=run_time, sleep=clock.sleep, sample_s=sample_s)
    trees = TreeFiles(paths.trees)
    adapters = Adapters(
        store=store,
        fleet=fleet,
        trees=trees,
        outputs=NoOutputs(),
        clock=clock.now,
        submit_host="demo",
    )
    controller = Controller(adapters, config=_config(paths, config))
    await controller.load()
    engine = native_engine(controller, trees, config_path=paths.config)
    server = ApiServer(adapt(engine), paths, stop=stop, clock=clock.now)
    async with asyncio.TaskGroup() as group:
        loop = group.create_task(controller.run())
        for node in nodes:
            if node.name not in controller.state.nodes:
                added = Node(name=node.name, target=f"{node.name}.simulated")
                await controller.apply(NodeAdded(node=added))
                fleet.connect(added)
        try:
            yield controller, server
        finally:
            await server.close()
            loop.cancel()


def _config(paths: Paths, text: str) -> Config:
    """Return the home's configuration. A missing file is written first, so that it can be changed as on any
    site.
    """
    config = Path(paths.config)
    if not config.exists():
        config.touch(mode=0o600)
        config.write_text(text)
    return load(paths.config).config


async def submit(controller: Controller, principal: Principal, request: Request) -> JobId:
    """Submit a job and return its id."""
    outcome = await controller.apply(Submitted(principal=principal, request=request))
    assert outcome.job is not None
    return outcome.job.id


async def _wait_settled(controller: Controller, nodes: list[SimNode], clock: SimClock) -> None:
    """Wait until all due events have happened and all jobs that can start are running."""
    listener = controller.hub.listen()
    try:
        while True:
            await controller.events.wait_processed()
            await controller.planner.wait_for_pass()
            in_transition = sum(controller.state.index.in_state.get(state, 0) for state in TRANSITIONAL)
            overdue = any(until <= clock.now() for node in nodes for until, _ in node.due.values())
            if not in_transition and not overdue:
                return
            clock.jump(START_S)
            await listener.changed.wait()
            listener.take()
    finally:
        controller.hub.leave(listener)


async def simulate_past(
    controller: Controller, nodes: list[SimNode], clock: SimClock, rng: random.Random
) -> None:
    """Simulate the past in steps. Some of its jobs have ended long ago, and some still run.

    The jobs of a step are submitted together, so that one pass plans all of them: passes are most of the start time.
    """
    parts = [rng.uniform(0.5, 1.5) for _ in range(STEPS)]
    for step, part in enumerate(parts):
        print(f"{100 * step // STEPS} %", flush=True)  # `warpdeck demo` shows it
        count = min(rng.randint(1, 4), MAX_WAITING - len(controller.state.index.pending))
        requests = [workload.any_request(rng) for _ in range(count)]
        if step == SHELL_STEP:
            requests.append((workload.principal_of("carol"), workload.shell("carol")))
        if step == SWEEP_STEP:
            sweep = workload.sweep("alice", grid=SWEEP, at_once=6)
            requests.append((workload.principal_of("alice"), sweep))
        await asyncio.gather(*(submit(controller, *request) for request in requests))
        await _wait_settled(controller, nodes, clock)
        clock.jump(PAST_S * part / sum(parts))
        await _wait_settled(controller, nodes, clock)
    bob, erin = workload.principal_of("bob"), workload.principal_of("erin")
    first = await submit(controller, bob, workload.training("bob", nodes=2))
    await submit(controller, bob, workload.evaluation("bob", after=first))
    await submit(controller, erin, workload.training("erin", nodes=4, hold=True))


async def submit_forever(controller: Controller, rng: random.Random) -> None:
    """Submit jobs without end."""
    while True:
        await asyncio.sleep(rng.uniform(1, 6))
        if len(controller.state.index.pending) < MAX_WAITING:
            await submit(controller, *workload.any_request(rng))


async def serve(paths: Paths, *, seed: int) -> None:
    """Run until SIGTERM, or until standard input ends."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    lifeline = loop.run_in_executor(None, sys.stdin.buffer.read)
    lifeline.add_done_callback(lambda _: stop.set())
    # A what-if reads the past from this database. It is deleted with the demo, so it need not be durable.
    store = await SqliteStore.open(paths.database, is_durable=False)
    try:
        await _run(paths, store, random.Random(seed), stop=stop)
    finally:
        await store.close()


async def _run(paths: Paths, store: Store, rng: random.Random, *, stop: asyncio.Event) -> None:
    """Simulate the past, then run the workload until `stop`."""
    clock, nodes, collector = SimClock(behind_s=PAST_S), make_nodes(), Collector()
    cluster = simulated(
        paths,
        nodes,
        store=store,
        rng=rng,
        clock=clock,
        run_time=lambda launch: workload.run_time(rng, launch),
        stop=stop,
        config=demo_config.config(datetime.now(), visitor=name_of(os.getuid())),
        sample_s=READINGS_S,
    )
    async with cluster as (controller, server):

        async def live() -> None:
            drained = NodeDrained(name=NodeName(DRAINED), reason="ECC errors on GPU 5, will be replaced")
            with collector.loading():
                await controller.apply(drained)
                await simulate_past(controller, nodes, clock, rng)
            await server.start()
            await submit_forever(controller, rng)

        life, end = asyncio.create_task(live()), asyncio.create_task(stop.wait())
        await asyncio.wait((life, end), return_when=asyncio.FIRST_COMPLETED)
        life.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await life


def main() -> int:
    """Run the demo in a home of its own."""
    parser = argparse.ArgumentParser(prog="warpdeck.sim.demo")
    parser.add_argument("--home", required=True)
    parser.add_argument("--remove", action="store_true", help="remove the home at the end")
    parser.add_argument("--seed", type=int, default=24)
    args = parser.parse_args()
    os.umask(0o077)
    paths = Paths(args.home)
    try:
        lock = take_lock(paths)
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    try:
        asyncio.run(serve(paths, seed=args.seed))
    finally:
        os.close(lock)
        if args.remove:
            shutil.rmtree(args.home, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
