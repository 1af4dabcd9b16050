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
from warpdeck_tui.data.connection import Core

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

    async def until(self, message: str) -> None:
        """Wait for a message. On a busy machine, other messages may come repeatedly before it."""
        async with asyncio.timeout(WAIT_S):
            while await self.messages.get() != message:
                pass


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
