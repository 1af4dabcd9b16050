"""Background task that applies the changes of reservations that are due.

It checks for due changes after an event, at most once every MIN_PAUSE_S seconds, and at the next time at
which the clock alone makes a change due. Without reservations it has no cost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable

from warpdeck.base.errors import InvalidTransition, UserError
from warpdeck.controller.events.events import ReservationsDue
from warpdeck.controller.reducers.reservation_lifecycle import has_reservations, is_due, next_deadline
from warpdeck.controller.state.state import State

from .event_queue import EventQueue

log = logging.getLogger("warpdeck.controller")
MIN_PAUSE_S = 1.0
MAX_WAIT_S = 3600.0
"""The longest wait in seconds, so that a change of the system clock is noticed."""


class ReservationManager:
    """Sends `ReservationsDue` to the main loop whenever a change is due."""

    def __init__(self, state: State, queue: EventQueue, *, clock: Callable[[], float]) -> None:
        self._state = state
        self._queue = queue
        self._clock = clock
        self._changed = asyncio.Event()

    def note_change(self) -> None:
        """Record that jobs, nodes or reservations have changed."""
        if has_reservations(self._state):
            self._changed.set()

    async def run(self) -> None:
        """Run until cancelled."""
        deadline = self._clock()
        while True:
            await self._wait(deadline - self._clock())
            deadline = math.inf
            if has_reservations(self._state):
                deadline = await self._apply_due()
                await asyncio.sleep(MIN_PAUSE_S)

    async def _wait(self, most_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, min(MAX_WAIT_S, most_s))):
                await self._changed.wait()
        self._changed.clear()

    async def _apply_due(self) -> float:
        """Apply the changes that are due. Return the time of the next change that the clock alone causes."""
        if is_due(self._state, self._clock()):
            try:
                await self._queue.request(ReservationsDue())
            except (UserError, InvalidTransition) as error:
                log.warning("changes of reservations were not applied: %s", error)
        return next_deadline(self._state, self._clock())
