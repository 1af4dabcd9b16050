"""The fair semaphore: no user is refused, none gets all permits, and a canceled waiter takes none."""

from __future__ import annotations

import asyncio

from warpdeck.base.fair_semaphore import FairSemaphore, SemaphoreSlot


async def test_a_caller_above_the_limit_waits_and_is_next() -> None:
    semaphore = FairSemaphore(2, 2)
    first, _ = await semaphore.acquire(1), await semaphore.acquire(1)
    third = asyncio.ensure_future(semaphore.acquire(1))
    await asyncio.sleep(0)
    assert not third.done()
    first.release()
    assert isinstance(await third, SemaphoreSlot)


async def test_users_at_their_own_limit_are_skipped() -> None:
    semaphore = FairSemaphore(3, 1)
    mine = await semaphore.acquire(1)
    waiting = asyncio.ensure_future(semaphore.acquire(1))
    await semaphore.acquire(2)
    assert not waiting.done()
    mine.release()
    await waiting


async def test_releasing_a_permit_twice_frees_it_once() -> None:
    semaphore = FairSemaphore(1, 1)
    first = await semaphore.acquire(1)
    first.release()
    first.release()
    await semaphore.acquire(1)
    second = asyncio.ensure_future(semaphore.acquire(1))
    await asyncio.sleep(0)
    assert not second.done()
    second.cancel()


async def test_a_waiter_canceled_before_it_resumes_takes_no_permit() -> None:
    semaphore = FairSemaphore(1, 1)
    first = await semaphore.acquire(1)
    waiting, given = asyncio.ensure_future(semaphore.acquire(1)), asyncio.ensure_future(semaphore.acquire(1))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    first.release()  # passes the permit to the other waiter, which is canceled before it runs
    given.cancel()
    await asyncio.gather(given, return_exceptions=True)
    await semaphore.acquire(1)


async def test_a_waiter_canceled_just_before_a_release_takes_no_permit() -> None:
    semaphore = FairSemaphore(1, 1)
    first = await semaphore.acquire(1)
    waiting = asyncio.ensure_future(semaphore.acquire(1))
    await asyncio.sleep(0)
    waiting.cancel()
    first.release()  # finds the waiter gone before it ran
    (end,) = await asyncio.gather(waiting, return_exceptions=True)
    assert isinstance(end, asyncio.CancelledError)
    await semaphore.acquire(1)
