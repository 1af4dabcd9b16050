"""Looks at the processes of all batch launches, and knows which launches are suspected to hang.

Each look is one walk over /proc in a thread. It opens no file of a user: the kernel tells how far a process has written its
output (/proc/PID/fdinfo), so a file server that hangs delays nothing.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from warpdeck_agent.isolation import job_processes
from warpdeck_agent.isolation.job_processes import JobTag
from warpdeck_agent.launch.launch import LocalLaunch
from warpdeck_agent.linux.procfs import number, table
from warpdeck_agent.registry.launches import Launches
from warpdeck_agent.users.user_children import UserChildren
from warpdeck_agent.wire.messages import Key, Stall

from .evidence import EvidenceTaker, moved_bytes
from .rhythm import Activity, Rhythm

LOOK_S = 5.0
"""Interval in seconds between looks. A look takes some 50 us for each process of jobs."""
OUTPUTS = (1, 2)


class Counters(NamedTuple):
    """The counters of one process."""

    output: Tuple[int, ...]
    """How far its standard output and error have been written; 0 for pipes."""
    io_bytes: int
    cpu_s: float


class _Watched:
    """Progress of one launch: its rhythm, and the counters of its processes at the last look."""

    def __init__(self, now: float) -> None:
        self.rhythm = Rhythm(now)
        self.seen_at = now
        self.counters: Optional[Dict[int, Counters]] = None


class ProgressMonitor:
    """The launches of this node that make no progress."""

    def __init__(self, launches: Launches) -> None:
        self._launches = launches
        self._watched: Dict[Key, _Watched] = {}
        self._stalls: List[Stall] = []
        self._looked_at = 0.0
        self._is_looking = False
        self._children = UserChildren(ThreadPoolExecutor(1, thread_name_prefix="evidence"))
        self.evidence = EvidenceTaker(launches.find, self._children)

    def stalls(self) -> List[Stall]:
        """Return the launches that are suspected to hang."""
        return self._stalls

    def add_reading(self, power_w: Dict[str, Optional[float]]) -> None:
        """Start a look when it is due. `power_w` is the power of each GPU by uuid. Called about once a second."""
        now = time.monotonic()
        watched = [launch for launch in self._launches.running() if not launch.meta.pty]
        if self._is_looking or now < self._looked_at + LOOK_S:
            return
        self._looked_at = now
        if not watched:
            self._watched, self._stalls = {}, []
            return
        self._is_looking = True
        tags = {launch.processes.tag: launch.key for launch in watched}
        look = asyncio.get_running_loop().run_in_executor(None, look_at, tags)
        look.add_done_callback(lambda done: self._take(done, watched, power_w))

    def _take(
        self,
        look: asyncio.Future[Dict[Key, Dict[int, Counters]]],
        launches: Sequence[LocalLaunch],
        power_w: Dict[str, Optional[float]],
    ) -> None:
        self._is_looking = False
        if look.cancelled():
            return
        now, found = time.monotonic(), look.result()
        self._watched = {launch.key: self._watched.get(launch.key) or _Watched(now) for launch in launches}
        self._stalls = []
        for launch in launches:
            seen = self._watched[launch.key]
            counters = found.get(launch.key, {})
            if seen.counters is not None:
                seen.rhythm.add(
                    activity_between(
                        seen.counters,
                        counters,
                        at=now,
                        passed_s=now - seen.seen_at,
                        power_w=_power_of(launch, power_w),
                    )
                )
            seen.counters, seen.seen_at = counters, now
            if launch.end.cause or (launch.limit is not None and launch.limit.suspended):
                seen.rhythm.rest(now)
            quiet_s = seen.rhythm.stall(now)
            if quiet_s is not None:
                job_id, restarts = launch.key
                self._stalls.append(Stall(job_id=job_id, restarts=restarts, quiet_s=quiet_s))


def look_at(tags: Dict[JobTag, Key]) -> Dict[Key, Dict[int, Counters]]:
    """Return the counters of all processes of these launches. Blocks."""
    return {
        tags[tag]: {pid: _counters(pid) for pid in pids}
        for tag, pids in job_processes.pids_by_job_tag().items()
        if tag in tags
    }


def _counters(pid: int) -> Counters:
    output = tuple(number(table(f"/proc/{pid}/fdinfo/{each}").get("pos", "")) for each in OUTPUTS)
    return Counters(output=output, io_bytes=moved_bytes(pid), cpu_s=job_processes.cpu_time(pid).total_s)


def activity_between(
    before: Dict[int, Counters],
    after: Dict[int, Counters],
    *,
    at: float,
    passed_s: float,
    power_w: Optional[float],
) -> Activity:
    """Return what the processes did between two looks. All that a new process did counts."""
    none = Counters((), 0, 0.0)
    return Activity(
        at=at,
        passed_s=passed_s,
        wrote_output=any(pid in before and each.output != before[pid].output for pid, each in after.items()),
        io_bytes=sum(max(0, each.io_bytes - before.get(pid, none).io_bytes) for pid, each in after.items()),
        cpu_s=sum(max(0.0, each.cpu_s - before.get(pid, none).cpu_s) for pid, each in after.items()),
        gpu_power_w=power_w,
    )


def _power_of(launch: LocalLaunch, power_w: Dict[str, Optional[float]]) -> Optional[float]:
    """Return the total power of the launch's GPUs, None if it has none or one is unknown."""
    known = [power for uuid in launch.meta.gpus if (power := power_w.get(uuid)) is not None]
    return sum(known) if known and len(known) == len(launch.meta.gpus) else None
