"""The end of launches, either requested (TERM, a grace time, KILL) or noticed.

In both cases no process of them stays.

All processes in a launch's cgroup are ended before the end is reported. Processes that left the cgroup are
found by their job tag with a walk over /proc, which all ends within a second share. For a launch without a
cgroup, this walk happens before its end is reported. Launches that left nothing free their resources at once.
If several of these end close together, they share one disk sync and one message. The exit status is durable
before it is reported. `teardown` handles the other conditions for a report.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from concurrent.futures import Executor
from typing import Any, Callable, List, Set

from warpdeck_agent.isolation import job_processes
from warpdeck_agent.launch.background_tasks import BackgroundTasks
from warpdeck_agent.launch.launch import LocalLaunch
from warpdeck_agent.launch.notices import Notices
from warpdeck_agent.launch.signals import ALL, Signals
from warpdeck_agent.steps.step_ending import end_steps

from .teardown import Teardown

STRAGGLERS_S = 1.0
"""Delay in seconds between the end of a grouped launch and the search for its processes outside of the
cgroup. A walk takes 10 us for each process of the machine.
"""
GATHER_S = 0.01
"""Shortest interval in seconds between reports of ends. Each batch costs a disk sync here and a transaction
at the controller, which writes some twenty pages however few ends are in it.
"""
FOLLOWED_FACTOR = 2
"""The interval is longer by this factor if other launches have begun on the resources of all ended ones. No
resources are idle then.
"""
KILL_AGAIN_S = 0.5
"""Interval in seconds at which KILL is repeated for processes that a job still forks while it is being
ended.
"""
HOST_S = 4.0
"""How long a terminal's host may outlive all processes on the terminal, to store the last output, in seconds.
It is a process of the user, who can stop it.
"""
KILL_S = 3.0
"""How long an agent that was told to quit waits for jobs that were to be killed at once, in seconds."""


class Ending:
    """Ends launches. `tell` gets each report, `on_free` each launch of which nothing is left."""

    def __init__(
        self,
        pool: Executor,
        signals: Signals,
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
        self._pool = pool
        self._teardown = teardown
        self._signals = signals
        self._tell = tell
        self._over: List[LocalLaunch] = []
        self._others: List[LocalLaunch] = []
        """The launches that ended since the last report: `_over` have left nothing, `_others` may have left
        processes.
        """
        self._finishing = False
        self._told_at = -gather_s
        self._is_pressing = asyncio.Event()
        """Set when a launch has ended whose report is urgent, so that the batch is not delayed further."""
        self._left: List[job_processes.Mark] = []
        self._background = BackgroundTasks()
        self._at_once: Set[asyncio.Task[None]] = set()

    def kill(
        self, launch: LocalLaunch, *, cause: str, grace_s: float, number: int = 0, whom: str = ALL
    ) -> None:
        """End the job with TERM and, after the grace time, KILL. With `number`, only send that signal."""
        if launch.phase != "running":
            return
        if number:
            self._background.start(self._signals.send_to(launch, number, whom=whom))
            return
        if not launch.end.cause:
            launch.end.cause = cause
            # A full disk must not keep a job alive. If the write fails, only a restarted agent would not know
            # the cause. It is not durable, because a power failure would end the job anyway, and all launches
            # would wait for the disk.
            with contextlib.suppress(OSError):
                launch.folder.write("cause", cause, durable=False)
        if launch.meta.role == "hold":
            self._background.start(self._end_steps(launch, grace_s))
            return
        self._notices.say_why_it_ends(launch)
        launch.end.grace_until = time.monotonic() + grace_s
        task = self._background.start(self._end(launch, grace_s))
        if grace_s <= 0:
            self._at_once.add(task)
            task.add_done_callback(self._at_once.discard)

    async def finish_kills(self) -> None:
        """Wait until the jobs that were to be killed at once are dead, for at most KILL_S.

        Called before the agent exits.
        """
        if self._at_once:
            await asyncio.wait(self._at_once, timeout=KILL_S)

    def ended(self, launch: LocalLaunch) -> None:
        """Handle a job whose first process has ended. Steps that still run are ended first."""
        if launch.phase == "running" and launch.has_running_steps():
            left_s = launch.end.grace_until - time.monotonic() if launch.end.cause else launch.meta.grace_s
            self._background.start(self._end_steps(launch, max(0.0, left_s)))
        elif launch.phase == "running":
            launch.phase = "ending"
            launch.end.at_unix = time.time()
            self._take(launch)
            if not self._finishing:
                self._finishing = True
                self._background.start(self._finish())

    def _take(self, launch: LocalLaunch) -> None:
        if not self._teardown.is_over(launch):
            self._others.append(launch)
            self._is_pressing.set()
            return
        if not launch.has_successor and all(other.has_successor for other in self._over):
            self._is_pressing.set()
        self._over.append(launch)

    def end_hold(self, launch: LocalLaunch) -> None:
        """End a "hold" launch, which has no processes of its own, on request."""
        launch.phase, launch.end.at_unix = "exited", time.time()
        self._background.start(self._sweep_hold(launch))

    async def _end_steps(self, launch: LocalLaunch, grace_s: float) -> None:
        if launch.has_running_steps():
            await end_steps(launch, self._signals, grace_s=grace_s)
        for step in launch.steps.values():
            step.progress.done.set()
        if launch.meta.role == "hold" and launch.phase == "running":
            self.end_hold(launch)
        elif launch.meta.role != "hold":
            self.ended(launch)

    async def _end(self, launch: LocalLaunch, grace_s: float) -> None:
        """Send TERM and then KILL until the job has ended.

        CONT follows each time, because a stopped process handles signals only when it continues.
        """
        first = signal.SIGTERM if grace_s > 0 else signal.SIGKILL
        wait_s = grace_s if grace_s > 0 else KILL_AGAIN_S
        hang_up = (
            (signal.SIGHUP,) if launch.meta.pty and grace_s > 0 else ()
        )  # an interactive shell ignores TERM
        await self._signals.send(launch, first, *hang_up, signal.SIGCONT)
        done = asyncio.get_running_loop().create_task(launch.end.reported.wait())
        give_up = time.monotonic() + max(grace_s, 0.0) + launch.meta.unkillable_s
        seen = time.monotonic() + max(grace_s, 0.0)
        while not (await asyncio.wait([done], timeout=wait_s))[0]:
            if await self._signals.send(launch, signal.SIGKILL):
                seen = time.monotonic()
            elif launch.meta.pty and time.monotonic() - seen > HOST_S:
                self._signals.kill_host(launch)
            wait_s = KILL_AGAIN_S
            if time.monotonic() > give_up and launch.phase == "running":
                launch.end.message = (
                    launch.end.message or f"it did not die of KILL within {launch.meta.unkillable_s:g} s"
                )
                self.ended(launch)

    async def _finish(self) -> None:
        try:
            while self._over or self._others:
                while (left_s := self._patience_s()) > 0:
                    self._is_pressing.clear()
                    with contextlib.suppress(asyncio.TimeoutError):
                        await asyncio.wait_for(self._is_pressing.wait(), left_s)
                over, others, self._over, self._others = self._over, self._others, [], []
                unclear = await self._teardown.settle(over, others)
                self._told_at = time.monotonic()
                for launch in over + others:
                    if launch in unclear:
                        self._background.start(self._clear(launch))
                    elif launch.end.cause == "oom" or launch.end.termination_message is not None:
                        self._background.start(self._say_and_close(launch))
                    else:
                        self._close(launch)
                self._look_again(
                    [launch.processes.tag for launch in over + others if launch.processes.grouped]
                )
        finally:
            self._finishing = False

    def _patience_s(self) -> float:
        """Return the time in seconds until the next report.

        It is 0 if an ended launch keeps its resources until it is processed.
        """
        if self._others:
            return 0.0
        factor = FOLLOWED_FACTOR if all(launch.has_successor for launch in self._over) else 1
        return self._told_at + factor * self._gather_s - time.monotonic()

    def _look_again(self, marks: List[job_processes.Mark]) -> None:
        if marks and not self._left:
            asyncio.get_running_loop().call_later(STRAGGLERS_S, self._end_stragglers)
        self._left += marks

    def _end_stragglers(self) -> None:
        marks, self._left = self._left, []
        self._pool.submit(_end_marked, marks)
        self._pool.submit(self._teardown.tidy)

    def _close(self, launch: LocalLaunch) -> None:
        status, message = launch.folder.end()
        launch.end.message = message or launch.end.message
        if status is not None:
            launch.phase, launch.end.status = "exited", status
            launch.end.cause = (
                "launch_failed" if launch.end.message and not launch.end.cause else launch.end.cause
            )
        elif not launch.folder.pid():
            launch.phase, launch.end.status = "exited", (1, 0)
            launch.end.cause, launch.end.message = "launch_failed", "its first process could not begin"
        else:
            launch.phase, launch.end.status = "lost", (1, 0)
            launch.end.message = launch.end.message or "its supervisor was killed; how it ended is not known"
        self._tell_end(launch)

    async def _clear(self, launch: LocalLaunch) -> None:
        await self._teardown.clear(launch)
        await self._say_and_close(launch)

    async def _say_and_close(self, launch: LocalLaunch) -> None:
        if launch.end.cause == "oom":  # An out-of-memory kill by the kernel is noticed only now.
            self._notices.say_why_it_ends(launch)
        await self._notices.said_why(launch)
        self._close(launch)

    async def _sweep_hold(self, launch: LocalLaunch) -> None:
        is_over = self._teardown.is_over(launch)
        if launch.processes.grouped:
            self._look_again([launch.processes.tag])
        if await self._teardown.settle([launch] if is_over else [], [] if is_over else [launch]):
            await self._teardown.clear(launch)
        self._tell_end(launch)

    def _tell_end(self, launch: LocalLaunch) -> None:
        if launch.limit is not None:
            launch.limit.end()
        self._tell(launch.report())
        launch.end.reported.set()
        self._on_free(launch)


def _end_marked(marks: List[job_processes.Mark]) -> None:
    """Kill processes that left their cgroup and still run after their launch has ended. Runs in a thread."""
    known = job_processes.marked()
    for mark in marks:
        job_processes.sweep(mark, (), known)
