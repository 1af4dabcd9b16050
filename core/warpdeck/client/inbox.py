"""Queues of received messages that a request of the asyncio client has not taken yet."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from warpdeck.base.errors import UserError

from .blocking_client import user_error


class Inbox:
    """Received JSON messages and data of one request, in order. `failed` is raised after the last one."""

    def __init__(self) -> None:
        self.items: deque[dict[str, Any] | bytes] = deque()
        self.failed: UserError | None = None
        self._arrived = asyncio.Event()

    def put(self, item: dict[str, Any] | bytes) -> None:
        self.items.append(item)
        self._arrived.set()

    def fail(self, error: UserError) -> None:
        self.failed = error
        self._arrived.set()

    async def get(self) -> dict[str, Any] | bytes:
        """Return the next item. Raises UserError for an error message or a lost connection."""
        while not self.items:
            if self.failed is not None:
                raise self.failed
            self._arrived.clear()
            await self._arrived.wait()
        item = self.items.popleft()
        if isinstance(item, dict) and item["t"] == "error":
            raise user_error(item)
        return item


class Merged(Inbox):
    """The subscription's inbox.

    Deltas that were not taken yet are merged, so it never holds more than all rows.
    """

    def put(self, item: dict[str, Any] | bytes) -> None:
        if isinstance(item, dict) and item["t"] == "delta" and self.items:
            waiting = self.items[-1]
            if isinstance(waiting, dict) and waiting["t"] == "delta":
                self.items[-1] = merge(waiting, item)
                return
        super().put(item)


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
