"""Which nodes are asked for their health now. Pure.

What changes they tell by themselves. Asking them compares the clocks, and tells them how the site wants to be watched. What an
answer costs the controller is about what a sample costs, so nodes of a large site are asked in turn.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from warpdeck.model import NodeName

MOST_AT_ONCE = 300
"""Every half a minute: ten a second, beside the samples of all nodes. A thousand nodes are asked every two minutes."""


class HealthPolling:
    """Who was asked last."""

    def __init__(self) -> None:
        self._last = NodeName("")

    def next(self, up: Iterable[NodeName]) -> list[NodeName]:
        """Of the nodes that are up those whose turn it is, by name; after the last name comes the first again."""
        names = sorted(up)
        first = bisect_right(names, self._last)
        asked = (names[first:] + names[:first])[:MOST_AT_ONCE]
        if asked:
            self._last = asked[-1]
        return asked
