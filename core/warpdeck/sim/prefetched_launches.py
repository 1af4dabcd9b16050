"""Prefetched launches on a simulated node, which wait for the end of another launch as on a real node."""

from __future__ import annotations

from warpdeck_agent.wire import messages as wire

Key = tuple[int, int]


class PrefetchedLaunches:
    """The prefetched launches of one node. Each launch waits for the end of its predecessor."""

    def __init__(self) -> None:
        self._by_predecessor: dict[Key, wire.Launch] = {}

    def add(self, launch: wire.Launch) -> None:
        """Add a launch. The launch itself names its predecessor."""
        job_id, restarts = launch.behind
        self._by_predecessor[job_id, restarts] = launch

    def holds(self, key: Key) -> bool:
        """Return whether the launch with this key waits for its predecessor."""
        return any((each.job_id, each.restarts) == key for each in self._by_predecessor.values())

    def next(self, ended: Key) -> wire.Launch | None:
        """Remove and return the launch that may begin after the end of `ended`."""
        return self._by_predecessor.pop(ended, None)

    def drop(self, keys: set[Key]) -> list[Key]:
        """Remove these launches with all of their successors, and return the keys of all removed launches."""
        dropped: list[Key] = []
        for before, launch in list(self._by_predecessor.items()):
            key = (launch.job_id, launch.restarts)
            if key in keys or before in dropped:
                del self._by_predecessor[before]
                dropped.append(key)
        return dropped

    def clear(self) -> None:
        self._by_predecessor.clear()
