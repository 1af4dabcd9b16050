"""The commit under way. The state shows a batch's changes from the moment they are made, and on disk they are only once its commit
has ended: whoever tells of them before could be telling what never was.
"""

from __future__ import annotations

import asyncio

from warpdeck.ports.ports import Changes, Store


class CommitBarrier:
    """One after another, into the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ended = asyncio.Event()
        self._ended.set()

    async def commit(self, changes: Changes) -> None:
        """Raises StoreError; the caller takes the changes back before anybody else runs."""
        ended = self._ended = (
            asyncio.Event()
        )  # a new one: who waits for this commit waits for none that follows
        try:
            await self._store.commit(changes)
        finally:
            ended.set()

    async def settled(self) -> None:
        """Returns when what the state has shown up to now is on disk, or was taken back: look again which."""
        await self._ended.wait()
