"""Giving back what a burst of handshakes took: with hundreds of links at once that is four times what they need later.

Each takes a tenth of a megabyte for a moment, in pieces that OpenSSL and the interpreter have of the C library. Freed ones lie
between others that stay, so the library keeps them unless it is told not to.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MANY = 32
"""Fewer leave nothing worth a look."""
SETTLE_S = 10.0
"""After the last of them: what they made is collected by then."""


class Burst:
    """What is under way, and how many came since nothing was. `on_over` is called after many, when none is."""

    def __init__(self, on_over: Callable[[], object]) -> None:
        self._on_over = on_over
        self._under_way = 0
        self._came = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """One of them."""
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
    """After a burst, and after many links have ended: the dead ones are collected (`collect`), free memory is given back."""

    def __init__(self, collect: Callable[[], object]) -> None:
        self._collect = collect
        self._ended = 0
        self._timer: asyncio.TimerHandle | None = None

    def ended(self) -> None:
        """A link that stood has ended; each leaves a cycle of 55 kB."""
        self._ended += 1
        if self._ended >= MANY:
            self.later()

    def later(self) -> None:
        """A while from now, once for all until then."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SETTLE_S, self._tidy)

    def _tidy(self) -> None:
        self._timer = None
        ended, self._ended = self._ended, 0
        if ended:
            self._collect()
        asyncio.get_running_loop().run_in_executor(None, trim)


def trim() -> bool:
    """Whether this C library can (glibc's can)."""
    release = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if release is None:
        return False
    release(0)
    return True
