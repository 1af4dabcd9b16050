"""The time of a simulated cluster: the real one, from which a past can be lived through in a moment.

A clock that starts behind catches up by jumps; whoever sleeps on it wakes as soon as its hour has struck, jumped over or
not. That makes a demo open with jobs of all ages.
"""

from __future__ import annotations

import asyncio
import contextlib
import time


class SimClock:
    """Unix seconds, `behind_s` seconds ago when it is made."""

    def __init__(self, *, behind_s: float = 0.0) -> None:
        self._behind_s = behind_s
        self._jumped = asyncio.Event()

    def now(self) -> float:
        return time.time() - self._behind_s

    @property
    def behind_s(self) -> float:
        """How far it is still from the real time."""
        return self._behind_s

    def jump(self, seconds: float) -> None:
        """Forward, at most to the real time."""
        self._behind_s = max(0.0, self._behind_s - seconds)
        self._jumped.set()
        self._jumped = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        """Until so many seconds of this clock are over."""
        until = self.now() + seconds
        while (left_s := until - self.now()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._jumped.wait()
