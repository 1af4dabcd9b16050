"""Tasks that end with a block of code, and the cancellation of several tasks."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from warpdeck.base.background_task import background, cancel


async def test_a_task_runs_during_the_block_and_has_ended_after_it() -> None:
    started, told = asyncio.Event(), list[str]()

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            told.append("ended")

    with pytest.raises(ZeroDivisionError):
        async with background(work()):
            await started.wait()
            assert not told
            raise ZeroDivisionError
    assert told == ["ended"]


async def test_a_task_that_is_being_canceled_can_clean_up() -> None:
    begun, told = asyncio.Event(), list[str]()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            begun.set()
            for _ in range(3):
                await asyncio.sleep(0)
            told.append("cleaned up")

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    await begun.wait()
    await cancel(task)
    assert task.cancelled() and told == ["cleaned up"]


async def test_ended_tasks_and_no_tasks_are_no_error() -> None:
    async def fail() -> None:
        raise OSError

    task = asyncio.create_task(fail())
    with suppress(OSError):
        await task
    await cancel(task)
    await cancel()
