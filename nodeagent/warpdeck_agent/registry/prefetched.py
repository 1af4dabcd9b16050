"""Launches that were handed ahead of time: each waits here for the place of the one before it, and begins when that is free.

They are in memory alone: what has not begun is nothing that an agent after this one would have to know, and the controller
sends it again. Each says how long it may wait. What is given back has not begun and will not: so much is said of it, and
of all that wait behind it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

from warpdeck_agent.storage.launch_table import Key
from warpdeck_agent.wire.messages import GivenBack, Launch


class Ahead:
    """The lines of all places of this node."""

    def __init__(self, tell: Callable[[Any], None]) -> None:
        self._tell = tell
        self._waiting: Dict[Key, Tuple[Launch, float]] = {}
        """By their own keys, with the time until which they wait."""
        self._behind: Dict[Key, Key] = {}
        """Who waits behind whom: one behind each."""
        self._alarm: Optional[asyncio.TimerHandle] = None

    def __contains__(self, key: object) -> bool:
        return key in self._waiting

    def add(self, launch: Launch) -> None:
        """Lets it wait behind the launch that it names."""
        key, until = _key(launch), asyncio.get_running_loop().time() + launch.behind_s
        self._waiting[key] = (launch, until)
        self._behind[_before(launch)] = key
        self._look_at(until)

    def next(self, gone: Key) -> Optional[Launch]:
        """The launch that may begin now that the place of that one is free."""
        key = self._behind.pop(gone, None)
        return None if key is None else self._waiting.pop(key)[0]

    def give_back(self, keys: Iterable[Key]) -> None:
        """These, and what waits behind them, do not begin any more."""
        self._say(key for first in keys for key in self._drop(first))

    def close(self, gone: Key) -> None:
        """The place of that launch is no good: nobody gets it."""
        follower = self._behind.get(gone)
        if follower is not None:
            self.give_back([follower])

    def remove(self, key: Key) -> None:
        """This one is ended where it stands; what waits behind it is given back."""
        self._say(self._drop(key)[1:])

    def _drop(self, first: Key) -> List[Key]:
        """That one and all behind it, in their order; nothing if it does not wait."""
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
