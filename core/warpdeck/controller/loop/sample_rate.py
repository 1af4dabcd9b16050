"""The rate at which nodes send samples: once a second on a small site, and less often on a site with many
nodes.

The cost of a sample is mostly its decryption, and does not depend on whether a client displays it. All nodes
together therefore send a limited number of samples per second. The limit is low while no client watches, and
higher while the app or another subscriber is connected. Nodes still measure every second. They report at once
when a process appears on a GPU or leaves it, because scheduling decisions depend on that.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from warpdeck.controller.events.effects import SetSampling
from warpdeck.model import NodeName
from warpdeck.ports.ports import SAMPLE_S

UNWATCHED_A_SECOND = 25
"""Samples per second of all nodes together. They are nearly all the work of an idle controller, about one
percent of a core.
"""
WATCHED_A_SECOND = 200


def interval_s(nodes: int, *, watched: bool) -> float:
    """Return the whole seconds between two samples of one node on a site with `nodes` nodes."""
    return max(SAMPLE_S, float(math.ceil(nodes / (WATCHED_A_SECOND if watched else UNWATCHED_A_SECOND))))


class SampleRate:
    """Number of watching clients, and the interval that was sent to each node."""

    def __init__(self) -> None:
        self._watchers = 0
        self._sent: dict[NodeName, float] = {}

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Count one more watching client during the block."""
        self._watchers += 1
        try:
            yield
        finally:
            self._watchers -= 1

    def on_connect(self, name: NodeName, *, nodes: int) -> list[SetSampling]:
        """Return the interval to send to a newly connected node.

        Until the node receives the interval, it sends a sample every SAMPLE_S.
        """
        self._sent.pop(name, None)
        return self._changes([name], nodes)

    def changes(self, up: Collection[NodeName], *, nodes: int) -> list[SetSampling]:
        """Return the intervals to send to the nodes that are up, on a site with `nodes` nodes.

        Other nodes are forgotten.
        """
        self._sent = {name: self._sent[name] for name in up if name in self._sent}
        return self._changes(up, nodes)

    def _changes(self, names: Iterable[NodeName], nodes: int) -> list[SetSampling]:
        target_s = interval_s(nodes, watched=self._watchers > 0)
        outdated = [name for name in names if self._sent.get(name, SAMPLE_S) != target_s]
        self._sent.update(dict.fromkeys(outdated, target_s))
        return [SetSampling(node=name, interval_s=target_s) for name in outdated]
