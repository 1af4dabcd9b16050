"""The arrangement of this node's CPUs in sockets and cores, and the size of the disk for temporary files."""

from __future__ import annotations

import os
from typing import Dict, Iterable, NamedTuple, Set, Tuple

from warpdeck_agent.storage.tmpdirs import DEFAULT_PLACE

CPUS = "/sys/devices/system/cpu"


class Topology(NamedTuple):
    """Number of sockets, cores per socket and threads per core.

    All are 0 if the usable CPUs do not form a regular block.
    """

    sockets: int = 0
    cores: int = 0
    threads: int = 0


def find_topology(allowed: Iterable[int], *, folder: str = CPUS) -> Topology:
    """Return the topology of these CPUs, read from the kernel."""
    cores: Dict[Tuple[str, str], int] = {}
    try:
        for cpu in allowed:
            core = (_word(folder, cpu, "physical_package_id"), _word(folder, cpu, "core_id"))
            cores[core] = cores.get(core, 0) + 1
    except OSError:
        return Topology()
    sockets: Dict[str, int] = {}
    for socket, _ in cores:
        sockets[socket] = sockets.get(socket, 0) + 1
    shapes: Set[int] = {*sockets.values()}
    threads: Set[int] = {*cores.values()}
    if len(shapes) != 1 or len(threads) != 1:
        return Topology()
    return Topology(len(sockets), shapes.pop(), threads.pop())


def _word(folder: str, cpu: int, name: str) -> str:
    with open(f"{folder}/cpu{cpu}/topology/{name}", encoding="ascii") as file:
        return file.read().strip()


def temporary_bytes(place: str = DEFAULT_PLACE) -> int:
    """Return the size in bytes of the file system for jobs' temporary files (Slurm's TmpDisk).

    Returns 0 if it is not known.
    """
    try:
        found = os.statvfs(place)
    except OSError:
        return 0
    return found.f_frsize * found.f_blocks
