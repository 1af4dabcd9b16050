"""Prefetched launches: each waits on the node until an earlier launch has ended, and then begins.

They are only kept in memory. A restarted agent does not need them, because the controller sends launches that
have not begun again. Each launch has a maximum waiting time. A launch that is returned has not begun and will
not. All launches that wait behind it are returned with it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

from warpdeck_agent.storage.launch_table import Key
from warpdeck_agent.wire.messages import GivenBack, Launch


class Ahead:
    """The queues of prefetched launches on this node. `tell` gets messages for the controller."""

    def __init__(self, tell: Callable[[Any], None]) -> None:
        self._tell = tell
        self._waiting: Dict[Key, Tuple[Launch, float]] = {}
        """Launches by their own keys, with the loop time until which they wait."""
        self._behind: Dict[Key, Key] = {}
        """Key of the waiting launch by the key of the launch for which it waits. Only one waits behind
        each.
        """
        self._alarm: Optional[asyncio.TimerHandle] = None

    def __contains__(self, key: object) -> bool:
        return key in self._waiting

    def add(self, launch: Launch) -> None:
        """Queue a launch behind the one that it names."""
        key, until = _key(launch), asyncio.get_running_loop().time() + launch.behind_s
        self._waiting[key] = (launch, until)
        self._behind[_before(launch)] = key
        self._look_at(until)

    def next(self, gone: Key) -> Optional[Launch]:
        """Remove and return the launch that may begin because the launch `gone` has ended, or None."""
        key = self._behind.pop(gone, None)
        return None if key is None else self._waiting.pop(key)[0]

    def give_back(self, keys: Iterable[Key]) -> None:
        """Give these launches, and all that wait behind them, back to the controller."""
        self._say(key for first in keys for key in self._drop(first))

    def close(self, gone: Key) -> None:
        """Give all launches that wait behind `gone` back to the controller, because the node cannot run
        them.
        """
        follower = self._behind.get(gone)
        if follower is not None:
            self.give_back([follower])

    def remove(self, key: Key) -> None:
        """Remove a launch that is ended while it waits.

        Launches that wait behind it are given back to the controller.
        """
        self._say(self._drop(key)[1:])

    def _drop(self, first: Key) -> List[Key]:
        """Remove a launch and all behind it, and return their keys in order; nothing if it does not wait."""
        dropped: List[Key] = []
        key: Optional[Key] = first
        while key is not None and key in self._waiting:
            launch, _ = self._waiting.pop(key)
            self._behind.pop(_before(launch), None)
            dropped.append(key)
            key = self._behind.get(key)
        return dropped

    def _say(self, keys: Iterable[Key]) -> None:
        launches = [list(key) for key in keys]
        if launches:
            self._tell(GivenBack(launches=launches))

    def _look_at(self, until: float) -> None:
        if self._alarm is None or self._alarm.when() > until:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm = asyncio.get_running_loop().call_at(until, self._look)

    def _look(self) -> None:
        self._alarm = None
        now = asyncio.get_running_loop().time()
        self.give_back([key for key, (_, until) in self._waiting.items() if until <= now])
        if self._waiting:
            self._look_at(min(until for _, until in self._waiting.values()))


def _key(launch: Launch) -> Key:
    return launch.job_id, launch.restarts


def _before(launch: Launch) -> Key:
    job_id, restarts = launch.behind
    return job_id, restarts
