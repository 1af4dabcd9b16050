"""The kernel's lock that a process takes on its way into a group (cgroup_threadgroup_rwsem).

Who takes it first after a pause waits until every CPU has come to a quiet moment: 12 ms where a launch takes 20. Who comes soon
after that waits 0.1 ms. So it is taken as soon as a launch has its groups, by a move that changes nothing, beside all that has to
be done before the first process is there to be moved.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Optional, Sequence

from warpdeck_agent.linux.procfs import text, write

from .cgroups import OWN_LEAF

WARM_S = 0.01
"""So soon after the last move another has nothing to wait for; the kernel lets go of the lock after another 12 ms."""


class GroupLock:
    """Of this agent, whose groups lie in `bases`, the folders below its own."""

    def __init__(self, bases: Sequence[str]) -> None:
        self._own = _own_list(bases)
        self._moved_at = -WARM_S
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="grouplock")
        """One that stays: on a busy node nearly every launch comes after a pause, and a new thread costs as much as a write."""

    def expect(self) -> Optional[Future[None]]:
        """A process will be moved in a moment. Returns at once: what has begun, if anything."""
        now = time.monotonic()
        before, self._moved_at = self._moved_at, now
        if self._own and now - before > WARM_S:
            return self._thread.submit(self._take)
        return None

    def _take(self) -> None:
        try:
            write(self._own, str(os.getpid()))
        except OSError:
            self._own = ""  # not allowed here, and launches go well without


def _own_list(bases: Sequence[str]) -> str:
    """The list of processes that this one stands in already, "" if there is none among the parents of our groups."""
    for base in bases:
        parent = os.path.dirname(base)
        for group in (os.path.join(parent, OWN_LEAF), parent):
            path = os.path.join(group, "cgroup.procs")
            if str(os.getpid()) in text(path).split():
                return path
    return ""
