"""Return the memory of many simultaneous handshakes to the system.

Hundreds of handshakes use four times the memory that the links need later. Each handshake briefly takes 0.1
MB in pieces that OpenSSL and the interpreter allocate from the C library. Freed pieces are surrounded by
pieces still in use, so the library keeps them unless it is told to release them.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MANY = 32
"""Minimum number of handshakes or ended links for a cleanup."""
SETTLE_S = 10.0
"""Seconds to wait after the last handshake. Its objects have been collected by then."""


class BurstCounter:
    """Counts concurrent operations. `on_over` is called when the last one ends, if there were many."""

    def __init__(self, on_over: Callable[[], object]) -> None:
        self._on_over = on_over
        self._active = 0
        self._started = 0

    @contextmanager
    def operation(self) -> Iterator[None]:
        """Context of one operation."""
        self._active += 1
        self._started += 1
        try:
            yield
        finally:
            self._active -= 1
            if not self._active:
                started, self._started = self._started, 0
                if started >= MANY:
                    self._on_over()


class MemoryTrimmer:
    """Cleans up after many handshakes or many ended links.

    `collect` frees the objects of dead links; then free memory is returned to the system.
    """

    def __init__(self, collect: Callable[[], object]) -> None:
        self._collect = collect
        self._ended = 0
        self._timer: asyncio.TimerHandle | None = None

    def count_ended_link(self) -> None:
        """Count a link that has ended. Each ended link leaves a reference cycle of 55 kB."""
        self._ended += 1
        if self._ended >= MANY:
            self.schedule()

    def schedule(self) -> None:
        """Schedule a cleanup unless one is already scheduled."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SETTLE_S, self._run)

    def _run(self) -> None:
        self._timer = None
        ended, self._ended = self._ended, 0
        if ended:
            self._collect()
        asyncio.get_running_loop().run_in_executor(None, trim)


def trim() -> bool:
    """Return free memory to the system. Returns whether the C library can do that (glibc can)."""
    release = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if release is None:
        return False
    release(0)
    return True
