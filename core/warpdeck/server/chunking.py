"""Long lists in small pieces: nobody waits for the whole of a thousand nodes or jobs, everybody else is served in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

_T = TypeVar("_T")
_Row = TypeVar("_Row")
ROWS_A_TURN = 50
"""Of the loop: five milliseconds, at a tenth for a job with all that is said of it or for a node of eight GPUs."""

TESTS_A_TURN = 4000
"""Whether a job is wanted is told in a microsecond or two."""


async def in_slices(
    things: Sequence[_T], show: Callable[[Sequence[_T]], Sequence[_Row]], *, rows: int = ROWS_A_TURN
) -> list[_Row]:
    """What `show` makes of all of them. They may change on the way: each is shown as it is at its turn."""
    found: list[_Row] = []
    for first in range(0, len(things), rows):
        if first:
            await asyncio.sleep(0)
        found += show(things[first : first + rows])
    return found
