"""Ends launches on request: TERM, a grace time, KILL. A launch may save its work before (see `saving`)."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from typing import Set

from warpdeck_agent.launch.background_tasks import BackgroundTasks
from warpdeck_agent.launch.launch import LocalLaunch
from warpdeck_agent.launch.notices import Notices
from warpdeck_agent.launch.signals import ALL, Signals
from warpdeck_agent.steps.step_ending import end_steps

from .ending import Ending
from .saving import save

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


class Killing:
    """Ends launches and their steps. `ending` handles a launch when none of its processes runs."""

    def __init__(self, signals: Signals, notices: Notices, ending: Ending) -> None:
        self._signals = signals
        self._notices = notices
        self._ending = ending
        self._background = BackgroundTasks()
        self._at_once: Set[asyncio.Task[None]] = set()
        """The ends of launches that were to be killed without a grace time."""

    def kill(
        self,
        launch: LocalLaunch,
        *,
        cause: str,
        grace_s: float,
        number: int = 0,
        whom: str = ALL,
        saves: bool = False,
    ) -> None:
        """End the job with TERM and, after the grace time, KILL. With `number`, only send that signal.

        With `saves`, it may save its work first. A repeated request and the time limit do not end that sooner.
        """
        if launch.phase != "running":
            return
        if number:
            self._background.start(self._signals.send_to(launch, number, whom=whom))
            return
        if launch.end.is_saving and (saves or cause == "timeout"):
            return
        launch.end.is_saving = saves
        if not launch.end.cause:
            launch.end.cause = cause
            # A full disk must not keep a job alive. If the write fails, only a restarted agent would not know
            # the cause. It is not durable, because a power failure would end the job anyway, and all launches
            # would wait for the disk.
            with contextlib.suppress(OSError):
                launch.folder.write("cause", cause, durable=False)
        if saves:
            launch.end.grace_until = time.monotonic() + grace_s
            self._notices.write_termination_message(launch)
            self._background.start(self._save(launch, grace_s))
            return
        if launch.meta.role == "hold":
            self._background.start(self._end_steps(launch, grace_s))
            return
        self._notices.write_termination_message(launch)
        launch.end.grace_until = time.monotonic() + grace_s
        task = self._background.start(self._end(launch, grace_s))
        if grace_s <= 0:
            self._at_once.add(task)
            task.add_done_callback(self._at_once.discard)

    def first_process_ended(self, launch: LocalLaunch) -> None:
        """Handle a launch when its first process has ended. Steps that still run are ended first."""
        if launch.phase == "running" and launch.has_running_steps():
            is_killed = bool(launch.end.cause)
            left_s = launch.end.grace_until - time.monotonic() if is_killed else launch.meta.grace_s
            self._background.start(self._end_steps(launch, max(0.0, left_s)))
        else:
            self._ending.ended(launch)

    async def finish_kills(self) -> None:
        """Wait until the jobs that were to be killed at once are dead, for at most KILL_S.

        Called before the agent exits.
        """
        if self._at_once:
            await asyncio.wait(self._at_once, timeout=KILL_S)

    async def _save(self, launch: LocalLaunch, grace_s: float) -> None:
        """Let the launch save its work, and then end it. A request without `saves` ends it meanwhile."""
        left_s = await save(launch, self._signals, grace_s=grace_s)
        if launch.phase != "running" or not launch.end.is_saving:
            return
        if launch.meta.role == "hold":
            await self._end_steps(launch, left_s)
        else:
            await self._end(launch, left_s)

    async def _end_steps(self, launch: LocalLaunch, grace_s: float) -> None:
        if launch.has_running_steps():
            await end_steps(launch, self._signals, grace_s=grace_s)
        for step in launch.steps.values():
            step.progress.done.set()
        if launch.meta.role == "hold" and launch.phase == "running":
            self._ending.end_hold(launch)
        elif launch.meta.role != "hold":
            self.first_process_ended(launch)

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
                    launch.end.message
                    or f"processes of the job survived KILL for {launch.meta.unkillable_s:g} s"
                )
                self.first_process_ended(launch)
