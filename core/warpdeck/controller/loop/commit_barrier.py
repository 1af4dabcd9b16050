"""The barrier that lets a reader wait for the commit that is in progress.

The state shows the changes of a batch as soon as they are made, but they are on disk only when the commit has
ended. A reader that reports them earlier may report changes that are later rolled back.
"""

from __future__ import annotations

import asyncio

from warpdeck.ports.store import Changes, Store


class CommitBarrier:
    """Commits to the store, one after another."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ended = asyncio.Event()
        self._ended.set()

    async def commit(self, changes: Changes) -> None:
        """Write the changes to the store.

        Raises StoreError. The caller must then roll back the changes before any other task runs.
        """
        ended = self._ended = (
            asyncio.Event()
        )  # A new event, because a reader that waits for this commit must not wait for later ones.
        try:
            await self._store.commit(changes)
        finally:
            ended.set()

    async def wait(self) -> None:
        """Wait until the changes that the state shows now are on disk or rolled back.

        The caller must read the state again afterwards to find out which of the two happened.
        """
        await self._ended.wait()
