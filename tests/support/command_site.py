"""A controller and Slurm's commands in one thread, without a socket. Tests play the part of the nodes.

The controller, its requests and answers, and the commands are the real ones. Only the bytes between them go through
memory.
"""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from tests.support.core import ROOT, Agent
from tests.support.served import QuietFleet, Served
from tests.support.waiting import WAIT_S

from warpdeck.base.paths import Paths
from warpdeck.client.blocking_client import SyncClient
from warpdeck.client.submission import draft_script
from warpdeck.config import decode
from warpdeck.controller.events.effects import Outcome
from warpdeck.controller.events.events import Event, NodeAdded, NodeUp, Reported
from warpdeck.controller.launch.code_trees import TreeFiles
from warpdeck.controller.loop.adapters import Adapters
from warpdeck.controller.loop.controller import Controller
from warpdeck.engines.native.engine import native_engine
from warpdeck.model import Job, JobId, Node
from warpdeck.ports.caller import Caller, Principal
from warpdeck.server.connection import Connection
from warpdeck.server.handlers import Handlers
from warpdeck.server.server import ApiServer
from warpdeck.sim.demo import NoOutputs
from warpdeck.slurm.console.console import Console, ControllerAccess, StandardStreams
from warpdeck.slurm.runtime.commands import run
from warpdeck.store import MemoryStore
from warpdeck_agent.wire import messages as wire

T = TypeVar("T")
HOST = "login"
PAUSE_S = 0.002
"""Time for which the controller runs before a condition is checked again."""


class Printed(NamedTuple):
    """Result of a command."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of the standard output."""
        return self.out.splitlines()


class _Pipe(asyncio.Transport):
    """Keeps the bytes that a connection of the controller writes."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.has_bytes = asyncio.Event()
        self._is_closed = False

    def write(self, data: Any) -> None:
        self.written += data
        self.has_bytes.set()

    def is_closing(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        self._is_closed = True
        self.has_bytes.set()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is buffered."""

    def get_write_buffer_size(self) -> int:
        return 0


class _Link:
    """The client's end of a connection, with the methods of a socket. Reading runs the controller's loop."""

    def __init__(self, site: CommandSite, who: Principal) -> None:
        self._loop = site.loop
        self._reader = asyncio.StreamReader(loop=self._loop)
        self._pipe = _Pipe()
        protocol = asyncio.StreamReaderProtocol(self._reader, loop=self._loop)
        writer = asyncio.StreamWriter(self._pipe, protocol, self._reader, self._loop)
        connection = Connection(
            site.served.server, self._reader, writer, Caller(who), Handlers(site.engine).handle
        )
        self._task = self._loop.create_task(connection.run())

    def sendall(self, data: bytes) -> None:
        self._reader.feed_data(data)

    def recv(self, size: int) -> bytes:
        self._loop.run_until_complete(self._pipe.has_bytes.wait())
        self._pipe.has_bytes.clear()
        received = bytes(self._pipe.written)
        self._pipe.written.clear()
        return received

    def settimeout(self, timeout_s: float) -> None:
        """The controller answers at once, or the test fails."""

    def close(self) -> None:
        self._task.cancel()


class _Client(SyncClient):
    """The blocking client, which here need not wait for a socket."""

    def _data_arrives(self, wait_s: float) -> bool:
        return True  # Reading the link runs the controller until it answers.


class CommandSite:
    """A controller with this configuration, whose nodes are up. The caller of a command is root by default.

    The controller's clock stands still at `now`, which is the time at which the site was made until a test changes it.
    """

    def __init__(
        self, folder: Path, *, config: str = "", nodes: Sequence[str] = ("n1", "n2"), now: float | None = None
    ) -> None:
        self.folder = folder
        self.now = float(int(time.time())) if now is None else now
        self.loop = asyncio.new_event_loop()
        paths = Paths(str(folder))
        Path(paths.config).write_text(config)
        trees = TreeFiles(paths.trees)
        fleet = QuietFleet()
        adapters = Adapters(
            store=MemoryStore(),
            fleet=fleet,
            trees=trees,
            outputs=NoOutputs(),
            clock=lambda: self.now,
            submit_host=HOST,
        )
        controller = Controller(adapters, config=decode(config, "config.toml").config)
        self.engine = native_engine(controller, trees, config_path=paths.config)
        server = ApiServer(self.engine, paths, stop=asyncio.Event(), clock=lambda: self.now)
        self.served = Served(controller, server, paths, fleet)
        self.do(controller.load())
        self._running = self.loop.create_task(controller.run())
        self.agents: dict[str, Agent] = {}
        self._links: list[_Link] = []
        for name in nodes:
            self.add_node(Agent(name))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.close()

    # ---- The controller

    def do(self, work: Awaitable[T]) -> T:
        """Run the controller until this is done."""

        async def done() -> T:
            return await work

        return self.loop.run_until_complete(done())

    def apply(self, event: Event) -> Outcome:
        return self.do(self.served.controller.apply(event))

    def job(self, job_id: int) -> Job:
        return self.served.controller.state.jobs[JobId(job_id)]

    def until(self, reached: Callable[[], bool], *, what: str) -> None:
        """Run the controller until the condition holds. The condition may run commands."""
        deadline = time.monotonic() + WAIT_S
        while not reached():
            assert time.monotonic() < deadline, f"still not so after {WAIT_S} s: {what}"
            self.do(asyncio.sleep(PAUSE_S))

    # ---- Nodes and jobs

    def add_node(self, agent: Agent, welcome: wire.Welcome | None = None) -> None:
        self.agents[agent.name] = agent
        self.apply(NodeAdded(node=Node(name=agent.name)))
        self.apply(NodeUp(name=agent.name, welcome=welcome or agent.welcome()))

    def submit(self, *options: str, user: Principal = ROOT, script: str = "sleep 1000") -> int:
        """Submit a script with sbatch's options, and return the job's number."""
        draft = draft_script(
            f"#!/bin/sh\n{script}\n",
            "wrap",
            options=options,
            cwd="/home/ann",
            environ={},
            now=self.now,
        )
        return int(self.connect(user).call("submit", request=draft.request)["job_id"])

    def start(self, *options: str, user: Principal = ROOT, script: str = "sleep 1000") -> int:
        """Submit a script, and let the nodes report that it runs."""
        number = self.submit(*options, user=user, script=script)
        self.until(lambda: self.job(number).allocation is not None, what=f"job {number} gets nodes")
        self.report(number, phase="running", started_at=self.now)
        return number

    def end(self, job_id: int, **facts: Any) -> None:
        """Let all nodes of the job report that it has ended so."""
        self.report(job_id, **{"phase": "exited", "ended_at": self.now, **facts})

    def report(self, job_id: int, **facts: Any) -> None:
        """Let all nodes of the job report these facts."""
        job = self.job(job_id)
        said = wire.JobReport(job.id, job.restarts, **facts)
        for share in job.shares:
            self.apply(Reported(name=share.node, report=said))

    # ---- Commands

    def connect(self, user: Principal = ROOT) -> SyncClient:
        """Return a client of this user."""
        link: Any = _Link(self, user)
        self._links.append(link)  # Nothing else keeps its task.
        return _Client.over(link)

    def run(
        self, line: str, *, user: Principal = ROOT, env: Mapping[str, str] | None = None, data: str = ""
    ) -> Printed:
        """Run a command line, whose words are separated by single spaces, with `data` as its input."""
        return self.run_words(line.split(" "), user=user, env=env, data=data)

    def run_words(
        self,
        words: list[str],
        *,
        user: Principal = ROOT,
        env: Mapping[str, str] | None = None,
        data: str = "",
    ) -> Printed:
        """Run a command as a process of a job would."""
        out, err = io.StringIO(), io.StringIO()
        console = Console(
            streams=StandardStreams(io.StringIO(data), out, err),
            controller=ControllerAccess(lambda: self.connect(user)),
            env=env or {},
            folder="/home/ann",
            user=user.user,
            host=HOST,
            read_file=_no_file,
        )
        code = run(words[0], words[1:], console)
        return Printed(code, out.getvalue(), err.getvalue())


def _no_file(path: str, size: int) -> bytes:
    raise FileNotFoundError(path)
