"""Wait for conditions instead of sleeping. Only these functions pause, between checks until a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar

T = TypeVar("T")
WAIT_S = 60.0
"""Far longer than any operation takes on a shared machine."""
_PAUSE_S = 0.05
_ASKING_PAUSE_S = 0.2
"""Pause for conditions that ask another process, such as slurmctld."""
_SHORT_PAUSE_S = 0.002
"""Pause for conditions within one process, which are cheap to check."""


def eventually(
    condition: Callable[[], T | Literal[False] | None], *, timeout_s: float = WAIT_S, what: str = ""
) -> T:
    """Return the first true value of the condition. Raise AssertionError at the deadline."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, (
            f"timeout after {timeout_s} s of waiting for: {what} (last value: {value!r})"
        )
        time.sleep(_PAUSE_S)


async def eventually_async(
    condition: Callable[[], T | Literal[False] | None],
    *,
    timeout_s: float = WAIT_S,
    what: str | Callable[[], str] = "",
    pause_s: float = _SHORT_PAUSE_S,
) -> T:
    """Like `eventually`, for conditions that change in this event loop.

    If `what` is a function, it is called on failure. `pause_s` is longer for conditions that are not cheap to check, for example
    if they draw the screen.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(
                f"timeout after {timeout_s} s of waiting for: {what() if callable(what) else what}"
            )
        await asyncio.sleep(pause_s)


async def eventually_awaited(
    condition: Callable[[], Awaitable[T | Literal[False] | None]],
    *,
    timeout_s: float = WAIT_S,
    what: str = "",
) -> T:
    """Like `eventually`, for conditions that are awaited. One evaluation may not take longer than the time left."""
    try:
        async with asyncio.timeout(timeout_s):
            while not (value := await condition()):
                await asyncio.sleep(_ASKING_PAUSE_S)
            return value
    except TimeoutError:
        raise AssertionError(f"timeout after {timeout_s} s of waiting for: {what}") from None
