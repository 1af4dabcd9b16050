"""Detects idle interactive sessions, and ends sessions that are idle for too long.

A session is in use when a key is typed or output appears (the terminal's host then touches a file), when the
processes of the session use CPU time, and when they use a GPU. An agent does not know what happened before it
started, so that time counts as use. The agent enforces the limit itself, because the limit must also hold
while no controller is connected. It announces the end on the terminal, and any key postpones the end.
"""

from __future__ import annotations

import time
from typing import Dict, List, Protocol, Sequence

from warpdeck_agent.launch.background_tasks import BackgroundTasks
from warpdeck_agent.launch.launch import LocalLaunch
from warpdeck_agent.linux.uptime import uptime_at, uptime_s
from warpdeck_agent.metrics.metering import IDLE_PCT
from warpdeck_agent.registry.launches import Launches
from warpdeck_agent.streams import terminal_relay
from warpdeck_agent.wire.messages import GpuSample, IdleSession, Key

QUIET_S = 60.0
"""Time without activity after which a session counts as idle, in seconds."""
BUSY_SHARE = 0.02
"""Fraction of a core above which processes count as active. A waiting shell uses none; a monitor
that a user watches uses this much.
"""
CPU_EVERY_S = 15.0
"""Interval in seconds over which the processes' CPU time is compared. It is measured every ten seconds."""


class _SessionActivity:
    """When one session was last in use, and the values with which its next measurements are compared.

    The times are seconds since the node's boot, so that setting the node's date ends no session.
    """

    def __init__(self, launch: LocalLaunch, now: float) -> None:
        self.used_at = now
        self.cpu_at = now
        self.cpu_s = launch.usage.cpu.total_s
        self.warned_at = 0.0


class EndSession(Protocol):
    """Ends a launch. Its user reads `reason`; `cause` is the cause in the job's record."""

    def __call__(self, launch: LocalLaunch, reason: str, *, cause: str) -> None: ...


class Idleness:
    """Tracks for how long each session has been idle."""

    def __init__(self, launches: Launches, end: EndSession) -> None:
        self._launches = launches
        self._end = end
        self._activities: Dict[Key, _SessionActivity] = {}
        self._idle: List[IdleSession] = []
        self._background = BackgroundTasks()

    def add_reading(self, gpus: Sequence[GpuSample]) -> None:
        """Check every session. `gpus` is the last reading of the GPUs. Called about once a second."""
        now = uptime_s()
        running = [launch for launch in self._launches.running() if launch.meta.pty and not launch.end.cause]
        self._activities = {
            launch.key: self._activities.get(launch.key) or _SessionActivity(launch, now)
            for launch in running
        }
        self._idle = []
        for launch in running:
            since = self._used_at(launch, gpus, now)
            if now - since >= QUIET_S:
                self._idle.append(
                    IdleSession(job_id=launch.meta.job_id, since_unix=time.time() - (now - since))
                )
            if launch.meta.idle_limit_s:
                self._enforce_limit(launch, launch.meta.idle_limit_s, since=since, now=now)

    def sessions(self) -> List[IdleSession]:
        """Return the sessions that are idle now."""
        return self._idle

    def _used_at(self, launch: LocalLaunch, gpus: Sequence[GpuSample], now: float) -> float:
        """Return when the session was last used, in seconds since the boot."""
        seen = self._activities[launch.key]
        if now - seen.cpu_at >= CPU_EVERY_S:
            if launch.usage.cpu.total_s - seen.cpu_s > BUSY_SHARE * (now - seen.cpu_at):
                seen.used_at = now
            seen.cpu_at, seen.cpu_s = now, launch.usage.cpu.total_s
        if launch.limit is not None and launch.limit.suspended:
            seen.used_at = now
        if any(_computes(gpu, launch.meta.job_id) for gpu in gpus):
            seen.used_at = now
        touched = launch.folder.touched_at("active")
        seen.used_at = max(seen.used_at, min(uptime_at(touched), now))
        return seen.used_at

    def _enforce_limit(self, launch: LocalLaunch, limit_s: float, *, since: float, now: float) -> None:
        left_s = since + limit_s - now
        if left_s <= 0:
            text = f"the session was idle for {_duration(limit_s)}, the limit of interactive sessions on this cluster"
            self._end(launch, text, cause="idle")
        elif left_s <= launch.meta.idle_warning_s and self._activities[launch.key].warned_at != since:
            self._activities[launch.key].warned_at = since
            text = f"idle for {_duration(now - since)}; this session ends in {_duration(left_s)} unless a key is typed"
            self._background.start(_warn(launch, text))


async def _warn(launch: LocalLaunch, text: str) -> None:
    """Show a warning on the job's terminal. If the terminal is gone, no warning is needed."""
    try:
        await terminal_relay.show(launch.folder.path, text, uid=launch.meta.uid)
    except OSError:
        return


def _computes(gpu: GpuSample, job_id: int) -> bool:
    """Return whether the GPU is busy with a process of the job."""
    busy = gpu.util_pct is None or gpu.util_pct >= IDLE_PCT
    return busy and any(process.job_id == job_id for process in gpu.processes)


def _duration(seconds: float) -> str:
    """Return a duration in words, like "2 h 5 min" or "40 s"."""
    whole = max(1, round(seconds))
    hours, minutes = whole // 3600, whole % 3600 // 60
    if hours:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{minutes} min" if minutes else f"{whole} s"
