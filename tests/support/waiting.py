"""Waiting for a condition, never for a time: the only places where tests pause, and each looks again until a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
WAIT_S = 60.0
"""Far beyond what anything takes on a machine that others use too."""
_PAUSE_S = 0.05
_SHORT_PAUSE_S = 0.002
"""Within one process, where looking costs nothing."""


def eventually(condition: Callable[[], T], *, timeout_s: float = WAIT_S, what: str = "") -> T:
    """The first true value of the condition; AssertionError with the last value when the time is over."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"still not so after {timeout_s} s: {what} (last: {value!r})"
        time.sleep(_PAUSE_S)


async def comes(condition: Callable[[], T], *, what: str | Callable[[], str] = "") -> T:
    """`eventually` for what happens in this event loop. `what` may be asked when it has not come."""
    deadline = time.monotonic() + WAIT_S
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"still not so after {WAIT_S} s: {what() if callable(what) else what}")
        await asyncio.sleep(_SHORT_PAUSE_S)
