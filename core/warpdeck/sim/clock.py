"""The clock of a simulated cluster: real time, with a past that can be simulated quickly.

The clock may start behind real time and catches up by jumps. A task that sleeps on the clock wakes when its
time is reached, even if a jump skips that time. A demo can therefore start with jobs of all ages.
"""

from __future__ import annotations

import asyncio
import contextlib
import time


class SimClock:
    """Unix time in seconds. It starts `behind_s` seconds behind real time."""

    def __init__(self, *, behind_s: float = 0.0) -> None:
        self._behind_s = behind_s
        self._jumped = asyncio.Event()

    def now(self) -> float:
        return time.time() - self._behind_s

    @property
    def behind_s(self) -> float:
        """Seconds by which the clock is behind real time."""
        return self._behind_s

    def jump(self, seconds: float) -> None:
        """Move the clock forward, at most to real time."""
        self._behind_s = max(0.0, self._behind_s - seconds)
        self._jumped.set()
        self._jumped = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        """Wait until this many seconds of this clock have passed."""
        until = self.now() + seconds
        while (left_s := until - self.now()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._jumped.wait()
