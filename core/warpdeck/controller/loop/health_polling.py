"""Selects the nodes to ask for their health.

Nodes report changes of their health on their own. A health request compares the clocks and sends the site's
health check settings to the node. An answer costs the controller about as much as a sample, so the nodes of a
large site are asked in rotation. It does no I/O.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from warpdeck.model import NodeName

MOST_AT_ONCE = 300
"""Requests per half minute. This is ten per second in addition to the samples of all nodes. At this rate
1,000 nodes are all asked within two minutes.
"""


class HealthPolling:
    """Rotation over the nodes. It remembers the node that was asked last."""

    def __init__(self) -> None:
        self._last = NodeName("")

    def next(self, up: Iterable[NodeName]) -> list[NodeName]:
        """Return the next nodes to ask among the nodes that are up.

        Nodes are taken in the order of their names. After the last name the first one follows.
        """
        names = sorted(up)
        first = bisect_right(names, self._last)
        asked = (names[first:] + names[:first])[:MOST_AT_ONCE]
        if asked:
            self._last = asked[-1]
        return asked
