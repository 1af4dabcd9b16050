"""Settings of Python's garbage collector that keep its pauses short in a large controller.

A full collection takes about a microsecond per object. With 100,000 jobs or 100,000 connections it takes a
fifth of a second, and the controller serves no request during that time. Objects that survive one full
collection are therefore frozen (`gc.freeze`), so that the next collection costs only as much as the objects
created since then.

A reference cycle among frozen objects would never be freed. Everything is therefore unfrozen and collected
when the number of objects has doubled since the last complete collection, or when a caller of `collect` knows
that many objects are no longer used.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

GROWTH = 2.0
LEAST_MORE = 100_000
"""Minimum growth, in objects, before everything is collected again. For a small controller, a full collection
takes only a few milliseconds.
"""
OLDEST = 2
"""The oldest generation. Its collection examines all objects that are not frozen."""


class Collector:
    """Garbage collection policy of this process. It takes effect at the end of `loading`."""

    def __init__(self) -> None:
        self._left_out = 0
        """Number of frozen objects when they were counted. Some of them may have been freed since then."""
        self._most = 0
        """The largest number of objects that may be frozen before everything is collected again."""

    @contextlib.contextmanager
    def loading(self) -> Iterator[None]:
        """Load long-lived objects in this block.

        The collector does not run during the block, and the objects that exist at its end are frozen.
        """
        gc.disable()
        try:
            yield
        finally:
            self._leave_out()
            gc.callbacks.append(self._follow)
            gc.enable()

    def close(self) -> None:
        """Restore Python's default behavior."""
        if self._follow in gc.callbacks:
            gc.callbacks.remove(self._follow)
        gc.unfreeze()

    def collect(self) -> None:
        """Run a full collection now."""
        self._most = 0
        gc.collect()

    def _follow(self, phase: str, info: dict[str, int]) -> None:
        """Handle the call that Python makes before and after each collection."""
        if info["generation"] != OLDEST:
            return
        if phase == "stop":
            self._leave_out()
        elif self._left_out > self._most:
            # Most of the objects that were counted as frozen may have been freed soon afterwards, so count again.
            self._left_out = gc.get_freeze_count()
            if self._left_out > self._most:
                self._left_out = 0
                gc.unfreeze()

    def _leave_out(self) -> None:
        """Freeze all objects that exist now.

        The objects are counted before they are frozen, because counting all frozen objects takes 30
        milliseconds.
        """
        anew = not self._left_out
        self._left_out += len(gc.get_objects())
        if anew:
            self._most = int(max(self._left_out * GROWTH, self._left_out + LEAST_MORE))
        gc.freeze()
