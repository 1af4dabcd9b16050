"""Enforces the time limits and the memory limits of launches, with or without a controller."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Callable, Optional, Protocol

from warpdeck_agent.launch.background_tasks import BackgroundTasks
from warpdeck_agent.launch.checkpoints import LOOK_S, goes_on_until
from warpdeck_agent.launch.launch import LocalLaunch
from warpdeck_agent.launch.memory_limit import MemoryWatch, WatchedProcesses
from warpdeck_agent.launch.signals import Signals
from warpdeck_agent.launch.time_limit import TimeLimit
from warpdeck_agent.wire.messages import SUSPENDED, Kill

from .saving import deadline_unix

GIB = 2**30


class EndLaunch(Protocol):
    """Ends a launch with TERM and, after the grace time, KILL. With `saves`, it may save its work before."""

    def __call__(self, launch: LocalLaunch, *, cause: str, grace_s: float, saves: bool = False) -> None: ...


class LimitEnforcement:
    """Enforces limits. `end` ends a launch that has exceeded one, and `tell` sends a report to the controller."""

    def __init__(
        self, signals: Signals, memory: MemoryWatch, end: EndLaunch, *, tell: Callable[[Any], None]
    ) -> None:
        self._signals = signals
        self._memory = memory
        self._end = end
        self._tell = tell
        self._background = BackgroundTasks()

    def begin(self, launch: LocalLaunch) -> None:
        """Enforce the limits of a running launch from now on."""
        launch.limit = TimeLimit(
            launch.folder,
            launch.meta,
            warn=lambda: self._warn(launch),
            over=lambda: self._over(launch),
        )
        launch.limit.run()
        if launch.meta.requeues_at_limit and launch.meta.role != "hold":
            self._background.start(self._watch_checkpoints(launch))
        if launch.end.cause and (until := deadline_unix(launch)):
            left_s = max(0.0, until - time.time())  # An earlier agent asked it to save its work.
            self._end(launch, cause=launch.end.cause, grace_s=left_s, saves=True)
        if launch.meta.hold.watch_mem_bytes:
            self._memory.add(
                WatchedProcesses(
                    tag=launch.processes.tag,
                    limit_bytes=launch.meta.hold.watch_mem_bytes,
                    runs=lambda: launch.phase == "running",
                    used=launch.usage.note_memory,
                    over=lambda mem_bytes: self._out_of_memory(launch, mem_bytes),
                )
            )

    def change_time_limit(self, launch: LocalLaunch, limit_s: Optional[float]) -> None:
        """Change the time limit of a running launch. None means no limit."""
        if launch.limit is not None and launch.phase == "running":
            launch.limit.change(limit_s)

    def suspend_or_resume(self, launch: LocalLaunch, request: Kill) -> None:
        """Suspend the launch and its time limit, or resume both."""
        if launch.phase != "running" or launch.limit is None:
            return
        if request.cause == SUSPENDED:
            launch.limit.suspend()
            self._background.start(self._signals.stop(launch, request.signal))
        else:
            launch.limit.resume()
            self._background.start(self._signals.send(launch, request.signal))

    def _warn(self, launch: LocalLaunch) -> None:
        if launch.meta.role != "hold":
            self._background.start(self._signals.warn(launch))

    def _over(self, launch: LocalLaunch) -> None:
        """End a launch at its limit, or later if it may wait for its next checkpoint."""
        if launch.meta.requeues_at_limit:
            self._background.start(self._end_after_checkpoint(launch))
        else:
            self._end(launch, cause="timeout", grace_s=launch.meta.grace_s)

    async def _end_after_checkpoint(self, launch: LocalLaunch) -> None:
        """End a launch after its next checkpoint, if that comes soon, and let it save its work.

        A share without the batch script waits as long as it may, because the first node decides. The controller
        then ends the other shares at the same time.
        """
        meta, limit, before = launch.meta, launch.limit, launch.checkpoints.look()
        limit_unix = time.time() + (0.0 if limit is None else limit.left_s() or 0.0)
        until = limit_unix + meta.limit_grace_s + meta.grace_s
        if meta.role != "hold":
            times, begun = launch.checkpoints.times, meta.started_at
            until = goes_on_until(limit_unix, times, begun_unix=begun, grace_s=meta.limit_grace_s)
        end = time.monotonic() + until - time.time()
        while time.monotonic() < end and launch.checkpoints.look() == before:
            await asyncio.sleep(min(LOOK_S, max(0.0, end - time.monotonic())))
            left_s = None if limit is None else limit.left_s()
            if launch.phase != "running" or left_s is None or left_s > 0:
                return  # It has ended, is suspended, or got another limit, which has its own end.
        self._end(launch, cause="timeout", grace_s=meta.grace_s, saves=True)
        self._tell(launch.report())  # The controller lets the other nodes of the job save their work, too.

    async def _watch_checkpoints(self, launch: LocalLaunch) -> None:
        while launch.phase == "running":
            launch.checkpoints.look()
            await asyncio.sleep(LOOK_S)

    def _out_of_memory(self, launch: LocalLaunch, mem_bytes: int) -> None:
        if launch.end.cause:
            return
        limit = launch.meta.hold.watch_mem_bytes
        launch.end.message = (
            f"out of memory: the job used {mem_bytes / GIB:.2f} GiB; its limit is {limit / GIB:.2f} GiB"
        )
        self._end(launch, cause="oom", grace_s=0.0)
