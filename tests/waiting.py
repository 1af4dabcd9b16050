"""Waiting for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_PAUSE_S = 0.05


def eventually(condition: Callable[[], T], *, timeout_s: float = 30.0, what: str = "") -> T:
    """The first true value of the condition; AssertionError with the last value when the time is over."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"still not so after {timeout_s} s: {what} (last: {value!r})"
        _pause()


def _pause() -> None:
    import select

    select.select([], [], [], _PAUSE_S)
