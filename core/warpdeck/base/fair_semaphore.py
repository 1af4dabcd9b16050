"""A fair limit on concurrent work, overall and per user. Further work waits.

Users are served in rotation, and the work of one user in the order of arrival. A thousand waiting requests of
one user therefore delay another user's next request by at most one of them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator


class FairSemaphore:
    """Limits concurrent work to `max_total` overall and `max_per_user` for each user."""

    def __init__(self, max_total: int, max_per_user: int) -> None:
        self._max_total = max_total
        self._max_per_user = max_per_user
        self._active: Counter[int] = Counter()
        self._waiting: dict[int, deque[asyncio.Future[SemaphoreSlot]]] = {}
        """Waiting requests by user. The users are in the order in which they are served next."""

    @contextlib.asynccontextmanager
    async def slot(self, uid: int) -> AsyncIterator[None]:
        """Hold one of the user's slots while the body runs."""
        held = await self.acquire(uid)
        try:
            yield
        finally:
            held.release()

    async def acquire(self, uid: int) -> SemaphoreSlot:
        """Wait for a slot for the user and return it."""
        request: asyncio.Future[SemaphoreSlot] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(uid, deque()).append(request)
        self._grant_waiting()
        try:
            return await request
        except asyncio.CancelledError:
            if request.done() and not request.cancelled():
                request.result().release()
            raise

    def release(self, uid: int) -> None:
        """Release a slot of the user."""
        self._active[uid] -= 1
        if not self._active[uid]:
            del self._active[uid]
        self._grant_waiting()

    def _grant_waiting(self) -> None:
        for uid in list(self._waiting):
            if self._active.total() >= self._max_total:
                return
            waiting = self._waiting[uid]
            while waiting and waiting[0].done():  # The request was canceled.
                waiting.popleft()
            if waiting and self._active[uid] < self._max_per_user:
                self._active[uid] += 1
                waiting.popleft().set_result(SemaphoreSlot(self, uid))
                del self._waiting[uid]  # The user moves to the end of the rotation.
                if waiting:
                    self._waiting[uid] = waiting
            elif not waiting:
                del self._waiting[uid]


class SemaphoreSlot:
    """A slot that was granted."""

    def __init__(self, semaphore: FairSemaphore, uid: int) -> None:
        self._semaphore: FairSemaphore | None = semaphore
        self._uid = uid

    def release(self) -> None:
        """Release the slot. Further calls do nothing."""
        semaphore, self._semaphore = self._semaphore, None
        if semaphore is not None:
            semaphore.release(self._uid)
