"""Splits the lines that `scontrol --oneliner show` prints for nodes, partitions and reservations.

A line is a sequence of KEY=VALUE. A value may contain spaces and equal signs, such as OS or Reason, so only the keys
that the caller expects begin a new field. Users of the cluster cannot choose these texts; only admins can.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from .marked_table import EMPTY


class OneLiner:
    """Reads lines with these keys."""

    def __init__(self, keys: Collection[str]) -> None:
        names = "|".join(sorted(map(re.escape, keys), key=len, reverse=True))
        self._key = re.compile(rf"(?:^| )({names})=")

    def fields(self, line: str) -> dict[str, str]:
        """Return the values by key, "" for a field without a value. The first value of a repeated key counts."""
        found: dict[str, str] = {}
        matches = list(self._key.finditer(line))
        for match, following in zip(matches, [*matches[1:], None], strict=True):
            end = following.start() if following else len(line)
            value = line[match.end() : end].strip()
            found.setdefault(match[1], "" if value in EMPTY else value)
        return found
