"""Ends an agent without jobs after its controller was stopped.

`ends_now` is the one decision. A controller that was killed or cut off has not said that it stops, so the agent waits
for it. An agent that systemd started stays, because systemd would not start it again for the next controller.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Callable

IDLE_END_S = 40.0
"""How long an agent waits for the next controller, in seconds. A restart of the controller takes a few seconds."""
LOOK_S = 2.0
STAYS = "WARPDECK_AGENT_STAYS"
"""The variable that keeps an agent running."""


def ends_now(*, stopped_for_s: float, has_jobs: bool, stays: bool) -> bool:
    """Return whether the agent ends, when its controller was stopped so many seconds ago."""
    return stopped_for_s >= IDLE_END_S and not has_jobs and not stays


class IdleEnd:
    """Watches for the end of the controller. `has_jobs` tells whether a launch or a step is known."""

    def __init__(self, has_jobs: Callable[[], bool]) -> None:
        self._has_jobs = has_jobs
        self._stopped_at = float("inf")

    def controller_stops(self) -> None:
        """Note that the controller said that it stops."""
        self._stopped_at = time.monotonic()

    def controller_came(self) -> None:
        """Note that a controller has connected."""
        self._stopped_at = float("inf")

    async def wait(self) -> None:
        """Return when the agent should end."""
        while not ends_now(
            stopped_for_s=time.monotonic() - self._stopped_at,
            has_jobs=self._has_jobs(),
            stays=bool(os.environ.get(STAYS)),
        ):
            await asyncio.sleep(LOOK_S)
