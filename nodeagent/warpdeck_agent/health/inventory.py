"""The inventory of this node: CPUs and their arrangement, memory, the disk for temporary files, and the system.

GPUs are read through NVML (see `gpus`).
"""

from __future__ import annotations

import os
import platform
import socket
import time
from typing import Dict, Iterable, List, NamedTuple, Set, Tuple

from warpdeck_agent.containers.containers import find_runtimes
from warpdeck_agent.linux.procfs import number, table, text
from warpdeck_agent.storage.tmpdirs import DEFAULT_PARENT
from warpdeck_agent.wire.messages import Facility, GpuInfo, Inventory

STARTED_UNIX = time.time()
CPUS = "/sys/devices/system/cpu"


class CpuTopology(NamedTuple):
    """Number of sockets, cores per socket and threads per core.

    All are 0 if the usable CPUs do not form a regular block.
    """

    sockets: int = 0
    cores: int = 0
    threads: int = 0


def take_inventory(
    gpus: List[GpuInfo], *, driver: str, gpu_error: str, containment: str, facilities: List[Facility]
) -> Inventory:
    """Return the inventory of the node."""
    cpus = sorted(os.sched_getaffinity(0))
    topology = find_topology(cpus)
    return Inventory(
        hostname=socket.gethostname(),
        boot_id=text("/proc/sys/kernel/random/boot_id"),
        cpus=len(cpus),
        sockets=topology.sockets,
        cores_per_socket=topology.cores,
        threads_per_core=topology.threads,
        tmp_disk_bytes=temporary_bytes(),
        mem_bytes=memory()[0],
        gpus=gpus,
        driver=driver,
        kernel=platform.release(),
        arch=platform.machine(),
        python=platform.python_version(),
        containment=containment,
        facilities=facilities,
        containers=find_runtimes(),
        gpu_error=gpu_error,
        booted_unix=float(number(table("/proc/stat").get("btime", ""))),
        agent_unix=STARTED_UNIX,
    )


def memory() -> Tuple[int, int]:
    """Return (total, used) memory in bytes. Used memory is the memory that is not available."""
    found = table("/proc/meminfo")
    total = number(found.get("MemTotal", ""))
    free = number(found.get("MemAvailable", found.get("MemFree", "")))
    return total * 1024, (total - free) * 1024


class CpuMeter:
    """CPU usage between two readings, in percent of all CPUs."""

    def __init__(self) -> None:
        self._busy, self._total = self._ticks()
        self.count = os.cpu_count() or 1

    def percent(self) -> float:
        """Return the usage since the last call."""
        busy, total = self._ticks()
        spent, passed = busy - self._busy, total - self._total
        self._busy, self._total = busy, total
        return 100.0 * spent / passed if passed > 0 else 0.0

    @staticmethod
    def _ticks() -> Tuple[int, int]:
        fields = [int(field) for field in text("/proc/stat").splitlines()[0].split()[1:9]]
        total = sum(fields)
        return total - fields[3] - fields[4], total


def find_topology(allowed: Iterable[int], *, folder: str = CPUS) -> CpuTopology:
    """Return the topology of these CPUs, read from the kernel."""
    cores: Dict[Tuple[str, str], int] = {}
    try:
        for cpu in allowed:
            core = (_topology_id(folder, cpu, "physical_package_id"), _topology_id(folder, cpu, "core_id"))
            cores[core] = cores.get(core, 0) + 1
    except OSError:
        return CpuTopology()
    sockets: Dict[str, int] = {}
    for package, _ in cores:
        sockets[package] = sockets.get(package, 0) + 1
    shapes: Set[int] = {*sockets.values()}
    threads: Set[int] = {*cores.values()}
    if len(shapes) != 1 or len(threads) != 1:
        return CpuTopology()
    return CpuTopology(len(sockets), shapes.pop(), threads.pop())


def _topology_id(folder: str, cpu: int, name: str) -> str:
    with open(f"{folder}/cpu{cpu}/topology/{name}", encoding="ascii") as file:
        return file.read().strip()


def temporary_bytes(folder: str = DEFAULT_PARENT) -> int:
    """Return the size in bytes of the file system for jobs' temporary files (Slurm's TmpDisk).

    Returns 0 if it is not known.
    """
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return found.f_frsize * found.f_blocks
