"""A rate limit for the log.

Clients and nodes cannot fill the disk or slow the main loop with one kind of log line.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

LINES_A_SECOND = 20
"""Maximum number of lines of one kind per second. A kind is a logger and a message text before values are
inserted.
"""
MAX_KINDS = 1000
"""Maximum number of kinds that are counted. With more kinds, all counts start again from zero."""


class RateLimit(logging.Filter):
    """A filter that drops lines beyond the limit.

    The first line of the kind in a later second reports the number of dropped lines.
    """

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
    """Return the message text before values are inserted.

    Other libraries insert the values themselves, so all lines of one library's logger count as one kind.
    """
    return str(record.msg) if record.name.startswith("warpdeck") else ""
