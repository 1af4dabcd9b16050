"""What each minute of the last day was like, in a file: an agent that is started anew, for an update or because it was killed,
still knows what the node did before. A line a minute, in two files that take turns, so that none grows for ever.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, Dict, List, Tuple

from warpdeck_agent.gpu.foreign_users import MINUTE_S, MOST_MINUTES, Minute, Seen
from warpdeck_agent.storage.spool import Folder
from warpdeck_agent.wire.messages import COLUMNS

from .bounded_record import Values

MOST = MOST_MINUTES
"""Minutes of a file: a day, as long as a ring of minutes is."""
MOST_BYTES = 16 * 1024 * 1024
"""Of a file: a day of a node with a hundred parts of GPUs. One that is larger is none of ours."""
FILE, OLD = "minutes", "minutes.old"
Things = Dict[str, Values]
"""What was measured, by what it is of: "" is the node, all else the uuid of a GPU."""
USERS, UNEXPLAINED = "strangers", "unexplained_bytes"
"""Beside a GPU's values; an agent that does not know these words reads the line all the same."""


class Minutes:
    """The files in the agent's folder."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._lines = 0

    def add(self, minute: int, things: Things, strangers: Minute) -> None:
        """A minute that is over, by its number since 1970. A full disk loses what a later agent would have known."""
        known: Dict[str, Dict[str, Any]] = {key: _short(values) for key, values in things.items() if values}
        for uuid, seen in strangers.items():
            known.setdefault(uuid, {})[USERS] = dict(seen.users)
            if seen.unexplained_bytes:
                known[uuid][UNEXPLAINED] = seen.unexplained_bytes
        with contextlib.suppress(OSError):
            if self._lines >= MOST or self._size_bytes(FILE) >= MOST_BYTES:
                os.replace(self._folder.file(FILE), self._folder.file(OLD))
                self._lines = 0
            self._folder.append(FILE, json.dumps([minute, known], separators=(",", ":")))
            self._lines += 1

    def read(self, now: float) -> List[Tuple[int, Things, Minute]]:
        """The minutes of the last day, oldest first; what is torn or strange counts as nothing."""
        this = int(now // MINUTE_S)
        found: Dict[int, Tuple[Things, Minute]] = {}
        lines = self._lines_of(FILE)
        self._lines = len(lines)
        for line in [*self._lines_of(OLD), *lines][-MOST:]:
            with contextlib.suppress(ValueError, TypeError, AttributeError, OverflowError):
                minute, things, strangers = _parsed(line)
                if this - MOST <= minute < this:  # none of a clock that was ahead
                    found[minute] = things, strangers
        return [(minute, *kept) for minute, kept in sorted(found.items())]

    def _lines_of(self, name: str) -> List[str]:
        return self._folder.read_lines(name) if self._size_bytes(name) <= MOST_BYTES else []

    def _size_bytes(self, name: str) -> int:
        try:
            return os.stat(self._folder.file(name)).st_size
        except FileNotFoundError:
            return 0


def _short(values: Values) -> Dict[str, Any]:
    return {name: None if value is None else round(value, 1) for name, value in values.items()}


def _parsed(line: str) -> Tuple[int, Things, Minute]:
    """Raises ValueError, TypeError, AttributeError or OverflowError for what `add` did not write."""
    minute, things = json.loads(line)
    measured: Things = {
        str(key): {name: float(values[name]) for name in COLUMNS if name in values}
        for key, values in things.items()
    }
    strangers = {str(key): _seen(values) for key, values in things.items() if USERS in values}
    return int(minute), measured, strangers


def _seen(values: Dict[str, Any]) -> Seen:
    """On a GPU, as `add` wrote it; of an agent before this one it is not known."""
    users = tuple((str(user), int(mem_bytes)) for user, mem_bytes in values[USERS].items())
    return Seen(users, int(values.get(UNEXPLAINED, 0)))
