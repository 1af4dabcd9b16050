"""Colors of owners and jobs on the map: as distinct as possible, and the same for as long as the app runs."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

COLORS = 12
"""Number of colors that can be told apart in every theme."""
BASIC = 6
"""Number of the colors at the beginning that differ most. The others are used if these are taken."""


class OwnerColors:
    """Assigns a number from 0 to COLORS - 1 to each name. Names share a color only if there are more names than colors.

    The first choice depends only on the name, so that a user mostly has the same color after a restart, too.
    """

    def __init__(self) -> None:
        self._given: dict[str, int] = {}

    def assign(self, names: Iterable[str]) -> dict[str, int]:
        """Return the numbers of these names. Names that are gone give their color to new ones if all are taken."""
        wanted = sorted(set(names))
        here = {name: self._given[name] for name in wanted if name in self._given}
        taken = set(here.values())
        reserved = taken | set(self._given.values())
        for name in wanted:
            if name not in here:
                number = _first_free(name, reserved) if len(reserved) < COLORS else _first_free(name, taken)
                here[name] = number
                taken.add(number)
                reserved.add(number)
        if len(self._given) > 8 * COLORS:
            self._given = {}
        self._given.update(here)
        return here


def _first_free(name: str, taken: set[int]) -> int:
    """Return the name's own color or the next one that is free, or its own one if none is free."""
    own = zlib.crc32(name.encode()) % BASIC
    choices = [*((own + at) % BASIC for at in range(BASIC)), *range(BASIC, COLORS)]
    return next((each for each in choices if each not in taken), own)
