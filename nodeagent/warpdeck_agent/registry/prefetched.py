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


class PrefetchedLaunches:
    """The queues of prefetched launches on this node. `tell` gets messages for the controller."""

    def __init__(self, tell: Callable[[Any], None]) -> None:
        self._tell = tell
        self._waiting: Dict[Key, Tuple[Launch, float]] = {}
        """Launches by their own keys, with the loop time until which they wait."""
        self._behind: Dict[Key, Key] = {}
        """Key of the waiting launch by the key of the launch for which it waits. Only one waits behind
        each.
        """
        self._timer: Optional[asyncio.TimerHandle] = None

    def __contains__(self, key: object) -> bool:
        return key in self._waiting

    def add(self, request: Launch) -> None:
        """Queue a launch behind the one that it names."""
        key, until = _key(request), asyncio.get_running_loop().time() + request.behind_s
        self._waiting[key] = (request, until)
        self._behind[_before(request)] = key
        self._set_timer(until)

    def next(self, gone: Key) -> Optional[Launch]:
        """Remove and return the launch that may begin because the launch `gone` has ended, or None."""
        key = self._behind.pop(gone, None)
        return None if key is None else self._waiting.pop(key)[0]

    def revoke(self, keys: Iterable[Key]) -> None:
        """Return these launches, and all that wait behind them, to the controller."""
        self._tell_returned(key for first in keys for key in self._drop(first))

    def clear(self) -> None:
        """Drop all launches without a message to the controller."""
        self._waiting.clear()
        self._behind.clear()

    def close(self, gone: Key) -> None:
        """Return all launches that wait behind `gone` to the controller, because the node cannot run them."""
        follower = self._behind.get(gone)
        if follower is not None:
            self.revoke([follower])

    def remove(self, key: Key) -> None:
        """Remove a launch that is ended while it waits.

        Launches that wait behind it are returned to the controller.
        """
        self._tell_returned(self._drop(key)[1:])

    def _drop(self, first: Key) -> List[Key]:
        """Remove a launch and all behind it, and return their keys in order; nothing if it does not wait."""
        dropped: List[Key] = []
        key: Optional[Key] = first
        while key is not None and key in self._waiting:
            request, _ = self._waiting.pop(key)
            self._behind.pop(_before(request), None)
            dropped.append(key)
            key = self._behind.get(key)
        return dropped

    def _tell_returned(self, keys: Iterable[Key]) -> None:
        launches = [list(key) for key in keys]
        if launches:
            self._tell(GivenBack(launches=launches))

    def _set_timer(self, until: float) -> None:
        if self._timer is None or self._timer.when() > until:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_at(until, self._return_late)

    def _return_late(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        self.revoke([key for key, (_, until) in self._waiting.items() if until <= now])
        if self._waiting:
            self._set_timer(min(until for _, until in self._waiting.values()))


def _key(request: Launch) -> Key:
    return request.job_id, request.restarts


def _before(request: Launch) -> Key:
    job_id, restarts = request.behind
    return job_id, restarts
