"""The share of the event loop's time that each user gets while other users are active.

The coroutine that serves a request runs inside `LoopTime.metered`, which adds the time of each of its steps to the account of its
user. An account empties by SHARE seconds per second. `pause_s` is the one decision: a user with more than BURST_S in the account
waits before the next step, as long as other users are active. So one user takes at most SHARE of the loop, one step at a time, and
most requests of others find the loop idle. A user who is alone never waits.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")

SHARE = 0.25
"""Share of the loop's time for a user over the burst. At a quarter, most short requests of others meet no step of this user."""
BURST_S = 0.25
"""Time of the loop that a user may take at once: that of some hundred short requests, or of a list of some thousand jobs."""
MAX_PAUSE_S = 0.2
"""Longest pause between two steps, so that a single long step does not shut its user out."""
ACTIVE_S = 1.0
"""A user counts as active for this time after a step."""


def pause_s(account_s: float, *, is_alone: bool) -> float:
    """Return the time that a user with this account waits before the next step."""
    if is_alone or account_s <= BURST_S:
        return 0.0
    return min((account_s - BURST_S) / SHARE, MAX_PAUSE_S)


class _Step(NamedTuple):
    uid: int
    at_s: float


class _Account:
    """The time that one user's requests have taken, and their steps that wait."""

    def __init__(self, now_s: float) -> None:
        self._used_s = 0.0
        self._at_s = now_s
        self.waiting: deque[asyncio.Future[None]] = deque()
        self.is_timed = False
        """Whether a timer will let the first waiting step begin."""

    def used_s(self, now_s: float) -> float:
        self._used_s = max(0.0, self._used_s - SHARE * (now_s - self._at_s))
        self._at_s = now_s
        return self._used_s

    def add(self, step_s: float, now_s: float) -> None:
        self._used_s = min(self.used_s(now_s) + step_s, BURST_S + SHARE * MAX_PAUSE_S)


class LoopTime:
    """The accounts of all users. `clock` returns seconds with a high resolution."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._accounts: dict[int, _Account] = {}
        self._latest = self._latest_of_others = _Step(-1, float("-inf"))
        """The latest step of all, and the latest one of a user other than that."""

    def metered(self, uid: int, work: Coroutine[Any, Any, T]) -> Metered[T]:
        """Return an awaitable that runs `work` and charges its steps to the user."""
        return Metered(self, uid, work)

    def add(self, uid: int, begun_s: float) -> None:
        """Charge a step that began at this time and ends now."""
        now_s = self._clock()
        if uid not in self._accounts:
            self._accounts[uid] = _Account(begun_s)
        self._accounts[uid].add(now_s - begun_s, now_s)
        if uid != self._latest.uid:
            self._latest_of_others = self._latest
        self._latest = _Step(uid, now_s)

    def now_s(self) -> float:
        return self._clock()

    def must_wait(self, uid: int) -> bool:
        """Return whether the user's next step has to wait for its turn."""
        account = self._accounts.get(uid)
        return account is not None and (bool(account.waiting) or self._pause_s(uid, account) > 0)

    async def turn(self, uid: int) -> None:
        """Wait for the turn of one step. The steps of a user begin in the order in which they came here."""
        account = self._accounts[uid]
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        account.waiting.append(turn)
        self._set_timer(uid, account)
        await turn

    def _pause_s(self, uid: int, account: _Account) -> float:
        now_s = self._clock()
        other = self._latest_of_others if uid == self._latest.uid else self._latest
        return pause_s(account.used_s(now_s), is_alone=now_s - other.at_s > ACTIVE_S)

    def _set_timer(self, uid: int, account: _Account) -> None:
        if account.waiting and not account.is_timed:
            account.is_timed = True
            loop = asyncio.get_running_loop()
            loop.call_later(self._pause_s(uid, account), self._begin_first, uid, account)

    def _begin_first(self, uid: int, account: _Account) -> None:
        """Let the first waiting step begin, if its pause is over. The next one gets its turn after it."""
        account.is_timed = False
        while account.waiting and account.waiting[0].done():  # canceled
            account.waiting.popleft()
        if account.waiting and self._pause_s(uid, account) <= 0:
            account.waiting.popleft().set_result(None)
        self._set_timer(uid, account)


class Metered(Generic[T]):
    """Runs a coroutine and adds the time of each of its steps to the account of a user.

    A step is the code that runs between two points at which the coroutine waits. A step begins only when `LoopTime` gives
    the user a turn.
    """

    def __init__(self, accounts: LoopTime, uid: int, work: Coroutine[Any, Any, T]) -> None:
        self._accounts = accounts
        self._uid = uid
        self._work = work

    def __await__(self) -> Generator[Any, Any, T]:
        accounts, uid, work = self._accounts, self._uid, self._work
        error: BaseException | None = None
        try:
            while True:
                if error is None and accounts.must_wait(uid):
                    try:
                        yield from accounts.turn(uid).__await__()
                    except BaseException as raised:  # The task was canceled; the coroutine handles it below.
                        error = raised
                begun_s = accounts.now_s()
                try:
                    awaited = work.send(None) if error is None else work.throw(error)
                except StopIteration as stop:
                    result: T = stop.value
                    return result
                finally:
                    accounts.add(uid, begun_s)
                error = None
                try:
                    yield awaited
                except BaseException as raised:
                    error = raised
        finally:
            work.close()
