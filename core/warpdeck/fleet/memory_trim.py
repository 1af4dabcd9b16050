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


class Burst:
    """Counts concurrent operations. `on_over` is called when the last one ends, if there were many."""

    def __init__(self, on_over: Callable[[], object]) -> None:
        self._on_over = on_over
        self._under_way = 0
        self._came = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Context of one operation."""
        self._under_way += 1
        self._came += 1
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                came, self._came = self._came, 0
                if came >= MANY:
                    self._on_over()


class Tidying:
    """Cleans up after many handshakes or many ended links.

    `collect` frees the objects of dead links; then free memory is returned to the system.
    """

    def __init__(self, collect: Callable[[], object]) -> None:
        self._collect = collect
        self._ended = 0
        self._timer: asyncio.TimerHandle | None = None

    def ended(self) -> None:
        """Count a link that has ended. Each ended link leaves a reference cycle of 55 kB."""
        self._ended += 1
        if self._ended >= MANY:
            self.later()

    def later(self) -> None:
        """Schedule a cleanup unless one is already scheduled."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SETTLE_S, self._tidy)

    def _tidy(self) -> None:
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
