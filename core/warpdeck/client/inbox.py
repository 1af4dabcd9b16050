"""Queues of received events that a request of the asyncio client has not taken yet."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from warpdeck.base.errors import UserError

from .wire_connection import user_error

if TYPE_CHECKING:
    from .wire_connection import Event


class Inbox:
    """Received events of one request, in order. `failed` is raised after the last one."""

    def __init__(self) -> None:
        self.events: deque[Event] = deque()
        self.failed: UserError | None = None
        self._arrived = asyncio.Event()

    def put(self, event: Event) -> None:
        self.events.append(event)
        self._arrived.set()

    def fail(self, error: UserError) -> None:
        self.failed = error
        self._arrived.set()

    async def get(self) -> Event:
        """Return the next event. Raises UserError for an error message or a lost connection."""
        while not self.events:
            if self.failed is not None:
                raise self.failed
            self._arrived.clear()
            await self._arrived.wait()
        word, value = self.events.popleft()
        if word == "error":
            raise user_error(value)
        return word, value


class Merged(Inbox):
    """The subscription's inbox.

    Deltas that were not taken yet are merged, so it never holds more than all rows.
    """

    def put(self, event: Event) -> None:
        word, value = event
        if word == "delta" and self.events and self.events[-1][0] == "delta":
            self.events[-1] = word, merge(self.events[-1][1], value)
        else:
            super().put(event)


def merge(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Merge two deltas into one. The later change of each row wins."""
    merged: dict[str, Any] = {"t": "delta", "id": new["id"], "ready": old["ready"] or new["ready"]}
    for rows, gone, key in (("jobs", "gone_jobs", "id"), ("nodes", "gone_nodes", "name")):
        kept = {row[key]: row for row in old[rows]}
        lost = dict.fromkeys(old[gone])
        for row in new[rows]:
            kept[row[key]] = row
            lost.pop(row[key], None)
        for name in new[gone]:
            kept.pop(name, None)
            lost[name] = None
        merged[rows], merged[gone] = list(kept.values()), list(lost)
    return merged
