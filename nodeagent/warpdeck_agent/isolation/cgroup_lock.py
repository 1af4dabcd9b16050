"""Warms up the kernel's lock that a process takes when it moves into a cgroup (cgroup_threadgroup_rwsem).

The first process that takes it after a pause waits until every CPU has passed a quiescent state: 12 ms, while
a whole launch takes 20 ms. A process that takes it soon afterwards waits 0.1 ms. So the lock is taken with a
move that changes nothing as soon as a launch has its cgroups, in parallel with the other preparations.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Optional, Sequence

from warpdeck_agent.linux.procfs import text, write

from .cgroups import OWN_LEAF

WARM_S = 0.01
"""Within this time in seconds after the last move, another move does not wait. The kernel resets the lock 12
ms after that.
"""


class CgroupMoveLock:
    """The lock as used by this agent. `bases` are the parent folders of its jobs' cgroups."""

    def __init__(self, bases: Sequence[str]) -> None:
        self._own = _own_list(bases)
        self._moved_at = -WARM_S
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="grouplock")
        """A permanent thread: on a busy node nearly every launch comes after a pause, and starting a thread
        costs as much as a write.
        """

    def expect(self) -> Optional[Future[None]]:
        """Announce that a process will be moved soon.

        Returns at once, with the future of the warm-up if one was started.
        """
        now = time.monotonic()
        before, self._moved_at = self._moved_at, now
        if self._own and now - before > WARM_S:
            return self._thread.submit(self._warm_up)
        return None

    def _warm_up(self) -> None:
        try:
            write(self._own, str(os.getpid()))
        except OSError:
            self._own = ""  # not permitted here; launches work without it


def _own_list(bases: Sequence[str]) -> str:
    """Return the cgroup.procs file that already lists this process.

    It must belong to a parent of our cgroups; otherwise "" is returned.
    """
    for base in bases:
        parent = os.path.dirname(base)
        for group in (os.path.join(parent, OWN_LEAF), parent):
            path = os.path.join(group, "cgroup.procs")
            if str(os.getpid()) in text(path).split():
                return path
    return ""
