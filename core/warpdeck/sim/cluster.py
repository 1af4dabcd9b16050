"""The real controller, planner, SQLite store and codec over failing simulated nodes, from one seed and in virtual time.

Simulated faults: links break and are restored, messages are lost, doubled and delayed, nodes reboot and lose their
jobs, launches are refused, jobs fail, clocks jump, the disk is full or slow, and the controller is killed before
and after commits and between any two steps, and starts again on the same store. The state's invariants are
checked after each change. A seed that shows a bug always shows it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import operator
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

import msgspec

from warpdeck.base.controller_starts import SiteIdentity, StartMaker
from warpdeck.base.errors import UserError
from warpdeck.config import Config
from warpdeck.controller.events.events import Cancelled, Held, NodeAdded, Released, Requeued, Submitted
from warpdeck.controller.launch.code_trees import TreeFiles
from warpdeck.controller.loop.adapters import Adapters
from warpdeck.controller.loop.controller import Controller
from warpdeck.controller.state.invariants import violations
from warpdeck.model import ArraySpec, GpuRequest, Job, JobId, Link, Node, NodeName, Request, Resources
from warpdeck.ports.caller import Principal
from warpdeck.ports.ports import FleetEvent, NodeCommand, PackedTree
from warpdeck.ports.store import Changes
from warpdeck_agent.wire import messages as wire

from .codec import at_agent, at_controller
from .demo import NoOutputs
from .disk import FULL, SimDisk, SimStore
from .faults import MOST_DELAY_S, Faults
from .fleet import Key, SimFleet, SimNode

EPOCH_UNIX = 1_700_000_000.0
"""Unix time of virtual time 0."""
FOR_EVER_S = 1e9
"""Seconds for which ended jobs stay in memory, so that their invariants can be checked."""
USERS = (Principal(user="ann", uid=1), Principal(user="bob", uid=2))
ROOT = Principal(user="root", uid=0, admin=True)


class FaultyFleet(SimFleet):
    """A fleet with nodes that refuse launches and reboot, over links that fail.

    It counts the starts of each share, because no share may start twice, and keeps their exit codes.
    """

    def __init__(self, cluster: SimCluster) -> None:
        super().__init__(cluster.nodes, clock=cluster.now_unix, rng=cluster.rng, run_time=cluster.run_time)
        self._cluster = cluster

    def start(
        self, on_event: Callable[[FleetEvent], None], wait_processed: Callable[[], Awaitable[None]]
    ) -> None:
        super().start(partial(self._deliver, on_event), wait_processed)

    def _deliver(self, on_event: Callable[[FleetEvent], None], event: FleetEvent) -> None:
        """Deliver an event of a node once, twice, later, or not at all."""
        name, message = event
        if isinstance(message, str):  # the end of a connection
            on_event(event)
            return
        event = (name, at_controller(message))
        if isinstance(message, wire.Welcome):
            on_event(event)
            return
        faults, drawn = self._cluster.faults, self._cluster.rng.random()
        if drawn < faults.lose:
            self._fail(name)
            return
        drawn -= faults.lose
        if drawn < faults.delay:
            delay_s = self._cluster.rng.uniform(0.0, MOST_DELAY_S)
            asyncio.get_running_loop().call_later(delay_s, on_event, event)
            return
        on_event(event)
        if drawn - faults.delay < faults.double:
            on_event(event)

    def _fail(self, name: NodeName) -> None:
        """Break the link of a lost message, for a while."""
        self.break_link(name)
        asyncio.get_running_loop().call_later(self._cluster.rng.uniform(1.0, 300.0), self.restore_link, name)

    async def send(self, name: NodeName, message: NodeCommand) -> None:
        faults, drawn = self._cluster.faults, self._cluster.rng.random()
        if drawn < faults.lose:
            self._fail(name)
            return
        await super().send(name, at_agent(message))
        if drawn - faults.lose < faults.double:
            await super().send(name, at_agent(message))

    async def launch(self, name: NodeName, launch: wire.Launch, tree: PackedTree | None) -> None:
        faults, drawn = self._cluster.faults, self._cluster.rng.random()
        if drawn < faults.lose:
            self._fail(name)
            return
        await self._launch_or_refuse(name, at_agent(launch))
        if drawn - faults.lose < faults.double:
            await self._launch_or_refuse(name, at_agent(launch))

    async def _launch_or_refuse(self, name: NodeName, launch: wire.Launch) -> None:
        node = self._nodes[name]
        key = (launch.job_id, launch.restarts)
        known = key in node.reports or key in node.launches
        if node.up and not known and self._cluster.rng.random() < self._cluster.faults.refuse:
            refused = wire.LaunchFailed(job_id=key[0], restarts=key[1], message="simulated refusal")
            self._on_event((name, refused))
            return
        if not known:
            await super().launch(name, launch, None)
        elif node.up and key in node.reports:
            self._on_event((name, node.reports[key]))

    def _begin(self, node: SimNode, launch: wire.Launch) -> None:
        starts_of, key = self._cluster.starts_of, (launch.job_id, launch.restarts)
        starts_of[node.name, key] = starts_of.get((node.name, key), 0) + 1
        super()._begin(node, launch)

    def _report(self, node: SimNode, key: Key, **facts: Any) -> None:
        super()._report(node, key, **facts)
        report = node.reports.get(key)
        if report is not None and report.phase == "exited":
            self._cluster.ends_of[node.name, key] = report

    def restart_agent(self, name: NodeName) -> None:
        """Restart the agent, which connects again before the controller has noticed that the old link is lost."""
        self.restore_link(name)

    def reboot(self, name: NodeName) -> None:
        """Reboot a node. All of its running launches are lost, and its agent reports the reboot on
        reconnection.
        """
        node = self._nodes[name]
        self.break_link(name)
        for task in node.tasks.values():
            task.cancel()
        node.tasks.clear()
        node.prefetched.clear()
        for key, report in list(node.reports.items()):
            if report.phase == "running":
                node.reports[key] = dataclasses.replace(report, phase="lost")
        for key in list(node.launches):
            if key not in node.reports:
                del node.launches[key]
        self._cluster.boots[name] = self._cluster.boots.get(name, 0) + 1
        self.restore_link(name)

    async def _live(self, node: SimNode) -> None:
        """Connect without periodic samples, which would take most of the time and change nothing."""
        self._on_event((node.name, self._welcome(node)))

    def _welcome(self, node: SimNode) -> wire.Welcome:
        welcome = super()._welcome(node)
        boot_id = f"boot {self._cluster.boots.get(node.name, 0)}"
        return dataclasses.replace(welcome, inventory=dataclasses.replace(welcome.inventory, boot_id=boot_id))


class SimCluster:
    """Nodes and a disk that outlive the controllers that run on them."""

    def __init__(
        self,
        seed: int,
        *,
        nodes: int = 3,
        gpus: int = 4,
        faults: Faults | None = None,
        config: Config | None = None,
    ) -> None:
        self.seed = seed
        self.config = msgspec.structs.replace(config or Config(), keep_finished_s=FOR_EVER_S)
        self.rng = random.Random(seed)
        self.faults = faults or Faults()
        self.disk = SimDisk(self.faults, self.rng)
        self.store: SimStore
        """The store of the last controller."""
        self.nodes = [SimNode(NodeName(f"n{number}"), gpus=gpus, cpus=16) for number in range(nodes)]
        self.boots: dict[NodeName, int] = {}
        self.starts_of: dict[tuple[NodeName, Key], int] = {}
        self.ends_of: dict[tuple[NodeName, Key], wire.JobReport] = {}
        self.submitted: list[JobId] = []
        self.begun = 0
        """Number of controllers that were started."""
        self.jumped_s = 0.0

    def now_unix(self) -> float:
        return EPOCH_UNIX + self.jumped_s + asyncio.get_running_loop().time()

    async def run_until_crash(self, work: Coroutine[Any, Any, object]) -> bool:
        """Run `work` until it ends or the controller dies in a commit. Return whether it has ended."""
        running = asyncio.ensure_future(work)
        dying = asyncio.ensure_future(self.disk.crashed.wait())
        await asyncio.wait((running, dying), return_when=asyncio.FIRST_COMPLETED)
        has_ended = running.done()
        for each in (running, dying):
            each.cancel()
        await asyncio.gather(running, dying, return_exceptions=True)
        self.disk.crashed.clear()
        if has_ended:
            await running  # raises its error
        return has_ended

    def run_time(self, launch: wire.Launch) -> tuple[float, int]:
        """Return the run time in seconds and the exit code of a launch."""
        return self.rng.uniform(0.1, 600.0), int(self.rng.random() < self.faults.fail)

    @contextlib.asynccontextmanager
    async def controller(self, *, on_change: Callable[[Controller], None]) -> AsyncIterator[Controller]:
        """Run a controller. At the end of the block it is killed without notice, and the nodes continue.
        `on_change` is called after each change.
        """
        fleet = FaultyFleet(self)
        starts = self._starts()
        self.store = await self.disk.open_store()
        known = await self.store.starts()
        # A controller that dies in this commit has not contacted any node, which is as if it had not been started.
        await self.store.commit_safely(Changes(start=starts.next(known.start, known.fenced_by)))
        adapters = Adapters(
            store=self.store,
            fleet=fleet,
            trees=TreeFiles("/nonexistent"),
            outputs=NoOutputs(),
            clock=self.now_unix,
            submit_host="simulated",
            starts=starts,
        )
        controller = Controller(adapters, config=self.config)
        await controller.load()
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(controller.run())
            checking = group.create_task(_check(controller, on_change))
            await self._add_nodes(controller, fleet)
            yield controller
            self.disk.kill()
            checking.cancel()
            serving.cancel()

    def _starts(self) -> StartMaker:
        self.begun += 1
        instance = f"start {self.begun}"
        return StartMaker(
            identity=SiteIdentity("simulated"),
            host="simulated",
            pid=self.begun,
            clock=self.now_unix,
            new_instance=lambda: instance,
        )

    async def _add_nodes(self, controller: Controller, fleet: FaultyFleet) -> None:
        """Add the nodes that no earlier controller has added."""
        for node in self.nodes:
            if node.name in controller.state.nodes:
                continue
            added = Node(name=node.name, target="simulated")
            while node.name not in controller.state.nodes:
                with contextlib.suppress(UserError):  # The disk is full.
                    await controller.apply(NodeAdded(node=added))
            fleet.connect(added)

    def calm(self) -> None:
        """Let no more faults happen."""
        self.faults = self.disk.faults = Faults(refuse=0.0, fail=0.0)

    async def step(self, controller: Controller) -> str:
        """Trigger one random event and return its name."""
        await asyncio.sleep(self.rng.expovariate(1 / 20))
        what = self.rng.choices(tuple(_STEPS), weights=tuple(_STEPS.values()))[0]
        fleet = controller.fleet
        assert isinstance(fleet, FaultyFleet)
        name = self.rng.choice(self.nodes).name
        if what == "submit":
            await self._submit(controller)
        elif what == "lose":
            fleet.break_link(name)
        elif what == "find":
            fleet.restore_link(name)
        elif what == "reboot":
            fleet.reboot(name)
        elif what == "restart":
            fleet.restart_agent(name)
        elif what == "jump":
            self.jumped_s += self.rng.choice((-3600.0, -5.0, 5.0, 3600.0))
        elif self.submitted:
            named = (str(self.rng.choice(self.submitted)),)
            event = {"cancel": Cancelled, "hold": Held, "release": Released, "requeue": Requeued}[what]
            with contextlib.suppress(UserError):  # The disk is full.
                await controller.apply(event(principal=ROOT, jobs=named))
        return what

    async def _submit(self, controller: Controller) -> None:
        rng, request = self.rng, self._request()
        components: tuple[Request, ...] = ()
        if request.array is None and rng.random() < 0.15:
            others = (self._request() for _ in range(rng.randint(1, 2)))
            components = tuple(msgspec.structs.replace(each, array=None) for each in others)
        event = Submitted(principal=rng.choice(USERS), request=request, components=components)
        try:
            outcome = await controller.apply(event)
        except UserError as error:
            is_full = FULL in error.message
            assert components or is_full, "any of the requests alone has room on the empty cluster"
            return
        assert outcome.job is not None
        self.submitted.append(outcome.job.id)

    def _request(self) -> Request:
        rng = self.rng
        gpus, nodes = rng.randint(0, 4), rng.choice((1, 1, 1, 2, 3))
        return Request(
            name=f"job{len(self.submitted)}",
            script="#!/bin/sh\n",
            resources=Resources(
                nodes_min=nodes,
                nodes_max=nodes,
                cpus_per_task=rng.randint(1, 8),
                gpus=GpuRequest(per_node=gpus) if gpus else GpuRequest(),
            ),
            time_limit_s=rng.choice((None, 60, 300, 1200)),
            array=ArraySpec(ranges=((0, rng.randint(1, 5), 1),), throttle=rng.randint(0, 2))
            if rng.random() < 0.3
            else None,
            requeue=rng.random() < 0.8,
            hold=rng.random() < 0.1,
        )

    async def drain_queue(self, controller: Controller) -> None:
        """Reconnect all nodes, release all jobs, and wait until every job has ended."""
        fleet = controller.fleet
        assert isinstance(fleet, FaultyFleet)
        for node in self.nodes:
            fleet.restore_link(node.name)
        jobs = controller.state.jobs
        held = sorted({str(job.array_job_id) for job in jobs.values() if job.held})
        await controller.apply(Released(principal=ROOT, jobs=tuple(held)))
        async with asyncio.timeout(DRAIN_QUEUE_S):
            while not all(job.is_finished for job in jobs.values()):
                await asyncio.sleep(10.0)


_STEPS = {
    "submit": 8,
    "cancel": 1,
    "hold": 1,
    "release": 1,
    "requeue": 1,
    "lose": 1,
    "find": 2,
    "reboot": 0.5,
    "restart": 0.5,
    "jump": 0.2,
}
"""The events and their relative frequency."""
DRAIN_QUEUE_S = 86_400.0
"""One day of virtual time. It is enough for all jobs of a test."""


async def _check(controller: Controller, on_change: Callable[[Controller], None]) -> None:
    """Check the invariants of the state and call `on_change` after each change of a job or of a node's link.

    Measurements change neither jobs nor links.
    """
    listener = controller.hub.listen()
    jobs: list[Job] = []
    links: dict[NodeName, Link] = {}
    try:
        while True:
            await listener.changed.wait()
            listener.take()
            state = controller.state
            same = len(jobs) == len(state.jobs) and all(map(operator.is_, jobs, state.jobs.values()))
            if not same or links != state.node_status.links:
                assert not (found := violations(state)), "\n".join(found)
                on_change(controller)
            jobs, links = list(state.jobs.values()), dict(state.node_status.links)
    finally:
        controller.hub.leave(listener)
