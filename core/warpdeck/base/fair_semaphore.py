"""Turns: how many of something may be under way at once, in all and of one user. One more waits.

Users come in rotation, and each user's own in the order of coming, so that a thousand that wait of one user delay another
user's next one by one turn at most.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator


class FairSemaphore:
    """`most` at once, `most_of_one` of one user."""

    def __init__(self, most: int, most_of_one: int) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._under_way: Counter[int] = Counter()
        self._waiting: dict[int, deque[asyncio.Future[Turn]]] = {}
        """By user; the users in the order in which they come next."""

    @contextlib.asynccontextmanager
    async def turn(self, uid: int) -> AsyncIterator[None]:
        """One of the user's turns, for as long as the body runs."""
        taken = await self.take(uid)
        try:
            yield
        finally:
            taken.leave()

    async def take(self, uid: int) -> Turn:
        """The user's next turn, when it comes."""
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
        """One of the user's is over."""
        self._under_way[uid] -= 1
        if not self._under_way[uid]:
            del self._under_way[uid]
        self._give()

    def _give(self) -> None:
        for uid in list(self._waiting):
            if self._under_way.total() >= self._most:
                return
            waiting = self._waiting[uid]
            while waiting and waiting[0].done():  # It gave up.
                waiting.popleft()
            if waiting and self._under_way[uid] < self._most_of_one:
                self._under_way[uid] += 1
                waiting.popleft().set_result(Turn(self, uid))
                del self._waiting[uid]  # The others come first.
                if waiting:
                    self._waiting[uid] = waiting
            elif not waiting:
                del self._waiting[uid]


class Turn:
    """A turn that was taken."""

    def __init__(self, turns: FairSemaphore, uid: int) -> None:
        self._turns: FairSemaphore | None = turns
        self._uid = uid

    def leave(self) -> None:
        """It is over; may be said again."""
        turns, self._turns = self._turns, None
        if turns is not None:
            turns.leave(self._uid)
