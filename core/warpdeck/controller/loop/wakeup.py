"""What wakes the planner: an event, a rest that is over, or the next moment at which the clock alone changes something."""

from __future__ import annotations

import asyncio
import contextlib

from warpdeck.controller.planning.passes import WORDS_S


class Wakeup:
    """Made in a running loop."""

    def __init__(self) -> None:
        self._wanted = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None
        self._rest: asyncio.TimerHandle | None = None

    def now(self) -> None:
        """A pass is wanted."""
        self._wanted.set()

    def after(self, delay_s: float) -> None:
        """One is wanted then."""
        asyncio.get_running_loop().call_later(delay_s, self._wanted.set)

    def after_rest(self) -> None:
        """One pass for all who submit in a loop what cannot start yet, and none between two of them."""
        loop = asyncio.get_running_loop()
        if self._rest is None or self._rest.when() <= loop.time():
            self._rest = loop.call_later(WORDS_S, self._wanted.set)

    def set_alarm(self, delay_s: float | None) -> None:
        """One is wanted then, in the place of what was set before; None: never."""
        if self._alarm is not None:
            self._alarm.cancel()
        if delay_s is not None:
            self._alarm = asyncio.get_running_loop().call_later(delay_s, self._wanted.set)

    async def wait(self, most_s: float) -> None:
        """Until a pass is wanted, or that time is over. It counts as made."""
        with contextlib.suppress(TimeoutError):
            # Not wait_for: before Python 3.12 it can swallow a cancellation.
            async with asyncio.timeout(most_s):
                await self._wanted.wait()
        self._wanted.clear()

    def close(self) -> None:
        for timer in filter(None, (self._alarm, self._rest)):
            timer.cancel()
