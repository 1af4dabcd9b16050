"""What is free, and where a gang goes: best fit, so that large holes stay large. Pure.

A node is chosen by least leftover: first of GPUs, then of CPUs, then by name; a job without GPUs goes where fewest GPUs
are free, so that it does not sit beside idle GPUs. Inside a node GPUs of one NUMA node are preferred, lowest index first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from warpdeck.model import Allocation, GpuUuid, NodeName, Resources, Share

from .demand import WHOLE_NODE, Need, gang_sizes, needs
from .view import GpuView, NodeView, RunningJob, View


class Room:
    """What is free on one node. Mutable: it shrinks as jobs are placed in a pass."""

    __slots__ = ("cpus", "gpus", "mem_bytes", "node", "used")

    def __init__(self, node: NodeView, gpus: Iterable[GpuView]) -> None:
        self.node = node
        self.cpus = node.cpus
        self.mem_bytes = node.mem_bytes
        self.gpus: dict[int, GpuView] = {gpu.index: gpu for gpu in gpus}
        self.used = 0
        """Jobs that hold something here."""

    def copy(self) -> Room:
        """An independent copy."""
        other = Room(self.node, self.gpus.values())
        other.cpus, other.mem_bytes, other.used = self.cpus, self.mem_bytes, self.used
        return other

    def take(self, share: Share) -> None:
        """Takes a share out."""
        self.cpus -= share.cpus
        self.mem_bytes -= share.mem_bytes
        self.used += 1
        for index in share.gpus:
            self.gpus.pop(index, None)

    def give(self, share: Share) -> None:
        """Gives a share back, less GPUs that are blocked."""
        self.cpus += share.cpus
        self.mem_bytes += share.mem_bytes
        self.used -= 1
        held = set(share.gpus)
        for gpu in self.node.gpus:
            if gpu.index in held and not gpu.blocked:
                self.gpus[gpu.index] = gpu

    def matching(self, gpu_type: str) -> list[GpuView]:
        """Free GPUs of the type, by index."""
        return [gpu for _, gpu in sorted(self.gpus.items()) if gpu_type in ("", gpu.type.lower())]

    def fits(self, need: Need) -> bool:
        """Whether the need can be met now."""
        if need.cpus > self.cpus or (need.exclusive and self.used):
            return False
        mem = self.node.mem_bytes if need.mem_bytes == WHOLE_NODE else need.mem_bytes
        if mem > self.mem_bytes:
            return False
        if not need.gpus:
            return True
        free = len(self.matching(need.gpu_type)) if need.gpu_type else len(self.gpus)
        return need.gpus <= free

    def share(self, need: Need) -> Share:
        """The share that meets the need; the caller knows that it fits."""
        chosen = pick_gpus(self.matching(need.gpu_type), need.gpus)
        mem = self.node.mem_bytes if need.mem_bytes == WHOLE_NODE else need.mem_bytes
        return Share(
            node=self.node.name,
            cpus=self.node.cpus if need.exclusive else need.cpus,
            mem_bytes=mem,
            tasks=need.tasks,
            gpus=tuple(gpu.index for gpu in chosen),
            gpu_uuids=tuple(GpuUuid(gpu.uuid) for gpu in chosen),
        )


Rooms = dict[NodeName, Room]


def free_rooms(view: View) -> Rooms:
    """What is free now on nodes that take jobs."""
    rooms = {
        node.name: Room(node, (gpu for gpu in node.gpus if not gpu.blocked))
        for node in view.nodes
        if not node.unavailable
    }
    for job in view.running:
        take(rooms, job.allocation)
    return rooms


def whole_rooms(view: View) -> Rooms:
    """The cluster as if nothing ran and everything were healthy: what could ever be had."""
    return {node.name: Room(node, node.gpus) for node in view.nodes}


def take(rooms: Rooms, allocation: Allocation) -> None:
    """Takes an allocation out of the rooms."""
    for share in allocation.shares:
        if share.node in rooms:
            rooms[share.node].take(share)


def give(rooms: Rooms, job: RunningJob) -> None:
    """Gives a job's allocation back."""
    for share in job.allocation.shares:
        if share.node in rooms:
            rooms[share.node].give(share)


def candidates(rooms: Rooms, asked: Resources, partition_nodes: frozenset[NodeName] | None) -> list[Room]:
    """The nodes that the request and its partition allow, by name."""
    wanted, unwanted = frozenset(asked.nodelist), frozenset(asked.exclude)
    return [
        room
        for name, room in rooms.items()
        if name not in unwanted
        and (not wanted or name in wanted)
        and (partition_nodes is None or name in partition_nodes)
    ]


def place(
    rooms: Sequence[Room], asked: Resources, *, default_mem_per_cpu_bytes: int = 0
) -> Allocation | None:
    """An allocation for the whole gang, or None. Nothing is taken out yet."""
    for nodes in gang_sizes(asked):
        if nodes > len(rooms):
            return None  # before its needs are laid out: a range may end at a hundred thousand nodes
        wanted = needs(asked, nodes, default_mem_per_cpu_bytes=default_mem_per_cpu_bytes)
        if wanted:
            chosen = _choose(rooms, wanted)
            if chosen is not None:
                shares = [room.share(need) for room, need in zip(chosen, wanted, strict=True)]
                return Allocation(shares=tuple(shares))
    return None


def _choose(rooms: Sequence[Room], wanted: tuple[Need, ...]) -> list[Room] | None:
    """A node for each need, largest need first."""
    if all(need == wanted[0] for need in wanted):
        fitting = sorted((room for room in rooms if room.fits(wanted[0])), key=_leftover(wanted[0]))
        return sorted(fitting[: len(wanted)], key=_name) if len(fitting) >= len(wanted) else None
    chosen: list[Room] = []
    names: set[NodeName] = set()
    for need in wanted:
        fitting = [room for room in rooms if room.node.name not in names and room.fits(need)]
        if not fitting:
            return None
        best = min(fitting, key=_leftover(need))
        chosen.append(best)
        names.add(best.node.name)
    return chosen


def _name(room: Room) -> NodeName:
    return room.node.name


def _leftover(need: Need) -> Callable[[Room], tuple[int, int, NodeName]]:
    def key(room: Room) -> tuple[int, int, NodeName]:
        return (len(room.gpus) - need.gpus, room.cpus - need.cpus, room.node.name)

    return key


def pick_gpus(free: Sequence[GpuView], count: int) -> list[GpuView]:
    """So many of the free GPUs: all of one NUMA node if one has enough (the one with fewest left), lowest index first."""
    if count == 0:
        return []
    groups: dict[int, list[GpuView]] = {}
    for gpu in free:
        groups.setdefault(gpu.numa_node, []).append(gpu)
    fitting = [group for group in groups.values() if len(group) >= count]
    if fitting:
        return min(fitting, key=lambda group: (len(group), group[0].index))[:count]
    return list(free[:count])
