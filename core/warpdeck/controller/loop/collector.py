"""The collector of cycles, kept from holding up a large controller.

To look through everything, as it does again and again, takes a microsecond for each of the objects that there are: a fifth of a
second with a hundred thousand jobs or a thousand links, in which nobody is served. So what has survived one such look is not
looked at by the next (gc.freeze): a look costs what is new. What dies in a cycle afterwards would stay for ever; when there is
twice as much as after the last look at everything, or when somebody knows of much that has died, everything is looked
through again.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

GROWTH = 2.0
LEAST_MORE = 100_000
"""Objects; a small controller need not save the milliseconds."""
OLDEST = 2
"""The generation whose collection looks at everything."""


class Collector:
    """Of this process; in force once it is installed."""

    def __init__(self) -> None:
        self._left_out = 0
        """Objects that are not looked at; some of them have died since they were counted."""
        self._most = 0
        """So many may be left out."""

    @contextlib.contextmanager
    def loading(self) -> Iterator[None]:
        """What is loaded stays for long: the collector neither runs while it is made nor looks at it soon."""
        gc.disable()
        try:
            yield
        finally:
            self._leave_out()
            gc.callbacks.append(self._follow)
            gc.enable()

    def close(self) -> None:
        """Python's is as it was."""
        if self._follow in gc.callbacks:
            gc.callbacks.remove(self._follow)
        gc.unfreeze()

    def collect(self) -> None:
        """Looks at everything now."""
        self._most = 0
        gc.collect()

    def _follow(self, phase: str, info: dict[str, int]) -> None:
        """Called by Python before and after each look."""
        if info["generation"] != OLDEST:
            return
        if phase == "stop":
            self._leave_out()
        elif self._left_out > self._most:
            self._left_out = gc.get_freeze_count()  # most of what was counted was gone a moment later
            if self._left_out > self._most:
                self._left_out = 0
                gc.unfreeze()

    def _leave_out(self) -> None:
        """What there is now. Counted here, for to count all that is left out takes thirty milliseconds."""
        anew = not self._left_out
        self._left_out += len(gc.get_objects())
        if anew:
            self._most = int(max(self._left_out * GROWTH, self._left_out + LEAST_MORE))
        gc.freeze()
