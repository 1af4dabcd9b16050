"""Ends launches, on request (see `killing`) or because their first process has ended.

In both cases all processes of the launch are killed.

All processes in a launch's cgroup are ended before the end is reported. Processes that left the cgroup are
found by their job tag with a walk over /proc, which all ends within a second share. For a launch without a
cgroup, this walk happens before its end is reported. Launches that left nothing free their resources at once.
If several of these end close together, they share one disk sync and one message. The exit status is durable
before it is reported. `teardown` handles the other conditions for a report.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from concurrent.futures import Executor
from typing import Any, Callable, List

from warpdeck_agent.launch.background_tasks import BackgroundTasks
from warpdeck_agent.launch.launch import LocalLaunch
from warpdeck_agent.launch.notices import Notices

from .remaining_processes import Stragglers
from .teardown import Teardown

GATHER_S = 0.01
"""Shortest interval in seconds between reports of ends. Each batch costs a disk sync here and a transaction
at the controller, which writes some twenty pages however few ends are in it.
"""
NOT_BEGUN = (0, 53)
"""Exit status (code, signal) of a job that could not begin, as Slurm reports it."""
FOLLOWED_FACTOR = 2
"""The interval is longer by this factor if other launches have begun on the resources of all ended ones. No
resources are idle then.
"""


class Ending:
    """Cleans up after launches and reports their ends.

    `tell` gets each report, `on_free` each launch of which nothing is left.
    """

    def __init__(
        self,
        pool: Executor,
        teardown: Teardown,
        tell: Callable[[Any], None],
        *,
        notices: Notices,
        on_free: Callable[[LocalLaunch], None],
        gather_s: float = GATHER_S,
    ) -> None:
        self._notices = notices
        self._on_free = on_free
        self._gather_s = gather_s
        self._stragglers = Stragglers(pool, teardown.tidy)
        self._teardown = teardown
        self._tell = tell
        self._over: List[LocalLaunch] = []
        self._others: List[LocalLaunch] = []
        """The launches that ended since the last report: `_over` have left nothing, `_others` may have left
        processes.
        """
        self._finishing = False
        self._reported_at = -gather_s
        self._urgent = asyncio.Event()
        """Set when the report of an ended launch is urgent, so that the batch is not delayed further."""
        self._background = BackgroundTasks()

    def ended(self, launch: LocalLaunch) -> None:
        """Handle a launch when its first process and all of its steps have ended."""
        if launch.phase == "running":
            launch.phase = "ending"
            launch.end.at_unix = time.time()
            self._take(launch)
            if not self._finishing:
                self._finishing = True
                self._background.start(self._finish())

    def _take(self, launch: LocalLaunch) -> None:
        if not self._teardown.is_over(launch):
            self._others.append(launch)
            self._urgent.set()
            return
        if not launch.has_successor and all(other.has_successor for other in self._over):
            self._urgent.set()
        self._over.append(launch)

    def end_hold(self, launch: LocalLaunch) -> None:
        """End a "hold" launch, which has no processes of its own, on request."""
        launch.phase, launch.end.at_unix = "exited", time.time()
        self._background.start(self._sweep_hold(launch))

    async def _finish(self) -> None:
        try:
            while self._over or self._others:
                while (left_s := self._delay_s()) > 0:
                    self._urgent.clear()
                    with contextlib.suppress(asyncio.TimeoutError):
                        await asyncio.wait_for(self._urgent.wait(), left_s)
                over, others, self._over, self._others = self._over, self._others, [], []
                unclear = await self._teardown.settle(over, others)
                self._reported_at = time.monotonic()
                for launch in over + others:
                    if launch in unclear:
                        self._background.start(self._clear(launch))
                    elif launch.end.cause == "oom" or launch.end.termination_message is not None:
                        self._background.start(self._close_after_message(launch))
                    else:
                        self._close(launch)
                self._stragglers.search_for(
                    [launch.processes.tag for launch in over + others if launch.processes.grouped]
                )
        finally:
            self._finishing = False

    def _delay_s(self) -> float:
        """Return the time in seconds until the next report.

        It is 0 if an ended launch keeps its resources until it is processed.
        """
        if self._others:
            return 0.0
        factor = FOLLOWED_FACTOR if all(launch.has_successor for launch in self._over) else 1
        return self._reported_at + factor * self._gather_s - time.monotonic()

    def _close(self, launch: LocalLaunch) -> None:
        status, message = launch.folder.end()
        launch.end.message = message or launch.end.message
        if status is not None:
            launch.phase, launch.end.status = "exited", status
            if not launch.end.cause and launch.checkpoints.left_for_limit():
                launch.end.cause = "timeout"
            if launch.end.message and not launch.end.cause:
                launch.end.cause, launch.end.status = "launch_failed", NOT_BEGUN
        elif not launch.folder.pid():
            launch.phase, launch.end.status = "exited", (1, 0)
            launch.end.cause, launch.end.message = "launch_failed", "the job's first process did not start"
        else:
            launch.phase, launch.end.status = "lost", (1, 0)
            launch.end.message = (
                launch.end.message or "the supervisor was killed, so the job's exit status is not known"
            )
        self._tell_end(launch)

    async def _clear(self, launch: LocalLaunch) -> None:
        await self._teardown.clear(launch)
        await self._close_after_message(launch)

    async def _close_after_message(self, launch: LocalLaunch) -> None:
        if launch.end.cause == "oom":  # An out-of-memory kill by the kernel is noticed only now.
            self._notices.write_termination_message(launch)
        await self._notices.wait_for_termination_message(launch)
        self._close(launch)

    async def _sweep_hold(self, launch: LocalLaunch) -> None:
        is_over = self._teardown.is_over(launch)
        if launch.processes.grouped:
            self._stragglers.search_for([launch.processes.tag])
        if await self._teardown.settle([launch] if is_over else [], [] if is_over else [launch]):
            await self._teardown.clear(launch)
        self._tell_end(launch)

    def _tell_end(self, launch: LocalLaunch) -> None:
        if launch.limit is not None:
            launch.limit.end()
        self._tell(launch.report())
        launch.end.reported.set()
        self._on_free(launch)
