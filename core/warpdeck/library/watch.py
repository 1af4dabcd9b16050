"""Noticing what becomes of jobs: one subscription for each user whose jobs somebody waits for, however many wait.

Jobs go on while the controller is away; so a watch comes back by itself, for ever, and whoever waits sets the limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import NamedTuple

from warpdeck.api.client import GONE, Client, Delta
from warpdeck.api.rows import JobRow
from warpdeck.errors import UserError

FINISHED_S = 24 * 3600.0
"""What ended so long ago is told by the subscription; who waits for older ones asks for each."""
RETURN_FIRST_S = 0.1
RETURN_MOST_S = 5.0

Link = Callable[[], Awaitable[Client]]
Family = dict[int, JobRow]
"""The rows of one submission by their ids: a job alone, or the waiting rest of an array and each task that has begun."""


class News(NamedTuple):
    """The rows of a submission, and which of them have changed since the news before: at first all."""

    family: Family
    changed: list[JobRow]


class _Waiter:
    """Somebody who waits for news of a submission."""

    def __init__(self) -> None:
        self.woken = asyncio.Event()
        self.changed: set[int] | None = None
        """None: it was told nothing yet."""

    def take(self, family: Family) -> News:
        """The news; from now on they are those before."""
        ids = family if self.changed is None else self.changed
        self.changed = set()
        return News(family, [family[job_id] for job_id in ids if job_id in family])


class Watch:
    """The jobs of one user. `begin` first, `close` at the end; all in one event loop."""

    def __init__(self, link: Link, user: str, *, rng: random.Random) -> None:
        self._link = link
        self._user = user
        self._rng = rng
        self._families: dict[int, Family] = {}
        self._family_of: dict[int, int] = {}
        self._unseen: set[int] | None = None
        """While a subscription tells what there is: the rows that it has not told yet. None: it has told all."""
        self._complete = False
        """Whether one has told all."""
        self._waiting: dict[int, set[_Waiter]] = {}
        self._failed: UserError | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Subscribes, unless that was done."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._follow())

    async def close(self) -> None:
        """Ends it; whoever still waits gets a UserError."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._fail(UserError("the client was closed", "wait before its `with` ends"))

    async def news(self, number: int) -> AsyncGenerator[News]:
        """Of submission `number` (its job id, of an array the array's): now, and whenever a row has changed.

        No rows: it was not told of yet, or is too old to be. Raises UserError where the controller refused us.
        """
        waiter = _Waiter()
        waiting = self._waiting.setdefault(number, set())
        waiting.add(waiter)
        try:
            while True:
                if self._failed is not None:
                    raise self._failed
                if self._complete:
                    yield waiter.take(self._families.get(number, {}))
                await waiter.woken.wait()
                waiter.woken.clear()
        finally:
            waiting.discard(waiter)
            if not waiting:
                self._waiting.pop(number, None)

    async def _follow(self) -> None:
        wait_s = RETURN_FIRST_S
        while True:
            try:
                client = await self._link()
                deltas = client.subscribe(finished_s=FINISHED_S, user=self._user, topics=("jobs",))
                self._unseen = set(self._family_of)
                async with contextlib.aclosing(deltas):
                    async for delta in deltas:
                        wait_s = RETURN_FIRST_S
                        self._take(delta)
            except UserError as error:
                if error.code != GONE:
                    self._fail(error)
                    return
            await asyncio.sleep(wait_s * self._rng.uniform(0.5, 1.0))
            wait_s = min(2 * wait_s, RETURN_MOST_S)

    def _take(self, delta: Delta) -> None:
        touched: set[int] = set()
        for row in delta.jobs:
            self._families.setdefault(row.array_job_id, {})[row.id] = row
            self._family_of[row.id] = row.array_job_id
            touched.add(row.array_job_id)
            for waiter in self._waiting.get(row.array_job_id, ()):
                if waiter.changed is not None:
                    waiter.changed.add(row.id)
        gone = set(delta.gone_jobs)
        if self._unseen is not None:
            self._unseen.difference_update(row.id for row in delta.jobs)
            if delta.ready:
                gone |= self._unseen
                self._unseen = None
                self._complete = True
                touched.update(self._waiting)
        for job_id in gone:
            self._drop(job_id, touched)
        self._wake(touched)

    def _drop(self, job_id: int, touched: set[int]) -> None:
        """A row that has left the controller's memory. How a task ended is kept while somebody waits for its array."""
        number = self._family_of.get(job_id)
        if number is None or (number in self._waiting and self._families[number][job_id].end is not None):
            return
        del self._family_of[job_id]
        del self._families[number][job_id]
        if not self._families[number]:
            del self._families[number]
        touched.add(number)

    def _fail(self, error: UserError) -> None:
        self._failed = self._failed or error
        self._wake(set(self._waiting))

    def _wake(self, numbers: set[int]) -> None:
        for number in numbers:
            for waiter in self._waiting.get(number, ()):
                waiter.woken.set()
