"""A file with the measurements of each minute of the last day.

It lets an agent that was restarted, after an update or a crash, know the node's history. The file has one
line per minute. Two files are used alternately, so that their size stays bounded.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, Dict, List, Tuple

from warpdeck_agent.gpu.foreign_users import MINUTE_S, MOST_MINUTES, ForeignUse, Minute
from warpdeck_agent.storage.spool import Folder
from warpdeck_agent.wire.messages import COLUMNS

from .bounded_record import Values

MOST = MOST_MINUTES
"""The most minutes in a file: one day, the length of the ring of minutes."""
MOST_BYTES = 16 * 1024 * 1024
"""The most bytes in a file: a day of a node with a hundred GPU instances. A larger file was not written by
us.
"""
FILE, OLD = "minutes", "minutes.old"
ValuesByObject = Dict[str, Values]
"""The measured values by their object: "" is the node, any other key the uuid of a GPU."""
USERS, UNEXPLAINED = "strangers", "unexplained_bytes"
"""Additional keys beside a GPU's values. An agent that does not know them can still read the line."""


class MinuteHistory:
    """The files in the agent's folder."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._lines = 0

    def add(self, minute: int, values_by_object: ValuesByObject, foreign: Minute) -> None:
        """Append a finished minute, given by its number since 1970.

        On a full disk, only a restarted agent loses the data.
        """
        known: Dict[str, Dict[str, Any]] = {
            key: _rounded(values) for key, values in values_by_object.items() if values
        }
        for uuid, use in foreign.items():
            known.setdefault(uuid, {})[USERS] = dict(use.users)
            if use.unexplained_bytes:
                known[uuid][UNEXPLAINED] = use.unexplained_bytes
        with contextlib.suppress(OSError):
            if self._lines >= MOST or self._size_bytes(FILE) >= MOST_BYTES:
                os.replace(self._folder.file(FILE), self._folder.file(OLD))
                self._lines = 0
            self._folder.append(FILE, json.dumps([minute, known], separators=(",", ":")))
            self._lines += 1

    def read(self, now: float) -> List[Tuple[int, ValuesByObject, Minute]]:
        """Return the minutes of the last day, oldest first. Damaged lines are ignored."""
        this = int(now // MINUTE_S)
        found: Dict[int, Tuple[ValuesByObject, Minute]] = {}
        lines = self._lines_of(FILE)
        self._lines = len(lines)
        for line in [*self._lines_of(OLD), *lines][-MOST:]:
            with contextlib.suppress(ValueError, TypeError, AttributeError, OverflowError):
                minute, values_by_object, foreign = _parsed(line)
                if this - MOST <= minute < this:  # drop minutes from a clock that was ahead
                    found[minute] = values_by_object, foreign
        return [(minute, *kept) for minute, kept in sorted(found.items())]

    def _lines_of(self, name: str) -> List[str]:
        return self._folder.read_lines(name) if self._size_bytes(name) <= MOST_BYTES else []

    def _size_bytes(self, name: str) -> int:
        try:
            return os.stat(self._folder.file(name)).st_size
        except FileNotFoundError:
            return 0


def _rounded(values: Values) -> Dict[str, Any]:
    return {name: None if value is None else round(value, 1) for name, value in values.items()}


def _parsed(line: str) -> Tuple[int, ValuesByObject, Minute]:
    """Parse a line of the file of minutes.

    Raises ValueError, TypeError, AttributeError or OverflowError if `add` did not write it.
    """
    minute, values_by_object = json.loads(line)
    measured: ValuesByObject = {
        str(key): {name: float(values[name]) for name in COLUMNS if name in values}
        for key, values in values_by_object.items()
    }
    foreign = {str(key): _foreign_use(values) for key, values in values_by_object.items() if USERS in values}
    return int(minute), measured, foreign


def _foreign_use(values: Dict[str, Any]) -> ForeignUse:
    """Return the foreign memory on a GPU, as `add` wrote it. Lines of older agents do not have it."""
    users = tuple((str(user), int(mem_bytes)) for user, mem_bytes in values[USERS].items())
    return ForeignUse(users, int(values.get(UNEXPLAINED, 0)))
