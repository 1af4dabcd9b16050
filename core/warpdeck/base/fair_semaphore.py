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

    def __init__(self, most: int, most_of_one: int) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._under_way: Counter[int] = Counter()
        self._waiting: dict[int, deque[asyncio.Future[Turn]]] = {}
        """Waiting requests by user. The users are in the order in which they are served next."""

    @contextlib.asynccontextmanager
    async def turn(self, uid: int) -> AsyncIterator[None]:
        """Hold one of the user's slots while the body runs."""
        taken = await self.take(uid)
        try:
            yield
        finally:
            taken.leave()

    async def take(self, uid: int) -> Turn:
        """Wait for a slot for the user and return it."""
        asked: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(uid, deque()).append(asked)
        self._give()
        try:
            return await asked
        except asyncio.CancelledError:
            if asked.done() and not asked.cancelled():
                asked.result().leave()
            raise

    def leave(self, uid: int) -> None:
        """Release a slot of the user."""
        self._under_way[uid] -= 1
        if not self._under_way[uid]:
            del self._under_way[uid]
        self._give()

    def _give(self) -> None:
        for uid in list(self._waiting):
            if self._under_way.total() >= self._most:
                return
            waiting = self._waiting[uid]
            while waiting and waiting[0].done():  # The request was canceled.
                waiting.popleft()
            if waiting and self._under_way[uid] < self._most_of_one:
                self._under_way[uid] += 1
                waiting.popleft().set_result(Turn(self, uid))
                del self._waiting[uid]  # The user moves to the end of the rotation.
                if waiting:
                    self._waiting[uid] = waiting
            elif not waiting:
                del self._waiting[uid]


class Turn:
    """A slot that was granted."""

    def __init__(self, turns: FairSemaphore, uid: int) -> None:
        self._turns: FairSemaphore | None = turns
        self._uid = uid

    def leave(self) -> None:
        """Release the slot. Further calls do nothing."""
        turns, self._turns = self._turns, None
        if turns is not None:
            turns.leave(self._uid)
