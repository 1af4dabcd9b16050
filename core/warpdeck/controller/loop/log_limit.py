"""A limit on the log's rate: whatever clients and nodes do, one kind of line fills neither the disk nor the loop's time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

LINES_A_SECOND = 20
"""Lines of one kind. Kinds are told apart by their logger and by their text before values are put in."""
MAX_KINDS = 1000
"""Kinds that are counted at once; the count begins anew when there are more."""


class RateLimit(logging.Filter):
    """Drops lines beyond the limit. The first line of the kind in a later second tells how many were dropped."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._counts: dict[tuple[str, str], list[int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind, second = (record.name, _text(record)), int(self._clock())
        if len(self._counts) > MAX_KINDS:
            self._counts.clear()
        counted = self._counts.setdefault(kind, [second, 0])
        if counted[0] != second:
            dropped = max(0, counted[1] - LINES_A_SECOND)
            counted[:] = [second, 0]
            if dropped:
                record.msg = f"{record.getMessage()} ({dropped} lines like this were left out before)"
                record.args = None
        counted[1] += 1
        return counted[1] <= LINES_A_SECOND


def _text(record: logging.LogRecord) -> str:
    """The text before values are put in. Libraries put them in themselves, so all of one library is one kind."""
    return str(record.msg) if record.name.startswith("warpdeck") else ""
