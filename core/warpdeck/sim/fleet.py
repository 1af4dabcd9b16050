"""controller.ports.Fleet without nodes: launches run for a while and end, GPUs show the load of the jobs they hold.

Everything random comes from the injected generator, time from the event loop. Nothing here is real but the messages.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from warpdeck.controller.ports import FleetEvent, NodeStream, PackedTree, StreamSink
from warpdeck.errors import RemoteError
from warpdeck.model import Node, NodeName
from warpdeck_agent.wire import messages as wire

GIB = 2**30
START_S = 0.02
SAMPLE_S = 1.0
EPOCH_S = 1.0
Key = tuple[int, int]


class SimNode:
    """A node's GPUs and what is launched on it."""

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
        self.up = True
        self.tell: Callable[[FleetEvent], None] = lambda event: None
        """Whoever is connected now: what runs here outlives a fleet, as on a real node."""


class SimFleet:
    """Nodes that exist in memory. `run_time` tells how long a launch runs and with which exit code."""

    def __init__(
        self,
        nodes: list[SimNode],
        *,
        clock: Callable[[], float],
        rng: random.Random,
        run_time: Callable[[wire.Launch], tuple[float, int]],
    ) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._clock = clock
        self._rng = rng
        self._run_time = run_time
        self._on_event: Callable[[FleetEvent], None] = lambda event: None
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, on_event: Callable[[FleetEvent], None]) -> None:
        self._on_event = on_event

    async def add(
        self, node: Node, *, accept_host_key: str, progress: Callable[[str], Awaitable[None]]
    ) -> tuple[Node, wire.Welcome]:
        raise RemoteError(node.name, "the simulated cluster has no hosts to add")

    def connect(self, node: Node) -> None:
        simulated = self._nodes[node.name]
        simulated.tell = self._on_event
        self._spawn(self._live(simulated))

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
        node.launches[key] = launch
        node.tasks[key] = asyncio.get_running_loop().create_task(self._run(node, launch, key))

    async def send(self, name: NodeName, message: wire.Kill | wire.Forget) -> None:
        node = self._nodes[name]
        key = (message.job_id, message.restarts)
        if isinstance(message, wire.Forget):
            node.reports.pop(key, None)
            node.launches.pop(key, None)
        elif not message.signal and key in node.launches and node.up:
            if key in node.tasks:
                node.tasks.pop(key).cancel()
            if node.reports.get(key) is None or node.reports[key].phase == "running":
                self._report(node, key, phase="exited", signal=15, cause=message.cause)

    async def open_stream(
        self, name: NodeName, message: wire.OpenLog | wire.OpenPty, sink: StreamSink
    ) -> NodeStream:
        stream = SimStream(self, self._nodes[name], message, sink, self._clock)
        self._spawn(stream.run())
        return stream

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def lose(self, name: NodeName) -> None:
        """The link breaks; what runs there goes on."""
        self._nodes[name].up = False
        self._on_event((name, "lost: cut"))

    def find(self, name: NodeName) -> None:
        """The link is back."""
        self._nodes[name].up = True
        self._on_event((name, self._welcome(self._nodes[name])))

    def runs(self, node: SimNode, key: Key) -> bool:
        """Whether the launch has not ended."""
        said = node.reports.get(key)
        return said is not None and said.phase == "running"

    async def _live(self, node: SimNode) -> None:
        self._on_event((node.name, self._welcome(node)))
        while True:
            await asyncio.sleep(SAMPLE_S)
            if node.up:
                self._on_event((node.name, self._sample(node)))

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
        await asyncio.sleep(START_S)
        self._report(node, key, phase="running")
        limit_s = launch.time_limit_s
        if launch.role == "hold":
            return
        if limit_s is not None and run_s > limit_s:
            await asyncio.sleep(limit_s)
            self._report(node, key, phase="exited", signal=15, cause="timeout")
        else:
            await asyncio.sleep(run_s)
            self._report(node, key, phase="exited", exit_code=code)

    def _report(
        self, node: SimNode, key: Key, *, phase: str, exit_code: int = 0, signal: int = 0, cause: str = ""
    ) -> None:
        if key not in node.launches:
            return  # the controller has let it go meanwhile
        before = node.reports.get(key)
        node.reports[key] = said = wire.JobReport(
            job_id=key[0],
            restarts=key[1],
            phase=phase,
            pid=10_000 + key[0],
            started_at=before.started_at if before else self._clock(),
            ended_at=self._clock() if phase == "exited" else 0.0,
            exit_code=exit_code,
            signal=signal,
            cause=cause,
            stdout_path=node.launches[key].stdout or "simulated",
            work_dir="simulated",
        )
        if node.up:
            node.tell((node.name, said))

    def _sample(self, node: SimNode) -> wire.Sample:
        holders = {
            uuid: launch
            for key, launch in node.launches.items()
            if self.runs(node, key)
            for uuid in launch.gpus
        }
        gpus = [self._gpu_sample(gpu, holders.get(gpu.uuid)) for gpu in node.gpus]
        busy = 100.0 * len(holders) / max(1, len(node.gpus))
        return wire.Sample(at_unix=self._clock(), cpu_pct=busy, mem_used_bytes=64 * GIB, gpus=gpus)

    def _gpu_sample(self, gpu: wire.GpuInfo, launch: wire.Launch | None) -> wire.GpuSample:
        if launch is None:
            return wire.GpuSample(index=gpu.index, util_pct=0, mem_used_bytes=0, power_w=72.0, temp_c=33)
        forgotten = "notebook" in launch.env.get("SLURM_JOB_NAME", "")
        util = 0 if forgotten else min(100, max(0, round(self._rng.gauss(88, 9))))
        size = (30 + (launch.job_id * 7) % 45) * GIB
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
        )

    def _spawn(self, work: Awaitable[None]) -> asyncio.Task[None]:
        async def run() -> None:
            await work

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class SimStream:
    """A log that a training might write, or a terminal that says what it is."""

    def __init__(
        self,
        fleet: SimFleet,
        node: SimNode,
        asked: wire.OpenLog | wire.OpenPty,
        sink: StreamSink,
        clock: Callable[[], float],
    ) -> None:
        self._fleet = fleet
        self._node = node
        self._asked = asked
        self._sink = sink
        self._clock = clock
        self._closed = False

    async def run(self) -> None:
        """Writes an epoch a second, from the job's start on."""
        key = (self._asked.job_id, self._asked.restarts)
        said = self._node.reports.get(key)
        await self._sink.opened(0, 0, "simulated")
        epoch = 0
        while said is not None and not self._closed:
            until = self._clock() if self._fleet.runs(self._node, key) else said.ended_at or self._clock()
            while epoch < (until - said.started_at) / EPOCH_S:
                epoch += 1
                await self._sink.data(self._line(epoch).encode())
            if not getattr(self._asked, "follow", True) or not self._fleet.runs(self._node, key):
                break
            await asyncio.sleep(EPOCH_S / 4)
            said = self._node.reports.get(key, said)
        await self._sink.ended("")

    def _line(self, epoch: int) -> str:
        loss = 2.3 / (1 + 0.08 * epoch) + 0.01 * ((epoch * 37 + self._asked.job_id) % 7)
        done = "█" * (epoch % 10)
        return f"epoch {epoch:4d}  loss {loss:.4f}  {done:<10} {3.1 + (epoch % 5) / 10:.1f} it/s\n"

    async def write(self, data: bytes) -> None:
        await self._sink.data(b"(the demo has no real shell)\r\n")

    async def resize(self, rows: int, cols: int) -> None:
        return None

    async def close(self) -> None:
        self._closed = True
