"""The queue of events for the main loop, from clients, from agents and from the controller's own tasks."""

from __future__ import annotations

import asyncio

from warpdeck.base.errors import UserError, WarpdeckError
from warpdeck.controller.events.effects import Outcome
from warpdeck.controller.events.events import Event, MessagesRead

from .initial_steps import InitialSteps, QueuedEvent

MAX_REQUESTS = 20_000
"""Maximum number of callers' events in progress; more callers wait.

Messages of agents are never dropped. The controller reads messages of agents no faster than `wait_processed`
permits.
"""
MAX_BATCH = 512
"""Maximum number of events in one transaction. It limits the time for which one commit can delay the next."""
RETRY_S = 1.0
"""Seconds between attempts to commit the messages of agents while the store cannot write."""


class EventQueue:
    """Events in their order of arrival. Other tasks add them, and the main loop takes them in batches."""

    def __init__(self) -> None:
        self._events: asyncio.Queue[QueuedEvent] = asyncio.Queue()
        self._callers = asyncio.Semaphore(MAX_REQUESTS)
        self._uncommitted: list[QueuedEvent] = []
        self.initial_steps = InitialSteps()
        """Step requests that become events once their jobs run."""

    def put(self, event: Event) -> None:
        """Add an event. No caller waits for its outcome."""
        self._events.put_nowait((event, None))

    async def request(self, event: Event) -> Outcome:
        """Add an event and return its outcome after the commit. Raises UserError or StoreError."""
        async with self._callers:
            return await self._outcome_of(event)

    async def wait_processed(self) -> None:
        """Wait until the messages received from nodes so far are in the state and on disk."""
        while True:
            try:
                await self._outcome_of(MessagesRead())
            except UserError:
                await asyncio.sleep(RETRY_S)
            else:
                return

    @property
    def is_empty(self) -> bool:
        """True if no event has arrived since the last batch was taken."""
        return self._events.empty()

    async def next_batch(self) -> list[QueuedEvent]:
        """Return the next events for one transaction, and the events that `retry` has kept."""
        batch, self._uncommitted = self._uncommitted, []
        try:
            async with asyncio.timeout(RETRY_S if batch else None):
                batch.append(await self._events.get())
        except TimeoutError:
            return batch
        while len(batch) < MAX_BATCH and not self._events.empty():
            batch.append(self._events.get_nowait())
        return batch

    def retry(self, batch: list[QueuedEvent]) -> None:
        """Keep the events of a failed transaction for which no caller waits. No agent sends a message twice."""
        self._uncommitted = [queued for queued in batch if queued[1] is None]

    async def _outcome_of(self, event: Event) -> Outcome:
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._events.put_nowait((event, answer))
        return await answer


def refuse(answer: asyncio.Future[Outcome] | None, error: WarpdeckError) -> None:
    """Raise this error in the caller that waits for the answer, if there is one."""
    if answer is not None and not answer.done():
        answer.set_exception(error)
