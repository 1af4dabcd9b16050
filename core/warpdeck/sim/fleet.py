"""An implementation of `ports.ports.Fleet` without nodes. Launches run for some time and end; GPUs show the
load of their jobs.

Random values come from the injected generator, time from the injected clock. Only the messages are real.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Awaitable, Callable
from typing import Any

from warpdeck.base.errors import RemoteError
from warpdeck.model import JobId, Node, NodeName
from warpdeck.ports.ports import (
    FleetEvent,
    NodeCommand,
    NodeStream,
    PackedTree,
    StepPipe,
    StreamRequest,
    StreamSink,
)
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire import steps as stepwire

from .curves import curve, gpu_then, gpu_usage, held_bytes, span_of
from .prefetched_launches import PrefetchedLaunches
from .shell import SimShell
from .streams import SimLogStream, SimTerminalStream

GIB = 2**30
START_S = 0.02
SAMPLE_S = 1.0
"""Seconds between two readings of a node, unless the fleet is created with another period."""
MAX_ENDED = 500
"""Number of ended launches per node for which the output can still be read."""
Key = tuple[int, int]
CURVE_POINTS = 60
"""Points of a simulated node's curves. Real curves have more."""


def _links(util: int) -> wire.GpuLinks:
    """Return the PCIe state of a GPU with this utilization. An idle GPU lowers its link."""
    moved = util * 25_000_000
    return wire.GpuLinks(
        pcie_gen=5 if util else 1,
        pcie_gen_max=5,
        pcie_width=16,
        pcie_width_max=16,
        pcie_tx_bytes_s=moved // 3,
        pcie_rx_bytes_s=moved,
    )


def _foreign_processes(node: SimNode, gpu: wire.GpuInfo, *, held: bool) -> wire.Strangers:
    """Return the processes without a job on a GPU. They are always there, except while a job holds the GPU."""
    foreign = None if held else node.foreign_processes.get(gpu.index)
    return wire.Strangers(gpu.index, {} if foreign is None else {foreign.user: foreign.mem_bytes})


class SimNode:
    """A simulated node: its GPUs and its launches."""

    def __init__(self, name: NodeName, *, gpus: int, cpus: int) -> None:
        self.name = name
        self.cpus = cpus
        self.gpus = [
            wire.GpuInfo(
                index=index,
                uuid=f"GPU-{name}-{index}",
                name="NVIDIA H100 80GB HBM3",
                mem_bytes=80 * GIB,
                numa_node=index // 4,
            )
            for index in range(gpus)
        ]
        self.launches: dict[Key, wire.Launch] = {}
        self.reports: dict[Key, wire.JobReport] = {}
        self.tasks: dict[Key, asyncio.Task[None]] = {}
        self.written: dict[Key, tuple[wire.Launch, wire.JobReport]] = {}
        """Launches that ran here, kept for their output after the controller has forgotten them."""
        self.shells: dict[Key, SimShell] = {}
        self.foreign_processes: dict[int, wire.GpuProcess] = {}
        """Processes without a job, by the index of their GPU."""
        self.due: dict[Key, tuple[float, dict[str, Any]]] = {}
        """Time and result of each launch's end. For a suspended launch, the remaining run time instead of the
        time.
        """
        self.prefetched = PrefetchedLaunches()
        self.up = True
        self.on_event: Callable[[FleetEvent], None] = lambda event: None
        """Function that sends an event to the connected fleet. Launches outlive a fleet, as on a real node.
        """


class SimFleet:
    """Nodes in memory. `run_time` gives the run time and exit code of a launch; `sleep` waits for a number of
    seconds.
    """

    def __init__(
        self,
        nodes: list[SimNode],
        *,
        clock: Callable[[], float],
        rng: random.Random,
        run_time: Callable[[wire.Launch], tuple[float, int]],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        sample_s: float = SAMPLE_S,
    ) -> None:
        self._sample_s = sample_s
        self._nodes = {node.name: node for node in nodes}
        self._clock = clock
        self._rng = rng
        self._run_time = run_time
        self._sleep = sleep
        self._on_event: Callable[[FleetEvent], None] = lambda event: None
        self._tasks: set[asyncio.Task[None]] = set()
        self._since = clock()

    def start(
        self, on_event: Callable[[FleetEvent], None], wait_processed: Callable[[], Awaitable[None]]
    ) -> None:
        self._on_event = on_event

    async def add(
        self, node: Node, *, accept_host_key: str, progress: Callable[[str], Awaitable[None]]
    ) -> tuple[Node, wire.Welcome]:
        raise RemoteError(node.name, "the simulated cluster has no hosts to add")

    def connect(self, node: Node) -> None:
        simulated = self._nodes[node.name]
        simulated.on_event = self._on_event
        self._spawn(self._live(simulated))

    def begin(self, start: wire.ControllerStart) -> None:
        """Do nothing; simulated nodes have one controller."""

    def fence(self, reason: str) -> None:
        """Do nothing; simulated nodes have one controller."""

    async def remove(self, name: NodeName) -> None:
        return None

    def is_up(self, name: NodeName) -> bool:
        return self._nodes[name].up

    async def launch(self, name: NodeName, launch: wire.Launch, tree: PackedTree | None) -> None:
        node = self._nodes[name]
        key = (launch.job_id, launch.restarts)
        if not node.up:
            return
        if key in node.reports:
            self._on_event((name, node.reports[key]))
            return
        before = (launch.behind[0], launch.behind[1]) if launch.behind else None
        if before is not None and (self._is_open(node, before) or node.prefetched.holds(before)):
            node.prefetched.add(launch)
            asyncio.get_running_loop().call_later(launch.behind_s, self._revoke, node, {key})
        elif before is not None and before not in node.reports:
            node.on_event((name, wire.GivenBack(launches=[list(key)])))
        elif not node.prefetched.holds(key):
            self._begin(node, launch)

    def _begin(self, node: SimNode, launch: wire.Launch) -> None:
        key = (launch.job_id, launch.restarts)
        node.launches[key] = launch
        node.tasks[key] = asyncio.get_running_loop().create_task(self._run(node, launch, key))

    def _is_open(self, node: SimNode, key: Key) -> bool:
        """Return whether the launch holds resources here."""
        report = node.reports.get(key)
        return key in node.launches and (report is None or report.phase == "running")

    def _revoke(self, node: SimNode, keys: set[Key]) -> None:
        dropped = node.prefetched.drop(keys)
        if dropped and node.up:
            node.on_event((node.name, wire.GivenBack(launches=[list(key) for key in dropped])))

    async def reserve_port(self, name: NodeName, *, job_id: JobId, restarts: int) -> int:
        return 20_000

    async def open_step(
        self,
        name: NodeName,
        message: stepwire.OpenStep,
        sink: StreamSink,
        *,
        on_taken: Callable[[int], None],
    ) -> StepPipe:
        raise RemoteError(name, "the simulated cluster runs no steps")

    async def send(self, name: NodeName, message: NodeCommand) -> None:
        node = self._nodes[name]
        if isinstance(message, wire.TakeBack) and node.up:
            self._revoke(node, {(job_id, restarts) for job_id, restarts in message.launches})
        if not isinstance(message, wire.Kill | wire.Forget):
            return
        key = (message.job_id, message.restarts)
        if isinstance(message, wire.Forget):
            node.reports.pop(key, None)
            node.launches.pop(key, None)
        elif message.signal:
            if node.up and message.cause in (wire.SUSPENDED, wire.RESUMED):
                self._suspend(node, key, stop=message.cause == wire.SUSPENDED)
        elif node.prefetched.holds(key) and node.up:
            first, *others = node.prefetched.drop({key})
            node.on_event((name, wire.JobReport(*first, phase="exited", cause=message.cause)))
            node.on_event((name, wire.GivenBack(launches=[list(each) for each in others])))
        elif key in node.launches and node.up:
            if key in node.tasks:
                node.tasks.pop(key).cancel()
            node.due.pop(key, None)
            if node.reports.get(key) is None or node.reports[key].phase == "running":
                self._report(node, key, phase="exited", signal=15, cause=message.cause)

    async def check_health(self, name: NodeName, request: wire.AskHealth) -> wire.Health:
        if not self._nodes[name].up:
            raise RemoteError(name, "cut")
        checks = [wire.Check("disk", "ok", "simulated: nothing here can be full")]
        return wire.Health(at_unix=request.at_unix, checks=checks, asked_at_unix=request.at_unix)

    async def curves(self, name: NodeName, request: wire.AskCurves) -> wire.Curves:
        node = self._nodes[name]
        if not node.up:
            raise RemoteError(name, "cut")
        if not request.job_id:
            return wire.Curves(ask=request.ask, curves=self._node_curves(node, request.step_s))
        written = node.written.get((request.job_id, request.restarts))
        if written is None or request.step is not None:
            return wire.Curves(ask=request.ask)
        launch, report = written
        end = report.ended_at or self._clock()
        made = curve(launch, begin=report.started_at, end=end)
        return wire.Curves(
            ask=request.ask, curves=[made], gpu=gpu_usage(launch, begin=report.started_at, end=end)
        )

    async def evidence(self, name: NodeName, request: wire.AskEvidence) -> wire.Evidence:
        if not self._nodes[name].up:
            raise RemoteError(name, "cut")
        return wire.Evidence(ask=request.ask)

    async def past_state(self, name: NodeName, *, at_unix: float) -> wire.Moment:
        node = self._nodes[name]
        if not node.up:
            raise RemoteError(name, "cut")
        span = span_of(at_unix, since=self._since, now=self._clock())
        if span is None:
            return wire.Moment(ask=0, since_unix=self._since)
        then = {
            uuid: (launch, at_unix - report.started_at)
            for launch, report in node.written.values()
            if report.started_at <= at_unix <= (report.ended_at or self._clock())
            for uuid in launch.gpus
        }
        foreign_processes = [_foreign_processes(node, gpu, held=gpu.uuid in then) for gpu in node.gpus]
        return wire.Moment(
            ask=0,
            begin_unix=span[0],
            step_s=span[1],
            since_unix=self._since,
            cpu_pct=8 + 70.0 * len(then) / max(1, len(node.gpus)),
            mem_used_bytes=(64 + 90 * len(then)) * GIB,
            gpus=[
                gpu_then(
                    gpu.index, *then.get(gpu.uuid, (None, 0.0)), foreign_bytes=sum(seen.mem_bytes.values())
                )
                for gpu, seen in zip(node.gpus, foreign_processes, strict=True)
            ],
            strangers=foreign_processes,
        )

    def _node_curves(self, node: SimNode, step_s: float) -> list[wire.Curve]:
        """Return the node's curves as if its present launches had always been running."""
        samples = [self._sample(node) for _ in range(CURVE_POINTS)]
        begin = self._clock() - CURVE_POINTS * step_s
        cpus: list[float | None] = [sample.cpu_pct * node.cpus for sample in samples]
        own = wire.Curve(
            begin, step_s, cpu_pct=cpus, mem_bytes=[float(each.mem_used_bytes) for each in samples]
        )
        gpus = [
            wire.Curve(
                begin,
                step_s,
                gpu_util_pct=[sample.gpus[at].util_pct for sample in samples],
                gpu_mem_bytes=[sample.gpus[at].mem_used_bytes for sample in samples],
                gpu_power_w=[sample.gpus[at].power_w for sample in samples],
                uuid=gpu.uuid,
            )
            for at, gpu in enumerate(node.gpus)
        ]
        return [own, *gpus]

    async def known_launches(self, name: NodeName, launches: list[list[int]]) -> list[wire.KnownLaunch]:
        return []

    async def open_stream(self, name: NodeName, message: StreamRequest, sink: StreamSink) -> NodeStream:
        if isinstance(message, wire.OpenTunnel):
            raise RemoteError(name, "a simulated node has no ports and no processes")
        node = self._nodes[name]
        key = (message.job_id, message.restarts)
        if isinstance(message, wire.OpenLog):
            log = SimLogStream(node.written.get(key), message, sink, self._clock)
            self._spawn(log.run(lambda: node.written.get(key)))
            return log
        shell = self._shell(node, key)
        terminal = SimTerminalStream(shell, sink, on_exit=lambda: self._report(node, key, phase="exited"))
        self._spawn(terminal.run(lambda: self.runs(node, key)))
        return terminal

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def break_link(self, name: NodeName) -> None:
        """Break the link. The node's launches continue."""
        self._nodes[name].up = False
        self._on_event((name, "lost: cut"))

    def restore_link(self, name: NodeName) -> None:
        """Restore the link."""
        self._nodes[name].up = True
        self._on_event((name, self._welcome(self._nodes[name])))

    def runs(self, node: SimNode, key: Key) -> bool:
        """Return whether the launch runs and has not ended."""
        report = node.reports.get(key)
        return report is not None and report.phase == "running"

    async def _live(self, node: SimNode) -> None:
        self._on_event((node.name, self._welcome(node)))
        while True:
            if node.up:
                self._on_event((node.name, self._sample(node)))
            await asyncio.sleep(self._sample_s)

    def _welcome(self, node: SimNode) -> wire.Welcome:
        inventory = wire.Inventory(
            hostname=node.name,
            boot_id="simulated",
            cpus=node.cpus,
            mem_bytes=1024 * GIB,
            gpus=node.gpus,
            driver="simulated",
            kernel="simulated",
            containment="simulated: nothing really runs",
        )
        return wire.Welcome(build="simulated", inventory=inventory, jobs=list(node.reports.values()))

    async def _run(self, node: SimNode, launch: wire.Launch, key: Key) -> None:
        run_s, code = self._run_time(launch)
        await self._sleep(START_S)
        self._report(node, key, phase="running")
        limit_s = launch.time_limit_s
        if launch.role == "hold":
            return
        if limit_s is not None and run_s > limit_s:
            await self._end_after(node, key, limit_s, {"signal": 15, "cause": "timeout"})
        else:
            await self._end_after(node, key, run_s, {"exit_code": code, "ran_s": run_s})

    async def _end_after(self, node: SimNode, key: Key, left_s: float, facts: dict[str, Any]) -> None:
        node.due[key] = (self._clock() + left_s, facts)
        await self._sleep(left_s)
        node.due.pop(key, None)
        node.tasks.pop(key, None)
        self._report(node, key, phase="exited", **facts)

    def _suspend(self, node: SimNode, key: Key, *, stop: bool) -> None:
        """Stop the time of a launch, or continue with the remaining time."""
        report = node.reports.get(key)
        if report is None or report.phase != "running" or report.suspended == stop:
            return
        node.reports[key] = dataclasses.replace(report, suspended=stop)
        if key not in node.due:
            return  # The launch only holds resources.
        until, facts = node.due[key]
        if stop:
            node.tasks.pop(key).cancel()
            node.due[key] = (until - self._clock(), facts)
        else:
            facts.pop("ran_s", None)
            node.tasks[key] = asyncio.get_running_loop().create_task(
                self._end_after(node, key, max(0.0, until), facts)
            )

    def _report(
        self,
        node: SimNode,
        key: Key,
        *,
        phase: str,
        exit_code: int = 0,
        signal: int = 0,
        cause: str = "",
        ran_s: float | None = None,
    ) -> None:
        if key not in node.launches:
            return  # The controller has deleted its record in the meantime.
        before = node.reports.get(key)
        if before is not None and before.phase == "exited":
            return
        now, launch = self._clock(), node.launches[key]
        started_at = before.started_at if before else now
        ended_at = now if ran_s is None else min(now, started_at + ran_s)
        node.reports[key] = report = wire.JobReport(
            job_id=key[0],
            restarts=key[1],
            phase=phase,
            pid=10_000 + key[0],
            started_at=started_at,
            ended_at=ended_at if phase == "exited" else 0.0,
            exit_code=exit_code,
            signal=signal,
            cause=cause,
            stdout_path=launch.stdout or "simulated",
            work_dir="simulated",
            curve=curve(launch, begin=started_at, end=ended_at) if phase == "exited" else None,
            gpu=gpu_usage(launch, begin=started_at, end=ended_at) if phase == "exited" else None,
        )
        kept = dataclasses.replace(report, curve=None, gpu=None)  # Both are computed again on request.
        node.written[key] = (launch, kept)
        while len(node.written) > MAX_ENDED:
            del node.written[next(iter(node.written))]
        if node.up:
            node.on_event((node.name, report))
        successor = node.prefetched.next(key) if phase == "exited" else None
        if successor is not None:
            self._begin(node, successor)

    def _shell(self, node: SimNode, key: Key) -> SimShell:
        launch = node.launches[key]
        if key not in node.shells:
            node.shells[key] = SimShell(user=launch.user, host=node.name, gpus=len(launch.gpus))
        return node.shells[key]

    def _sample(self, node: SimNode) -> wire.Sample:
        holders = {
            uuid: launch
            for key, launch in node.launches.items()
            if self.runs(node, key)
            for uuid in launch.gpus
        }
        gpus = [self._gpu_sample(node, gpu, holders.get(gpu.uuid)) for gpu in node.gpus]
        busy = 4 + 70.0 * len(holders) / max(1, len(node.gpus)) + self._rng.uniform(0, 8)
        used_bytes = (64 + 90 * len(holders)) * GIB
        return wire.Sample(at_unix=self._clock(), cpu_pct=busy, mem_used_bytes=used_bytes, gpus=gpus)

    def _gpu_sample(self, node: SimNode, gpu: wire.GpuInfo, launch: wire.Launch | None) -> wire.GpuSample:
        foreign = node.foreign_processes.get(gpu.index)
        if launch is None and foreign is not None:
            return wire.GpuSample(
                index=gpu.index,
                util_pct=round(self._rng.uniform(10, 30)),
                mem_used_bytes=foreign.mem_bytes,
                power_w=180.0,
                temp_c=44,
                processes=[foreign],
            )
        if launch is None:
            return wire.GpuSample(
                index=gpu.index, util_pct=0, mem_used_bytes=0, power_w=72.0, temp_c=33, links=_links(0)
            )
        util = 0 if launch.pty else min(100, max(0, round(self._rng.gauss(88, 9))))
        size = held_bytes(launch)
        process = wire.GpuProcess(
            pid=10_000 + launch.job_id,
            mem_bytes=size,
            job_id=launch.job_id,
            user=launch.user,
            command="python",
        )
        return wire.GpuSample(
            index=gpu.index,
            util_pct=util,
            mem_used_bytes=size,
            power_w=80 + 6.0 * util,
            temp_c=35 + util // 3,
            processes=[process],
            links=_links(util),
        )

    def _spawn(self, work: Awaitable[None]) -> asyncio.Task[None]:
        async def run() -> None:
            await work

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
