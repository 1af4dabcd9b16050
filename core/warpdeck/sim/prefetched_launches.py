"""Prefetched launches on a simulated node, which wait for the end of another launch as on a real node."""

from __future__ import annotations

from warpdeck_agent.wire import messages as wire

Key = tuple[int, int]


class Waiting:
    """The prefetched launches of one node. Each launch waits for the end of its predecessor."""

    def __init__(self) -> None:
        self._behind: dict[Key, wire.Launch] = {}

    def add(self, launch: wire.Launch) -> None:
        """Add a launch. The launch itself names its predecessor."""
        job_id, restarts = launch.behind
        self._behind[job_id, restarts] = launch

    def holds(self, key: Key) -> bool:
        """Return whether that launch waits."""
        return any((each.job_id, each.restarts) == key for each in self._behind.values())

    def next(self, gone: Key) -> wire.Launch | None:
        """Remove and return the launch that may begin after the end of `ended`."""
        return self._behind.pop(gone, None)

    def drop(self, keys: set[Key]) -> list[Key]:
        """Remove these launches with all of their successors, and return the keys of all removed launches."""
        dropped: list[Key] = []
        for before, launch in list(self._behind.items()):
            key = (launch.job_id, launch.restarts)
            if key in keys or before in dropped:
                del self._behind[before]
                dropped.append(key)
        return dropped

    def clear(self) -> None:
        self._behind.clear()
