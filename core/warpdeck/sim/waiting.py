"""Launches that wait on a simulated node for the place of another, as on a real one."""

from __future__ import annotations

from warpdeck_agent.wire import messages as wire

Key = tuple[int, int]


class Waiting:
    """Of one node, each behind one other."""

    def __init__(self) -> None:
        self._behind: dict[Key, wire.Launch] = {}

    def add(self, launch: wire.Launch) -> None:
        """Waits for the place of the launch that it names."""
        job_id, restarts = launch.behind
        self._behind[job_id, restarts] = launch

    def holds(self, key: Key) -> bool:
        """Whether that launch waits."""
        return any((each.job_id, each.restarts) == key for each in self._behind.values())

    def next(self, gone: Key) -> wire.Launch | None:
        """Who may begin now that this one has ended."""
        return self._behind.pop(gone, None)

    def drop(self, keys: set[Key]) -> list[Key]:
        """Takes these out, with all that wait behind them."""
        dropped: list[Key] = []
        for before, launch in list(self._behind.items()):
            key = (launch.job_id, launch.restarts)
            if key in keys or before in dropped:
                del self._behind[before]
                dropped.append(key)
        return dropped

    def clear(self) -> None:
        self._behind.clear()
