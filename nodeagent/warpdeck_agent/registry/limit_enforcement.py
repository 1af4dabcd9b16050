"""Enforces the time limits and the memory limits of launches, with or without a controller."""

from __future__ import annotations

import time
from typing import Optional, Protocol

from warpdeck_agent.launch.background_tasks import BackgroundTasks
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
    """Enforces limits. `end` ends a launch that has exceeded one."""

    def __init__(self, signals: Signals, memory: MemoryWatch, end: EndLaunch) -> None:
        self._signals = signals
        self._memory = memory
        self._end = end
        self._background = BackgroundTasks()

    def begin(self, launch: LocalLaunch) -> None:
        """Enforce the limits of a running launch from now on."""
        launch.limit = TimeLimit(
            launch.folder,
            launch.meta,
            warn=lambda: self._warn(launch),
            over=lambda: self._end(launch, cause="timeout", grace_s=launch.meta.grace_s),
        )
        launch.limit.run()
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

    def _out_of_memory(self, launch: LocalLaunch, mem_bytes: int) -> None:
        if launch.end.cause:
            return
        limit = launch.meta.hold.watch_mem_bytes
        launch.end.message = (
            f"out of memory: the job used {mem_bytes / GIB:.2f} GiB; its limit is {limit / GIB:.2f} GiB"
        )
        self._end(launch, cause="oom", grace_s=0.0)
