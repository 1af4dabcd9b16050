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


def trim_later() -> None:
    """Gives free memory back to the system, a while from now and in a thread."""
    loop = asyncio.get_running_loop()
    loop.call_later(SETTLE_S, lambda: loop.run_in_executor(None, trim))


def trim() -> bool:
    """Whether this C library can (glibc's can)."""
    release = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if release is None:
        return False
    release(0)
    return True
