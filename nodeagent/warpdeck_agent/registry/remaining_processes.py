"""Finds and kills the processes that ended launches have left."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from typing import Callable, Dict, List, Optional

from warpdeck_agent.isolation import job_processes
from warpdeck_agent.isolation.orphans import Orphans
from warpdeck_agent.launch.launch import LocalLaunch

STRAGGLERS_S = 1.0
"""Delay in seconds between the end of a grouped launch and the search for its processes outside of the
cgroup. A walk takes 10 us for each process of the machine.
"""


class RemainingProcesses:
    """The remaining processes of ended launches. `orphans` is None if cgroups hold jobs together."""

    def __init__(self, orphans: Optional[Orphans]) -> None:
        self._orphans = orphans

    def kill(self, launch: LocalLaunch, known: Dict[job_processes.JobTag, List[int]]) -> int:
        """Kill the remaining processes of an ended launch and return their number. Blocks.

        `known` are the processes of the node by job tag; it may be empty if the launch is in a cgroup.
        """
        tag = launch.processes.tag
        if self._orphans is None or launch.processes.grouped:
            return job_processes.sweep(tag, launch.meta.hold.groups, known)
        return self._orphans.sweep(tag, known.get(tag, ()))

    def pids(self, launch: LocalLaunch) -> List[int]:
        """Return the pids of the remaining processes of an ended launch. Blocks."""
        strays = self._orphans.strays(launch.meta.uid) if self._orphans is not None else []
        return sorted({*launch.processes.pids(), *strays})


class Stragglers:
    """Searches for the processes of ended launches, with one walk for many launches. `tidy` runs after it."""

    def __init__(self, pool: Executor, tidy: Callable[[], None]) -> None:
        self._pool = pool
        self._tidy = tidy
        self._tags: List[job_processes.JobTag] = []

    def search_for(self, tags: List[job_processes.JobTag]) -> None:
        """Search for processes with these job tags after STRAGGLERS_S."""
        if tags and not self._tags:
            asyncio.get_running_loop().call_later(STRAGGLERS_S, self._end)
        self._tags += tags

    def _end(self) -> None:
        tags, self._tags = self._tags, []
        self._pool.submit(_kill_tagged, tags)
        self._pool.submit(self._tidy)


def _kill_tagged(tags: List[job_processes.JobTag]) -> None:
    """Kill all processes with these job tags. Runs in a thread."""
    known = job_processes.pids_by_job_tag()
    for tag in tags:
        job_processes.sweep(tag, (), known)
