"""How the CPUs of this node lie in sockets and cores, and how large the disk of temporary files is."""

from __future__ import annotations

import os
from typing import Dict, Iterable, NamedTuple, Set, Tuple

from warpdeck_agent.storage.tmpdirs import DEFAULT_PLACE

CPUS = "/sys/devices/system/cpu"


class Topology(NamedTuple):
    """Sockets, cores of each socket, threads of each core; all 0 where the CPUs that may be used do not make up such a block."""

    sockets: int = 0
    cores: int = 0
    threads: int = 0


def find_topology(allowed: Iterable[int], *, folder: str = CPUS) -> Topology:
    """Of these CPUs, as the kernel tells it."""
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
    """The size of the file system on which jobs have their temporary files (Slurm's TmpDisk); 0 where it does not tell."""
    try:
        found = os.statvfs(place)
    except OSError:
        return 0
    return found.f_frsize * found.f_blocks
