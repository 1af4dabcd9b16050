"""Tasks that run in the background while a block of code runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run `work` as a task while the block runs. At the end of the block it is canceled."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        await cancel(task)


async def cancel(*tasks: asyncio.Task[Any]) -> None:
    """Cancel the tasks, and wait until all have ended.

    A task that is being canceled already is only waited for, because a second cancellation would interrupt its clean-up.
    """
    for task in tasks:
        if not task.cancelling():
            task.cancel()
    if tasks:
        await asyncio.wait(tasks)
