"""An asyncio event loop with virtual time: if all tasks wait, the clock moves to the next timer at once.

Real descriptors are checked, but the loop does not wait for them. It does not wait for threads either, so
code that uses threads does not work in this loop. If no event can happen any more, the loop raises `Stalled`
instead of waiting forever.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

RESOLUTION_S = 1e-6
"""Timers with a smaller distance are simultaneous. The value is far above the rounding error of the longest
simulated time.
"""


class Stalled(Exception):
    """All tasks wait for events that can never happen."""


class _Selector(selectors.BaseSelector):
    """Checks the real selector, and advances the time instead of waiting."""

    def __init__(self, advance: Callable[[float], None]) -> None:
        self._real = selectors.DefaultSelector()
        self._advance = advance

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = self._real.select(0)
        if found or timeout == 0:
            return found
        if timeout is None:
            raise Stalled("nothing is left that could happen")
        self._advance(timeout)
        return found

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop with a time that starts at 0 s."""

    def __init__(self) -> None:
        self._now_s = 0.0
        super().__init__(_Selector(self._advance))
        self._clock_resolution = RESOLUTION_S

    def time(self) -> float:
        return self._now_s

    def _advance(self, seconds: float) -> None:
        self._now_s += max(seconds, 0.0)


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time. Raises Stalled where real time would hang."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
