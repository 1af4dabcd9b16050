"""The fair semaphore: no user is refused, none gets all permits, and a canceled waiter takes none."""

from __future__ import annotations

import asyncio

from warpdeck.base.fair_semaphore import FairSemaphore, SemaphoreSlot


async def test_one_more_waits_and_comes_next() -> None:
    turns = FairSemaphore(2, 2)
    first, _ = await turns.acquire(1), await turns.acquire(1)
    third = asyncio.ensure_future(turns.acquire(1))
    await asyncio.sleep(0)
    assert not third.done()
    first.release()
    assert isinstance(await third, SemaphoreSlot)


async def test_a_user_who_has_enough_lets_others_pass() -> None:
    turns = FairSemaphore(3, 1)
    mine = await turns.acquire(1)
    waiting = asyncio.ensure_future(turns.acquire(1))
    await turns.acquire(2)
    assert not waiting.done()
    mine.release()
    await waiting


async def test_a_turn_is_over_once_however_often_that_is_said() -> None:
    turns = FairSemaphore(1, 1)
    first = await turns.acquire(1)
    first.release()
    first.release()
    await turns.acquire(1)
    second = asyncio.ensure_future(turns.acquire(1))
    await asyncio.sleep(0)
    assert not second.done()
    second.cancel()


async def test_who_leaves_while_waiting_or_just_then_takes_no_turn() -> None:
    turns = FairSemaphore(1, 1)
    first = await turns.acquire(1)
    waiting, given = asyncio.ensure_future(turns.acquire(1)), asyncio.ensure_future(turns.acquire(1))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    first.release()  # passes the permit to the other waiter, which is canceled before it runs
    given.cancel()
    await asyncio.gather(given, return_exceptions=True)
    await turns.acquire(1)


async def test_who_leaves_in_the_moment_in_which_a_turn_is_given_takes_none() -> None:
    turns = FairSemaphore(1, 1)
    first = await turns.acquire(1)
    waiting = asyncio.ensure_future(turns.acquire(1))
    await asyncio.sleep(0)
    waiting.cancel()
    first.release()  # finds the waiter gone before it ran
    (end,) = await asyncio.gather(waiting, return_exceptions=True)
    assert isinstance(end, asyncio.CancelledError)
    await turns.acquire(1)
