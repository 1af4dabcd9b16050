"""The app's connection to a real controller that hangs: the app reports it, and removes the message when the
controller answers.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal

from tests.support.home import Home
from tests.support.waiting import WAIT_S

from warpdeck.base.paths import Paths
from warpdeck.protocol.results import Delta, Welcome
from warpdeck.protocol.site_rows import EngineRow
from warpdeck_tui.data.server_requests import Core
from warpdeck_tui.data.server_start import STARTING

HANGING_MESSAGE = "The server does not respond; waiting"


class ConnectionLog:
    """Records the connection messages for the app in their order."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[str] = asyncio.Queue()

    def linked(self, welcome: Welcome) -> None:
        self.messages.put_nowait("linked")

    def told(self, delta: Delta) -> None: ...

    def looked(self, engine: EngineRow) -> None: ...

    def went_away(self, message: str) -> None:
        self.messages.put_nowait(message)

    def came_back(self) -> None:
        self.messages.put_nowait("came back")

    async def until(self, message: str) -> str:
        """Wait for a message that begins with this text, and return it.

        On a busy machine, other messages may come repeatedly before it.
        """
        async with asyncio.timeout(WAIT_S):
            while not (found := await self.messages.get()).startswith(message):
                pass
        return found


async def test_a_hanging_controller_is_reported_until_it_answers(home: Home) -> None:
    home.ok("up", "--no-local-node")
    log, pid = ConnectionLog(), home.controller_pid()
    core = Core(Paths(str(home.path)), rng=random.Random(1), pulse_s=0.05, late_s=0.3)
    watch = asyncio.create_task(core.watch(log))
    try:
        await log.until("linked")
        os.kill(pid, signal.SIGSTOP)
        await log.until(HANGING_MESSAGE)
        os.kill(pid, signal.SIGCONT)
        await log.until("came back")
        watch.cancel()
        os.kill(pid, signal.SIGSTOP)
        watch = asyncio.create_task(core.watch(log))
        await log.until(HANGING_MESSAGE)
        os.kill(pid, signal.SIGCONT)
        await log.until("linked")
    finally:
        os.kill(pid, signal.SIGCONT)
        watch.cancel()
        await asyncio.wait([watch])


async def test_a_server_that_cannot_start_is_started_again_until_it_runs(home: Home) -> None:
    home.path.mkdir()
    config = home.path / "config.toml"
    config.write_text("nonsense = 1\n")
    log, paths = ConnectionLog(), Paths(str(home.path))
    watch = asyncio.create_task(Core(paths, rng=random.Random(1)).watch(log))
    try:
        assert await log.messages.get() == STARTING
        failed = await log.messages.get()
        assert "did not start" in failed and "nonsense" in failed and failed.endswith("; trying again")
        config.unlink()
        await log.until("linked")
    finally:
        watch.cancel()
        await asyncio.wait([watch])


async def test_a_slow_start_shows_the_last_line_of_the_log(home: Home) -> None:
    home.path.mkdir()
    (home.path / "controller.log").write_text("one\nreading 2,000,000 jobs\n\n")
    log = ConnectionLog()
    core = Core(Paths(str(home.path)), rng=random.Random(1), late_s=0.0)
    watch = asyncio.create_task(core.watch(log))
    try:
        found = await log.until(f"{STARTING}; still waiting")
        assert found.endswith(". Its log: reading 2,000,000 jobs")
        await log.until("linked")
    finally:
        watch.cancel()
        await asyncio.wait([watch])
