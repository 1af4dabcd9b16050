"""Wake the planner after an event, after a delay, or when the clock alone changes the result of a pass."""

from __future__ import annotations

import asyncio
import contextlib

from warpdeck.controller.planning.passes import REASONS_DELAY_S


class Wakeup:
    """Wakes the planner. Create it inside a running event loop."""

    def __init__(self) -> None:
        self._wanted = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None
        self._delayed: asyncio.TimerHandle | None = None

    def now(self) -> None:
        """Request a pass now."""
        self._wanted.set()

    def after(self, delay_s: float) -> None:
        """Request a pass after `delay_s` seconds."""
        asyncio.get_running_loop().call_later(delay_s, self._wanted.set)

    def after_delay(self) -> None:
        """Request a pass after a short delay.

        If a client submits jobs in a loop and none can start yet, one pass then covers all of them.
        """
        loop = asyncio.get_running_loop()
        if self._delayed is None or self._delayed.when() <= loop.time():
            self._delayed = loop.call_later(REASONS_DELAY_S, self._wanted.set)

    def set_alarm(self, delay_s: float | None) -> None:
        """Request a pass after `delay_s` seconds, replacing the previous alarm. None sets no alarm."""
        if self._alarm is not None:
            self._alarm.cancel()
        if delay_s is not None:
            self._alarm = asyncio.get_running_loop().call_later(delay_s, self._wanted.set)

    async def wait(self, most_s: float) -> None:
        """Wait until a pass is requested, or at most `most_s` seconds. The request is then cleared."""
        with contextlib.suppress(TimeoutError):
            # `asyncio.wait_for` is not used, because before Python 3.12 it can swallow a cancellation.
            async with asyncio.timeout(most_s):
                await self._wanted.wait()
        self._wanted.clear()

    def close(self) -> None:
        for timer in filter(None, (self._alarm, self._delayed)):
            timer.cancel()
