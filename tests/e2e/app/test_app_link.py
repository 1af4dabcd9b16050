"""The app's connection to a real controller that hangs: it is said, and taken back when the controller goes on."""

from __future__ import annotations

import asyncio
import os
import random
import signal

from tests.support.home import Home
from tests.support.waiting import WAIT_S

from warpdeck.base.paths import Paths
from warpdeck.protocol.results import Delta
from warpdeck_tui.data.connection import Core

HANGS = "Controller not responding, waiting"


class Heard:
    """What the app was told of its connection, in order."""

    def __init__(self) -> None:
        self.words: asyncio.Queue[str] = asyncio.Queue()

    def linked(self, user: str) -> None:
        self.words.put_nowait("linked")

    def told(self, delta: Delta) -> None: ...

    def went_away(self, words: str) -> None:
        self.words.put_nowait(words)

    def came_back(self) -> None:
        self.words.put_nowait("came back")

    async def until(self, words: str) -> None:
        """On a busy machine it may be told more than once before that."""
        async with asyncio.timeout(WAIT_S):
            while await self.words.get() != words:
                pass


async def test_a_controller_that_hangs_is_said_to_and_is_back_when_it_answers(home: Home) -> None:
    home.ok("up", "--no-local-node")
    heard, pid = Heard(), home.controller_pid()
    core = Core(Paths(str(home.path)), rng=random.Random(1), pulse_s=0.05, late_s=0.3)
    watch = asyncio.create_task(core.watch(heard))
    try:
        await heard.until("linked")
        os.kill(pid, signal.SIGSTOP)
        await heard.until(HANGS)
        os.kill(pid, signal.SIGCONT)
        await heard.until("came back")
        watch.cancel()
        os.kill(pid, signal.SIGSTOP)
        watch = asyncio.create_task(core.watch(heard))
        await heard.until(HANGS)
        os.kill(pid, signal.SIGCONT)
        await heard.until("linked")
    finally:
        os.kill(pid, signal.SIGCONT)
        watch.cancel()
        await asyncio.wait([watch])
