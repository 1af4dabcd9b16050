"""Run a controller with its socket in this process, with simulated nodes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

from tests.support.core import ANN, Agent, make_request
from tests.support.waiting import WAIT_S, eventually_async

from warpdeck.base.errors import RemoteError
from warpdeck.base.paths import Paths
from warpdeck.client.asyncio_client import AsyncioClient
from warpdeck.config import Config
from warpdeck.controller.events.effects import Effect
from warpdeck.controller.events.events import NodeAdded, NodeUp, Reported, Submitted
from warpdeck.controller.launch.code_trees import TreeFiles
from warpdeck.controller.loop.adapters import Adapters
from warpdeck.controller.loop.controller import Controller
from warpdeck.controller.loop.site_rules import GROUPS_S, GroupsOf, unix_groups
from warpdeck.engines.native.engine import native_engine
from warpdeck.model import Job, JobId, Node, NodeName
from warpdeck.ports.ports import OutputCollector
from warpdeck.ports.store import Store
from warpdeck.server.server import ApiServer
from warpdeck.sim.demo import NoOutputs
from warpdeck.store import MemoryStore
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire.frames import JSON, json_frame, parse_json, read_frame


class QuietPipe:
    """Implements controller.ports.StepPipe and NodeStream. Discards all data."""

    def write_piece(self, piece: bytes) -> None:
        return None

    async def close(self) -> None:
        return None


class QuietFleet:
    """Implements ports.ports.Fleet without any connection."""

    def __init__(self) -> None:
        self.launches: list[wire.Launch] = []
        self.measured: wire.Curves | None = None
        """Measurements that every node returns."""
        self.evidence_of: dict[str, wire.Evidence] = {}
        self.moments: dict[str, wire.Moment | RemoteError] = {}
        """Past state of nodes, for any requested time. Other nodes return no measurements."""
        self.checks: list[wire.Check] = []
        """Health checks that every node returns."""
        self.sent: list[Any] = []
        self.joined: list[Any] = []
        """Readers of the streams of jobs and steps."""

    def start(self, on_event: Callable[[Any], None], wait_processed: Any) -> None:
        return None

    async def add(self, node: Node, **_: Any) -> Any:
        raise AssertionError("no test adds hosts here")

    def connect(self, node: Node) -> None:
        return None

    def begin(self, start: wire.ControllerStart) -> None:
        return None

    def fence(self, reason: str) -> None:
        return None

    async def remove(self, name: NodeName) -> None:
        return None

    def is_up(self, name: NodeName) -> bool:
        return True

    async def launch(self, name: NodeName, launch: wire.Launch, tree: Any) -> None:
        self.launches.append(launch)

    async def reserve_port(self, name: NodeName, *, job_id: JobId, restarts: int) -> int:
        raise AssertionError("no test reserves ports here")

    async def send(self, name: NodeName, message: Any) -> None:
        self.sent.append(message)

    async def check_health(self, name: NodeName, request: wire.AskHealth) -> wire.Health:
        return wire.Health(at_unix=request.at_unix, asked_at_unix=request.at_unix, checks=self.checks)

    async def curves(self, name: NodeName, request: wire.AskCurves) -> wire.Curves:
        return self.measured or wire.Curves(ask=request.ask)

    async def past_state(self, name: NodeName, *, at_unix: float) -> wire.Moment:
        answer = self.moments.get(name, wire.Moment(ask=0))
        if isinstance(answer, RemoteError):
            raise answer
        return answer

    async def evidence(self, name: NodeName, request: wire.AskEvidence) -> wire.Evidence:
        return self.evidence_of.get(name, wire.Evidence(ask=0))

    async def known_launches(self, name: NodeName, launches: list[list[int]]) -> list[wire.KnownLaunch]:
        return []

    async def open_stream(self, name: NodeName, message: Any, sink: Any) -> Any:
        self.joined.append(sink)
        return QuietPipe()

    async def open_step(self, name: NodeName, message: Any, sink: Any, **_: Any) -> QuietPipe:
        self.joined.append(sink)
        return QuietPipe()

    async def close(self) -> None:
        return None


class Served:
    """The controller, its paths, and simulated agents of its nodes."""

    def __init__(self, controller: Controller, server: ApiServer, paths: Paths, fleet: QuietFleet) -> None:
        self.controller = controller
        self.fleet = fleet
        self.server = server
        self.paths = paths

    async def add_node(self, name: str) -> Agent:
        agent = Agent(name)
        await self.controller.apply(NodeAdded(node=Node(name=agent.name)))
        await self.controller.apply(NodeUp(name=agent.name, welcome=agent.welcome()))
        return agent

    async def start_job(self) -> tuple[Job, Agent]:
        """Add a node, run a job on it, and return the job and the node's agent."""
        agent = await self.add_node("a")
        outcome = await self.controller.apply(Submitted(principal=ANN, request=make_request()))
        assert outcome.job is not None
        await self.until(lambda: bool(self.fleet.launches))
        await self.report("a", agent.begin((outcome.job.id, 0)))
        return outcome.job, agent

    async def report(self, name: str, report: wire.JobReport) -> tuple[Effect, ...]:
        outcome = await self.controller.apply(Reported(name=NodeName(name), report=report))
        return outcome.effects

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until the condition on the state or on the recorded calls of the fleet holds."""
        await eventually_async(reached, what="a state of the controller or a call of the fleet")

    def client(self) -> Any:
        """Return a connected asyncio client."""
        return AsyncioClient.connect(self.paths, start=False)


@contextlib.asynccontextmanager
async def served(
    home: Path,
    *,
    store: Store | None = None,
    fleet: QuietFleet | None = None,
    outputs: OutputCollector | None = None,
    config: Config | None = None,
    groups_of: GroupsOf = unix_groups,
    groups_every_s: float = GROUPS_S,
    clock: Callable[[], float] = time.time,
    **settings: Any,
) -> AsyncIterator[Served]:
    """Run a controller with `config`, or with the default configuration and changed `settings`."""
    home.mkdir()
    for folder in (home.parent, home):
        folder.chmod(0o711)  # lets other users connect
    paths = Paths(str(home))
    trees = TreeFiles(paths.trees)
    fleet = fleet or QuietFleet()
    adapters = Adapters(
        store=store or MemoryStore(),
        fleet=fleet,
        trees=trees,
        outputs=outputs or NoOutputs(),
        clock=clock,
        submit_host="test",
    )
    controller = Controller(
        adapters,
        config=config or Config(**settings),
        groups_of=groups_of,
        groups_every_s=groups_every_s,
    )
    await controller.load()
    engine = native_engine(controller, trees, config_path=paths.config)
    server = ApiServer(engine, paths, stop=asyncio.Event(), clock=clock)
    task = asyncio.get_running_loop().create_task(controller.run())
    await server.start()
    try:
        yield Served(controller, server, paths, fleet)
    finally:
        await server.close()
        task.cancel()
        await asyncio.wait([task])


@contextlib.contextmanager
def as_uid(uid: int) -> Iterator[None]:
    """Let this process act as another user. This needs root unless it already is that user."""
    if uid == os.geteuid():
        yield
        return
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


class Raw:
    """A client that can send any message."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, paths: Paths, *, uid: int | None = None, hello: bool = True) -> Raw:
        with as_uid(os.geteuid() if uid is None else uid):
            link = socket.socket(socket.AF_UNIX)
            link.connect(paths.socket)
        raw = cls(*await asyncio.open_unix_connection(sock=link))
        if hello:
            raw.send("hello", version=1)
            assert (await raw.next())["t"] == "welcome"
        return raw

    def send(self, t: str, **fields: Any) -> None:
        self.writer.write(json_frame({"t": t, **fields}))

    def write(self, data: bytes) -> None:
        self.writer.write(data)

    async def next(self) -> dict[str, Any]:
        """Return the next message."""
        async with asyncio.timeout(WAIT_S):
            kind, payload = await read_frame(self.reader)
        assert kind == JSON
        return parse_json(payload)

    async def request(self, t: str, *, number: int = 1, **fields: Any) -> dict[str, Any]:
        """Send one request and return its answer."""
        self.send(t, id=number, **fields)
        while (message := await self.next()).get("id") != number or message["t"] == "progress":
            continue
        return message

    async def rest(self) -> list[dict[str, Any]]:
        """Return all messages up to the end of the connection."""
        found = []
        try:
            while True:
                found.append(await self.next())
        except (asyncio.IncompleteReadError, ConnectionError):
            return found

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


def frame(payload: bytes, *, length: int | None = None, kind: bytes = b"J") -> bytes:
    """Return a frame, optionally with a wrong length."""
    return struct.pack(">I", len(payload) if length is None else length) + kind + payload
