"""The containment of a launch.

It is stored with the launch, so that any later agent can end and measure the launch.
"""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from typing import Any, Dict, Tuple

from warpdeck_agent.linux.procfs import number, text

from . import launch_cgroups as groups


@dataclass(frozen=True)
class ContainmentHandle:
    """The containment of one launch: its cgroups by path, its CPUs (empty: not pinned), and other limits.

    `processes` is a limit that is set on the launch's processes themselves, 0 for none. `watch_mem_bytes` is
    a limit on its memory that the agent watches, 0 for none. `hides_gpus` means that its processes cannot
    open any GPUs of the node but their own.
    """

    groups: Tuple[str, ...] = ()
    cpus: Tuple[int, ...] = ()
    processes: int = 0
    watch_mem_bytes: int = 0
    hides_gpus: bool = False


def containment_name(job_id: int, restarts: int) -> str:
    """Return the name of a launch's cgroups and folders. It is unique among the launches of an agent."""
    return f"job-{job_id}.{restarts}"


def handle_from(values: Dict[str, Any]) -> ContainmentHandle:
    """Return the ContainmentHandle that was stored as `values`."""
    return ContainmentHandle(
        groups=tuple(values.get("groups", ())),
        cpus=tuple(values.get("cpus", ())),
        processes=int(values.get("processes", 0)),
        watch_mem_bytes=int(values.get("watch_mem_bytes", 0)),
        hides_gpus=bool(values.get("hides_gpus", False)),
    )


def contain(pid: int, containment: ContainmentHandle) -> bool:
    """Put a process, and all processes that it will start, into the launch's containment.

    Returns False if no cgroup has accepted it.
    """
    if containment.cpus:
        os.sched_setaffinity(pid, containment.cpus)
    if containment.processes:
        _limit_processes(pid, containment.processes)
    return groups.join(containment.groups, pid)


def _limit_processes(pid: int, processes: int) -> None:
    """Limit the number of processes that the process's user may have.

    The kernel counts all threads of the user. Their number is at most the number of all threads on the node,
    so the limit is that number plus `processes`.
    """
    _, _, threads = text("/proc/loadavg").split()[3].partition("/")
    _, most = resource.prlimit(pid, resource.RLIMIT_NPROC)
    allowed = number(threads) + processes
    if most == resource.RLIM_INFINITY or allowed < most:
        resource.prlimit(pid, resource.RLIMIT_NPROC, (allowed, allowed))
