"""Kills processes that left the cgroup of their launch and still run after it has ended."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from typing import Callable, List

from warpdeck_agent.isolation import job_processes

STRAGGLERS_S = 1.0
"""Delay in seconds between the end of a grouped launch and the search for its processes outside of the
cgroup. A walk takes 10 us for each process of the machine.
"""


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
