"""Notice the starts and ends of jobs, with one request for all submissions that a program waits for.

The controller reports each start and each end once on a connection, and the completion of a submission. Jobs
continue while the controller is away. So a watch reconnects for ever, and asks again about everything that is
not done. Callers set the limits.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.client.asyncio_client import GONE, AsyncioClient
from warpdeck.client.end_stream import EndWait
from warpdeck.model import Ranges
from warpdeck.notation.values.job_ids import parse_job_id
from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.results import Ends

RETURN_FIRST_S = 0.1
RETURN_MOST_S = 5.0

Link = Callable[[], Awaitable[AsyncioClient]]


class News(NamedTuple):
    """Jobs of a submission that have begun (and may have ended since), or that have ended, since the last
    news.

    The first news contains all of them. `done` means that nothing is left to wait for.
    """

    begun: list[JobRow]
    ended: list[JobRow]
    done: bool


class _Submission:
    """Known state of a submission, shared by all callers that wait for it."""

    def __init__(self) -> None:
        self.begun: list[JobRow] = []
        self.ended: list[JobRow] = []
        self.done = False
        self._told: set[tuple[int, int, bool]] = set()
        """Job id, start count, and whether it is an end, for each row received. A new connection reports all
        rows again.
        """
        self.waiters: set[asyncio.Event] = set()

    def take(self, row: JobRow, *, ended: bool) -> None:
        """Add a row that the controller reported, unless it is already known."""
        key = (row.id, row.restarts, ended)
        if key not in self._told:
            self._told.add(key)
            (self.ended if ended else self.begun).append(row)


class SubmissionWatch:
    """All submissions that a client waits for. Used in one event loop; call `close` at the end."""

    def __init__(self, link: Link, *, rng: random.Random) -> None:
        self._link = link
        self._rng = rng
        self._submissions: dict[int, _Submission] = {}
        """Submissions that somebody waits for, or that the controller has not completely reported yet."""
        self._stream: EndWait | None = None
        self._failed: UserError | None = None
        self._task: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """End the watch. Callers that still wait get a UserError."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._fail(
            UserError("the client was closed", "wait for the job before the client's `with` block ends")
        )

    async def news(self, number: int) -> AsyncGenerator[News]:
        """Yield the news of submission `number` (a job id, or the id of an array) until it is done.

        Raises UserError if the controller refused the request.
        """
        known, woken = await self._joined(number), asyncio.Event()
        known.waiters.add(woken)
        begun = ended = 0
        done = False
        try:
            while not done:
                if self._failed is not None:
                    raise self._failed
                news = News(known.begun[begun:], known.ended[ended:], known.done)
                begun, ended, done = len(known.begun), len(known.ended), known.done
                if any(news):
                    yield news
                elif not done:
                    await woken.wait()
                woken.clear()
        finally:
            known.waiters.discard(woken)
            self._drop(number)

    async def _joined(self, number: int) -> _Submission:
        known = self._submissions.get(number)
        if known is None:
            known = self._submissions[number] = _Submission()
            if self._stream is not None:
                with contextlib.suppress(UserError):  # the next connection asks about all submissions
                    await self._stream.add([number])
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._follow())
        return known

    async def _follow(self) -> None:
        wait_s = RETURN_FIRST_S
        while True:
            try:
                stream = self._stream = await EndWait.begin(await self._link())
                await stream.add([number for number, known in self._submissions.items() if not known.done])
                async with contextlib.aclosing(aiter(stream)) as told:
                    async for ends in told:
                        wait_s = RETURN_FIRST_S
                        self._take(ends)
            except UserError as error:
                if error.code != GONE:
                    self._fail(error)
                    return
            finally:
                self._stream = None
            await asyncio.sleep(wait_s * self._rng.uniform(0.5, 1.0))
            wait_s = min(2 * wait_s, RETURN_MOST_S)

    def _take(self, ends: Ends) -> None:
        touched: set[int] = set()
        for row in ends.begun:
            touched |= self._keep(row, ended=False)
        for row in ends.ended:
            touched |= self._keep(row, ended=True)
        for number in ends.done:
            if (known := self._submissions.get(number)) is not None:
                known.done = True
                touched.add(number)
        self._wake(touched)
        for number in ends.done:
            self._drop(number)

    def _keep(self, row: JobRow, *, ended: bool) -> set[int]:
        """Add the row to its submissions and return their numbers."""
        numbers = {row.array_job_id, row.id} & self._submissions.keys()
        for number in numbers:
            self._submissions[number].take(row, ended=ended)
        return numbers

    def _drop(self, number: int) -> None:
        """Forget a submission that is done and that nobody waits for. The controller still reports changes of
        the others.
        """
        known = self._submissions.get(number)
        if known is not None and known.done and not known.waiters:
            del self._submissions[number]

    def _fail(self, error: UserError) -> None:
        self._failed = self._failed or error
        self._wake(self._submissions)

    def _wake(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            for waiter in self._submissions[number].waiters:
                waiter.set()


def tasks_of(row: JobRow) -> Ranges | None:
    """Return the array tasks of a row: one, or all tasks that waited together. None means a job without
    tasks.
    """
    if row.array_task_id is not None:
        return ((row.array_task_id, row.array_task_id, 1),)
    return parse_job_id(row.label)[1]
