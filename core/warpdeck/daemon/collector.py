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
MIN_GROWTH = 100_000
"""Minimum growth, in objects, before everything is collected again. For a small controller, a full collection
takes only a few milliseconds.
"""
OLDEST = 2
"""The oldest generation. Its collection examines all objects that are not frozen."""


class Collector:
    """Garbage collection policy of this process. It takes effect at the end of `loading`."""

    def __init__(self) -> None:
        self._frozen_count = 0
        """Number of frozen objects when they were counted. Some of them may have been freed since then."""
        self._max_frozen = 0
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
            self._freeze()
            gc.callbacks.append(self._on_collection)
            gc.enable()

    def close(self) -> None:
        """Restore Python's default behavior."""
        if self._on_collection in gc.callbacks:
            gc.callbacks.remove(self._on_collection)
        gc.unfreeze()

    def collect(self) -> None:
        """Run a full collection now."""
        self._max_frozen = 0
        gc.collect()

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        """Handle the call that Python makes before and after each collection."""
        if info["generation"] != OLDEST:
            return
        if phase == "stop":
            self._freeze()
        elif self._frozen_count > self._max_frozen:
            # Most of the objects that were counted as frozen may have been freed soon afterwards, so count again.
            self._frozen_count = gc.get_freeze_count()
            if self._frozen_count > self._max_frozen:
                self._frozen_count = 0
                gc.unfreeze()

    def _freeze(self) -> None:
        """Freeze all objects that exist now.

        The objects are counted before they are frozen, because counting all frozen objects takes 30
        milliseconds.
        """
        is_first = not self._frozen_count
        self._frozen_count += len(gc.get_objects())
        if is_first:
            self._max_frozen = int(max(self._frozen_count * GROWTH, self._frozen_count + MIN_GROWTH))
        gc.freeze()
