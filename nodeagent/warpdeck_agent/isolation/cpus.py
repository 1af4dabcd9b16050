"""Assigns CPUs of the node to launches.

The CPUs are kept in an order in which neighbors share a core, then a NUMA node. A launch gets CPUs of the
NUMA node with the fewest free CPUs that suffice, or else any free CPUs in that order. So jobs share no core
if that can be avoided. If fewer CPUs are free than requested, nothing is pinned, because other processes
already use more CPUs than were counted.
"""

from __future__ import annotations

import os
from typing import Dict, List, Sequence, Tuple

from warpdeck_agent.linux.procfs import text

SYSTEM = "/sys/devices/system"
Cpus = Tuple[int, ...]


class CpuTable:
    """The CPUs of this node, and the names of the launches that hold them.

    `start` is the first CPU to use, different for agents on the same machine.
    """

    def __init__(self, cpus: Sequence[int], *, start: int = 0, system: str = SYSTEM) -> None:
        self._node_of = _numa_nodes(system)
        order = sorted(cpus, key=lambda cpu: (self._node_of.get(cpu, 0), _core(system, cpu), cpu))
        cores = [cpu for index, cpu in enumerate(order) if index == 0 or _core(system, cpu) == cpu]
        first = order.index(cores[start % len(cores)])
        self._order = order[first:] + order[:first]
        self._taken: Dict[str, Cpus] = {}

    def take(self, name: str, count: int) -> Cpus:
        """Return CPUs for a launch, reserved until `release`.

        Returns () if it gets the whole node, or cannot be pinned.
        """
        taken = {cpu for cpus in self._taken.values() for cpu in cpus}
        free = [cpu for cpu in self._order if cpu not in taken]
        if not 0 < count < len(self._order) or count > len(free):
            return ()
        nodes: Dict[int, List[int]] = {}
        for cpu in free:
            nodes.setdefault(self._node_of.get(cpu, 0), []).append(cpu)
        fitting = [cpus for cpus in nodes.values() if len(cpus) >= count]
        chosen = min(fitting, key=len) if fitting else free
        return self.record(name, tuple(sorted(chosen[:count])))

    def record(self, name: str, cpus: Cpus) -> Cpus:
        """Record the CPUs of a launch that an earlier agent started."""
        if cpus:
            self._taken[name] = cpus
        return cpus

    def release(self, name: str) -> None:
        """Free the CPUs of an ended launch."""
        self._taken.pop(name, None)


def parse_list(ranges: str) -> List[int]:
    """Parse the kernel's list format: "0-3,8" -> [0, 1, 2, 3, 8]."""
    found: List[int] = []
    for part in ranges.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdecimal():
            found += range(int(first), int(last or first) + 1)
    return found


def _core(system: str, cpu: int) -> int:
    """Return the lowest CPU of the core to which `cpu` belongs."""
    siblings = parse_list(text(os.path.join(system, f"cpu/cpu{cpu}/topology/thread_siblings_list")))
    return min(siblings, default=cpu)


def _numa_nodes(system: str) -> Dict[int, int]:
    """Return {CPU: its NUMA node}."""
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
