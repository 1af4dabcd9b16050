"""Turns: how many of something may be under way at once, in all and of one user. One more waits, in the order of coming; who
has as many as they may lets others pass."""

from __future__ import annotations

import asyncio
from collections import Counter, deque


class Turns:
    """`most` at once, `most_of_one` of one user."""

    def __init__(self, most: int, most_of_one: int) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._under_way: Counter[int] = Counter()
        self._waiting: deque[tuple[int, asyncio.Future[Turn]]] = deque()

    async def take(self, uid: int) -> Turn:
        """The user's next turn, when it comes."""
        asked: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        self._waiting.append((uid, asked))
        self._give()
        try:
            return await asked
        except asyncio.CancelledError:
            if asked.done() and not asked.cancelled():
                asked.result().leave()
            elif (uid, asked) in self._waiting:  # else it was passed over since
                self._waiting.remove((uid, asked))
            raise

    def leave(self, uid: int) -> None:
        """One of the user's is over."""
        self._under_way[uid] -= 1
        if not self._under_way[uid]:
            del self._under_way[uid]
        self._give()

    def _give(self) -> None:
        passed: list[tuple[int, asyncio.Future[Turn]]] = []
        while self._waiting and self._under_way.total() < self._most:
            uid, asked = self._waiting.popleft()
            if asked.done():
                continue
            if self._under_way[uid] >= self._most_of_one:
                passed.append((uid, asked))
                continue
            self._under_way[uid] += 1
            asked.set_result(Turn(self, uid))
        self._waiting.extendleft(reversed(passed))


class Turn:
    """A turn that was taken."""

    def __init__(self, turns: Turns, uid: int) -> None:
        self._turns: Turns | None = turns
        self._uid = uid

    def leave(self) -> None:
        """It is over; may be said again."""
        turns, self._turns = self._turns, None
        if turns is not None:
            turns.leave(self._uid)
