"""Noticing that a process has ended which may be nobody's child here: by pidfd, or by looking again.

A step's task is watched by its supervisor, which holds a lock. A launch's first process is watched only where the supervisor
that would have told of its end was killed.
"""

from __future__ import annotations

import asyncio
import os
from typing import Callable, Generic, Set, TypeVar

POLL_S = 0.05
"""How often is looked where there is no pidfd (kernels before 5.3)."""

_T = TypeVar("_T")


class Watch(Generic[_T]):
    """Calls `on_end` once for each job or task whose process has ended.

    `lives` tells whether the process of that `pid` is still the one that is meant: pids are given out again.
    """

    def __init__(
        self, on_end: Callable[[_T], None], *, pid: Callable[[_T], int], lives: Callable[[_T], bool]
    ) -> None:
        self._on_end = on_end
        self._pid = pid
        self._lives = lives
        self._polling: Set[asyncio.Task[None]] = set()

    def add(self, watched: _T) -> None:
        """Watches from now on; what is gone already is noticed too."""
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
