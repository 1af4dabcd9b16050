"""Which CPUs of the node each launch gets: a table of who holds which.

CPUs stand in an order in which neighbours share a core, then a NUMA node. A launch gets the smallest gap of one NUMA node
that holds it, else the CPUs that are free, in that order: jobs share no core where it can be avoided. Where fewer are free
than asked for, nothing is pinned: then somebody else already uses more than was counted.
"""

from __future__ import annotations

import os
from typing import Dict, List, Sequence, Tuple

from warpdeck_agent.linux.procfs import text

SYSTEM = "/sys/devices/system"
Cpus = Tuple[int, ...]


class CpuTable:
    """CPUs of this node and their holders, by launch name. `start` is where it begins: agents beside each other differ."""

    def __init__(self, cpus: Sequence[int], *, start: int = 0, system: str = SYSTEM) -> None:
        self._node_of = _numa_nodes(system)
        order = sorted(cpus, key=lambda cpu: (self._node_of.get(cpu, 0), _core(system, cpu), cpu))
        cores = [cpu for index, cpu in enumerate(order) if index == 0 or _core(system, cpu) == cpu]
        first = order.index(cores[start % len(cores)])
        self._order = order[first:] + order[:first]
        self._held: Dict[str, Cpus] = {}

    def take(self, name: str, count: int) -> Cpus:
        """CPUs for a launch, until `release`. () where it gets all of the node, or cannot be pinned."""
        taken = {cpu for cpus in self._held.values() for cpu in cpus}
        free = [cpu for cpu in self._order if cpu not in taken]
        if not 0 < count < len(self._order) or count > len(free):
            return ()
        nodes: Dict[int, List[int]] = {}
        for cpu in free:
            nodes.setdefault(self._node_of.get(cpu, 0), []).append(cpu)
        fitting = [cpus for cpus in nodes.values() if len(cpus) >= count]
        chosen = min(fitting, key=len) if fitting else free
        return self.hold(name, tuple(sorted(chosen[:count])))

    def hold(self, name: str, cpus: Cpus) -> Cpus:
        """Notes what a launch holds that an earlier agent started."""
        if cpus:
            self._held[name] = cpus
        return cpus

    def release(self, name: str) -> None:
        """The launch has ended."""
        self._held.pop(name, None)


def parse_list(words: str) -> List[int]:
    """The kernel's form: "0-3,8" -> [0, 1, 2, 3, 8]."""
    found: List[int] = []
    for part in words.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdecimal():
            found += range(int(first), int(last or first) + 1)
    return found


def _core(system: str, cpu: int) -> int:
    """The lowest CPU of its core."""
    siblings = parse_list(text(os.path.join(system, f"cpu/cpu{cpu}/topology/thread_siblings_list")))
    return min(siblings, default=cpu)


def _numa_nodes(system: str) -> Dict[int, int]:
    """CPU -> its NUMA node."""
    found: Dict[int, int] = {}
    folder = os.path.join(system, "node")
    try:
        names = os.listdir(folder)
    except OSError:
        return found
    for name in names:
        if name.startswith("node") and name[4:].isdecimal():
            for cpu in parse_list(text(os.path.join(folder, name, "cpulist"))):
                found[cpu] = int(name[4:])
    return found
