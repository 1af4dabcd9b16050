"""Run the app with Textual's Pilot against a real controller over a simulated fleet, in a separate home."""

from __future__ import annotations

import asyncio
import os
import pwd
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.waiting import WAIT_S
from tests.tui.widgets.widget_pilot import Recorder
from textual.css.query import NoMatches
from textual.pilot import Pilot
from textual.widgets import Input

from warpdeck.base.paths import Paths
from warpdeck.controller.events.events import Submitted
from warpdeck.controller.loop.controller import Controller
from warpdeck.model import ArraySpec, GpuRequest, Job, NodeName, PtySize, Request, Resources
from warpdeck.ports.caller import Principal
from warpdeck.ports.engine import Engine
from warpdeck.ports.store import Store
from warpdeck.sim.clock import SimClock
from warpdeck.sim.demo import simulated
from warpdeck.sim.fleet import SimNode
from warpdeck.store import MemoryStore
from warpdeck_agent.wire import messages as wire
from warpdeck_tui.app import DeckApp

_PAUSE_S = 0.02
HOPS = 6
"""Number of message queues that a key may pass: of the app, of the focused widget, and of its ancestors."""
ME = pwd.getpwuid(os.geteuid()).pw_name


class Cluster:
    """Nodes of four GPUs. The controller can be stopped and restarted; store and nodes remain."""

    def __init__(
        self,
        home: Path,
        store: Store | None = None,
        adapt: Callable[[Engine], Engine] = lambda engine: engine,
        nodes: int = 2,
    ) -> None:
        home.mkdir(mode=0o700, exist_ok=True)
        self.paths = Paths(str(home))
        self.nodes = [
            SimNode(NodeName(f"gpu{number:02d}"), gpus=4, cpus=16) for number in range(1, nodes + 1)
        ]
        self.store: Store = store or MemoryStore()
        self._adapt = adapt
        self.ends: dict[str, tuple[float, int]] = {}
        """Run time in seconds and exit code by job name. Other jobs run for an hour."""
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._controller: Controller | None = None

    @property
    def controller(self) -> Controller:
        assert self._controller is not None
        return self._controller

    async def start(self) -> None:
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(self._serve(started))
        await asyncio.wait({self._task, started}, return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            self._task.result()

    async def stop(self) -> None:
        self._stop.set()
        if self._task is not None:
            await self._task

    async def submit(self, name: str = "job", *, user: str = ME, **fields: object) -> Job:
        """Submit a job with one GPU. `fields` are fields of the Request."""
        fields.setdefault("resources", Resources(gpus=GpuRequest(per_node=1)))
        if "argv" not in fields:
            fields.setdefault("script", "#!/bin/sh\necho hello\n")
        request = Request(name=name, **fields)  # type: ignore[arg-type]
        outcome = await self.controller.apply(
            Submitted(principal=Principal(user=user, uid=os.geteuid()), request=request)
        )
        assert outcome.job is not None
        return outcome.job

    async def submit_shell(self) -> Job:
        """Submit an interactive session."""
        return await self.submit("shell", argv=("bash",), pty=PtySize())

    async def submit_array(self, *, tasks: int, at_once: int) -> Job:
        """Submit an array of which `at_once` tasks run while the others wait."""
        return await self.submit("sweep", array=ArraySpec(ranges=((0, tasks - 1, 1),), throttle=at_once))

    async def _serve(self, started: asyncio.Future[None]) -> None:
        cluster = simulated(
            self.paths,
            self.nodes,
            store=self.store,
            rng=random.Random(1),
            clock=SimClock(),
            run_time=self._run_time,
            stop=self._stop,
            adapt=self._adapt,
        )
        async with cluster as (self._controller, server):
            await server.start()
            started.set_result(None)
            await self._stop.wait()

    def _run_time(self, launch: wire.Launch) -> tuple[float, int]:
        return self.ends.get(launch.env["SLURM_JOB_NAME"], (3600.0, 0))


class AppPilot:
    """The running app: presses keys, and reads the text of its screen."""

    def __init__(self, app: DeckApp, pilot: Pilot[None], cluster: Cluster) -> None:
        self.app = app
        self.pilot = pilot
        self.cluster = cluster

    async def press(self, *keys: str) -> None:
        """Press keys by Textual's names. Each key waits for the immediate effect of the previous one (a dialog)."""
        await self.settle()
        for key in keys:
            await self.pilot.press(key)
            await self.settle()

    async def settle(self) -> None:
        """Wait until all message queues are empty.

        One call of Pilot is not enough: it mistakes a process without CPU time for an idle one.
        """
        for _ in range(HOPS):
            await self.pilot._wait_for_screen()

    async def type(self, text: str) -> None:
        """Type text into the focused widget."""
        await self.press(*(NAMES.get(char, char) for char in text))

    async def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait for a condition. A failure shows the text of the screen.

        A condition about a widget of a screen that is not composed yet does not hold.
        """
        deadline = asyncio.get_running_loop().time() + WAIT_S

        def has_come() -> bool:
            try:
                return bool(holds())
            except NoMatches:
                return False

        while not has_come():
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(f"still not true after {WAIT_S:.0f} s: {what}\n{self.text()}")
            await self.pilot.pause(_PAUSE_S)

    async def shows(self, *words: str) -> None:
        """Wait until the screen contains all these texts."""

        def are_shown() -> bool:
            text = self.text()
            return all(word in text for word in words)

        await self.until(are_shown, f"{words} on the screen")

    async def hides(self, *words: str) -> None:
        """Wait until the screen contains none of these texts."""

        def are_gone() -> bool:
            text = self.text()
            return not any(word in text for word in words)

        await self.until(are_gone, f"{words} gone")

    async def shows_notification(self, words: str) -> None:
        """Wait for a notification with this text."""
        await self.until(
            lambda: words in self.notifications(),
            f"a notification with {words!r}, not {self.notifications()!r}",
        )

    def notifications(self) -> str:
        """Return the texts of all visible notifications."""
        return "\n".join(each.message for each in self.app._notifications)

    def text(self) -> str:
        """Return the text of the screen, line by line."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip) for strip in strips)

    def written(self) -> str:
        """Return the output to the terminal since the last call."""
        assert isinstance(self.app._driver, Recorder)
        text = "".join(self.app._driver.written)
        self.app._driver.written.clear()
        return text

    def line(self, number: int) -> str:
        """Return a line of the screen; -1 is the last one."""
        return self.text().splitlines()[number]

    def field(self, name: str) -> Input:
        """Return a field of the front dialog."""
        return self.app.screen.query_one(f"#{name}", Input)

    def job(self, job: Job) -> Job:
        """Return the controller's current record of the job."""
        return self.cluster.controller.state.jobs[job.id]


NAMES = {" ": "space", "/": "slash", ".": "full_stop", "-": "minus", ":": "colon", "=": "equals_sign"}
NAMES |= {"_": "underscore", ">": "greater_than_sign", "!": "exclamation_mark", "'": "apostrophe"}


@asynccontextmanager
async def run_app(
    folder: Path,
    *,
    size: tuple[int, int] = (100, 30),
    writes: bool = False,
    toasts: bool = False,
    store: Store | None = None,
    adapt: Callable[[Engine], Engine] = lambda engine: engine,
    nodes: int = 2,
    **options: Any,
) -> AsyncIterator[AppPilot]:
    """Run the app, connected to a running cluster.

    `writes` records the output to the terminal for `written`. `toasts` draws notifications, too. `adapt` returns
    the engine that the server uses, such as an `OtherScheduler`. `nodes` is the number of nodes.
    """
    cluster = Cluster(folder / "home", store, adapt, nodes)
    await cluster.start()
    app = DeckApp(cluster.paths, **options)
    if writes:
        app.driver_class = Recorder
    try:
        async with app.run_test(size=size, headless=not writes, notifications=toasts) as pilot:
            ui = AppPilot(app, pilot, cluster)
            await ui.until(lambda: app.board.ready, "the app has received all rows")
            yield ui
            app.workers.cancel_all()
    finally:
        await cluster.stop()
