"""What was made for a launch to hold it: kept with the launch, so that any later agent can end and measure it."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from typing import Any, Dict, Tuple

from warpdeck_agent.linux.procfs import number, text

from . import launch_cgroups as groups


@dataclass(frozen=True)
class Hold:
    """Its cgroups by path, its CPUs (empty: not pinned), and what the kernel does not see to.

    `processes`: a limit that its processes are given themselves, 0 for none. `watch_mem_bytes`: a limit on its memory that
    the agent watches, 0 for none. `hides_gpus`: its processes can open no GPUs of the node but their own.
    """

    groups: Tuple[str, ...] = ()
    cpus: Tuple[int, ...] = ()
    processes: int = 0
    watch_mem_bytes: int = 0
    hides_gpus: bool = False


def hold_name(job_id: int, restarts: int) -> str:
    """What a launch's groups and folders are called: no two launches of an agent share it."""
    return f"job-{job_id}.{restarts}"


def hold_from(values: Dict[str, Any]) -> Hold:
    """As it was written down."""
    return Hold(
        groups=tuple(values.get("groups", ())),
        cpus=tuple(values.get("cpus", ())),
        processes=int(values.get("processes", 0)),
        watch_mem_bytes=int(values.get("watch_mem_bytes", 0)),
        hides_gpus=bool(values.get("hides_gpus", False)),
    )


def contain(pid: int, hold: Hold) -> bool:
    """Puts a process, and with it all that it will start, where the launch is held. False if no group has taken it."""
    if hold.cpus:
        os.sched_setaffinity(pid, hold.cpus)
    if hold.processes:
        _limit_processes(pid, hold.processes)
    return groups.join(hold.groups, pid)


def _limit_processes(pid: int, processes: int) -> None:
    """The kernel counts all threads of the user, of which there are no more than all threads that there are now."""
    _, _, threads = text("/proc/loadavg").split()[3].partition("/")
    _, most = resource.prlimit(pid, resource.RLIMIT_NPROC)
    allowed = number(threads) + processes
    if most == resource.RLIM_INFINITY or allowed < most:
        resource.prlimit(pid, resource.RLIMIT_NPROC, (allowed, allowed))
