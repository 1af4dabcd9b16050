"""Finds and kills the processes that an ended launch has left."""

from __future__ import annotations

from typing import Dict, List, Optional

from warpdeck_agent.isolation import job_processes
from warpdeck_agent.isolation.orphans import Orphans
from warpdeck_agent.launch.launch import LocalLaunch


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
