"""Notices the end of processes that may not be children of this process, by pidfd or by polling.

A step's task is watched through its supervisor, which holds a lock. A launch's first process is watched only
if the supervisor that would have reported its end was killed.
"""

from __future__ import annotations

import asyncio
import os
from typing import Callable, Generic, Set, TypeVar

POLL_S = 0.05
"""Polling interval in seconds without pidfd (kernels before 5.3)."""

_T = TypeVar("_T")


class ProcessEndWatch(Generic[_T]):
    """Calls `on_end` once for each job or task when its process has ended.

    `lives` returns whether the process with that `pid` is still the right one, because the kernel reuses
    pids.
    """

    def __init__(
        self, on_end: Callable[[_T], None], *, pid: Callable[[_T], int], lives: Callable[[_T], bool]
    ) -> None:
        self._on_end = on_end
        self._pid = pid
        self._lives = lives
        self._polling: Set[asyncio.Task[None]] = set()

    def add(self, watched: _T) -> None:
        """Start to watch. A process that has already ended is noticed too."""
        loop = asyncio.get_running_loop()
        try:
            descriptor = os.pidfd_open(self._pid(watched))
        except (AttributeError, OSError):
            task = loop.create_task(self._poll(watched))
            self._polling.add(task)
            task.add_done_callback(self._polling.discard)
            return
        if self._lives(watched):
            loop.add_reader(descriptor, self._ended, watched, descriptor)
        else:
            os.close(descriptor)
            loop.call_soon(self._on_end, watched)

    def _ended(self, watched: _T, descriptor: int) -> None:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)
        self._on_end(watched)

    async def _poll(self, watched: _T) -> None:
        while self._lives(watched):
            await asyncio.sleep(POLL_S)
        self._on_end(watched)
