"""The app on a stage: driven by Pilot against a real controller over a simulated fleet, in a home of its own."""

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
from tests.tui.widgets.stage import Recorder
from textual.pilot import Pilot
from textual.widgets import Input

from warpdeck.base.paths import Paths
from warpdeck.controller.events.events import Submitted
from warpdeck.controller.loop.controller import Controller
from warpdeck.model import ArraySpec, GpuRequest, Job, NodeName, PtySize, Request, Resources
from warpdeck.ports.caller import Principal
from warpdeck.ports.ports import Store
from warpdeck.sim.clock import SimClock
from warpdeck.sim.demo import simulated
from warpdeck.sim.fleet import SimNode
from warpdeck.store import MemoryStore
from warpdeck_agent.wire import messages as wire
from warpdeck_tui.app import DeckApp

_PAUSE_S = 0.02
HOPS = 6
"""From queue to queue until a key is dealt with: the app's, that of the widget in focus, and those above it."""
ME = pwd.getpwuid(os.geteuid()).pw_name


class Cluster:
    """Two nodes of four GPUs. The controller can be stopped and started again; store and nodes stay."""

    def __init__(self, home: Path, store: Store | None = None) -> None:
        home.mkdir(mode=0o700, exist_ok=True)
        self.paths = Paths(str(home))
        self.nodes = [SimNode(NodeName(f"gpu{number:02d}"), gpus=4, cpus=16) for number in (1, 2)]
        self.store: Store = store or MemoryStore()
        self.ends: dict[str, tuple[float, int]] = {}
        """(seconds, exit code) by the job's name; others run for an hour."""
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
        """A job of one GPU unless `fields` of the Request say otherwise."""
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
        """An interactive session."""
        return await self.submit("shell", argv=("bash",), pty=PtySize())

    async def submit_array(self, *, tasks: int, at_once: int) -> Job:
        """An array of which `at_once` tasks run and the rest waits."""
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
        )
        async with cluster as (self._controller, server):
            await server.start()
            started.set_result(None)
            await self._stop.wait()

    def _run_time(self, launch: wire.Launch) -> tuple[float, int]:
        return self.ends.get(launch.env["SLURM_JOB_NAME"], (3600.0, 0))


class Stage:
    """The app, its keyboard, and what it shows."""

    def __init__(self, app: DeckApp, pilot: Pilot[None], cluster: Cluster) -> None:
        self.app = app
        self.pilot = pilot
        self.cluster = cluster

    async def press(self, *keys: str) -> None:
        """Keys by Textual's names, each when the one before it has done what it does at once (opened a dialog, say)."""
        await self.settle()
        for key in keys:
            await self.pilot.press(key)
            await self.settle()

    async def settle(self) -> None:
        """Until what has happened is known to all whom it concerns. Pilot takes a process that gets no CPU for one that has
        done its work."""
        for _ in range(HOPS):
            await self.pilot._wait_for_screen()

    async def type(self, text: str) -> None:
        """Text into whatever has the focus."""
        await self.press(*(NAMES.get(char, char) for char in text))

    async def until(self, holds: Callable[[], object], what: str) -> None:
        """Waits for a condition; fails with what the screen shows."""
        deadline = asyncio.get_running_loop().time() + WAIT_S
        while not holds():
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(f"not so after {WAIT_S:.0f} s: {what}\n{self.text()}")
            await self.pilot.pause(_PAUSE_S)

    async def shows(self, *words: str) -> None:
        """Waits until all these words are on the screen."""
        await self.until(lambda: all(word in self.text() for word in words), f"{words} on the screen")

    async def hides(self, *words: str) -> None:
        """Waits until none of these words is on the screen."""
        await self.until(lambda: not any(word in self.text() for word in words), f"{words} gone")

    async def told(self, words: str) -> None:
        """Waits for a notice with these words."""
        await self.until(lambda: words in self.notices(), f"a notice with {words!r}, not {self.notices()!r}")

    def notices(self) -> str:
        """All notices that can still be seen."""
        return "\n".join(each.message for each in self.app._notifications)

    def text(self) -> str:
        """What the screen shows, line by line."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip) for strip in strips)

    def written(self) -> str:
        """What was written to the terminal since the last call."""
        assert isinstance(self.app._driver, Recorder)
        text = "".join(self.app._driver.written)
        self.app._driver.written.clear()
        return text

    def line(self, number: int) -> str:
        """A line of the screen; -1 is the last."""
        return self.text().splitlines()[number]

    def field(self, name: str) -> Input:
        """A field of the dialog in front."""
        return self.app.screen.query_one(f"#{name}", Input)

    def job(self, job: Job) -> Job:
        """As the controller has it now."""
        return self.cluster.controller.state.jobs[job.id]


NAMES = {" ": "space", "/": "slash", ".": "full_stop", "-": "minus", ":": "colon", "=": "equals_sign"}
NAMES |= {"_": "underscore", ">": "greater_than_sign", "!": "exclamation_mark", "'": "apostrophe"}


@asynccontextmanager
async def on_stage(
    folder: Path,
    *,
    size: tuple[int, int] = (100, 30),
    writes: bool = False,
    toasts: bool = False,
    store: Store | None = None,
    **options: Any,
) -> AsyncIterator[Stage]:
    """The app over a running cluster, connected. `writes`: what it would write to a terminal is kept (`written`).
    `toasts`: notices are drawn too."""
    cluster = Cluster(folder / "home", store)
    await cluster.start()
    app = DeckApp(cluster.paths, **options)
    if writes:
        app.driver_class = Recorder
    try:
        async with app.run_test(size=size, headless=not writes, notifications=toasts) as pilot:
            stage = Stage(app, pilot, cluster)
            await stage.until(lambda: app.board.ready, "everything was told")
            yield stage
            app.workers.cancel_all()
    finally:
        await cluster.stop()
