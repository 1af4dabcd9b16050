"""How often nodes tell what they measure: once a second on a small site, more rarely the more nodes there are.

What a sample costs the controller is its decryption first of all, whether anybody looks at it or not. So all nodes together
are asked for a bounded number a second: few while nobody looks on, more as long as an app or another subscriber does. Nodes
measure every second all the same, and what a decision hangs on (a process comes to a GPU or leaves it) they tell at once.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from warpdeck.controller.events.events import SetSampling
from warpdeck.model import NodeName
from warpdeck.ports.ports import SAMPLE_S

UNWATCHED_A_SECOND = 25
"""Samples of all nodes: they are nearly all that an idle controller spends, about a percent of a core."""
WATCHED_A_SECOND = 200


def interval_s(nodes: int, *, watched: bool) -> float:
    """Whole seconds between two samples of one of so many nodes."""
    return max(SAMPLE_S, float(math.ceil(nodes / (WATCHED_A_SECOND if watched else UNWATCHED_A_SECOND))))


class SampleRate:
    """Who looks on, and what each node was told."""

    def __init__(self) -> None:
        self._watchers = 0
        self._told: dict[NodeName, float] = {}

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Somebody looks at what the nodes tell."""
        self._watchers += 1
        try:
            yield
        finally:
            self._watchers -= 1

    def begins(self, name: NodeName, *, nodes: int) -> list[SetSampling]:
        """What the node is told whose link is new: it sends a sample every SAMPLE_S until then."""
        self._told.pop(name, None)
        return self._orders([name], nodes)

    def orders(self, up: Collection[NodeName], *, nodes: int) -> list[SetSampling]:
        """What the nodes that are up have to be told now, at a site of so many. Of the others nothing is known any more."""
        self._told = {name: self._told[name] for name in up if name in self._told}
        return self._orders(up, nodes)

    def _orders(self, names: Iterable[NodeName], nodes: int) -> list[SetSampling]:
        wanted = interval_s(nodes, watched=self._watchers > 0)
        late = [name for name in names if self._told.get(name, SAMPLE_S) != wanted]
        self._told.update(dict.fromkeys(late, wanted))
        return [SetSampling(node=name, interval_s=wanted) for name in late]
