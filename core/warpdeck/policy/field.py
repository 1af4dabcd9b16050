"""Where jobs can be placed in a pass: the nodes that everybody may use, or those of one reservation. Pure."""

from __future__ import annotations

import msgspec

from warpdeck.model import Allocation, NodeName, Resources

from .cluster import CPUS, GPUS, MEM, Cluster, Ints
from .demand import Need
from .gpus import GpuBoard
from .placement import (
    Shape,
    Spot,
    Taken,
    allocate,
    commit,
    place_later,
    place_now,
    release,
    reserve,
    whole_amounts,
)
from .settings import Settings
from .site import PartitionView, ReservationView
from .timeline import ENDLESS_S, Hold, Timeline
from .view import RunningJob, View


class Field:
    """Nodes with their future, and the kinds of request that were tried on them."""

    def __init__(self, view: View, now: float, settings: Settings) -> None:
        self.now = now
        self.cluster = Cluster(view)
        self._settings = settings
        self._shapes: dict[tuple[int, str], Shape] = {}
        self._by_value: dict[tuple[Resources, str], Shape] = {}
        held = [(share, ends_of(job, now)) for job in view.running for share in job.allocation.shares]
        self.board = GpuBoard(self.cluster, held)
        holds: list[Hold] = [
            (self.cluster.row[share.node], ends, self.cluster.holds(share))
            for share, ends in held
            if share.node in self.cluster.row
        ]
        self.timeline = Timeline(self.cluster, now, [*holds, *self.board.shared_holds()])
        self.timeline.shared = self.board.shared

    def set_aside(self, reservation: ReservationView) -> None:
        """Nobody without a right to it may use the reservation's nodes in its time."""
        self._block(reservation.nodes, reservation.start_unix, reservation.end_unix)

    def keep_within(self, reservation: ReservationView) -> None:
        """Jobs of the reservation run neither before nor after it."""
        if reservation.start_unix > self.now:
            self._block(reservation.nodes, self.now, reservation.start_unix)
        self._block(reservation.nodes, reservation.end_unix, float("inf"))

    def shape(self, asked: Resources, partition: PartitionView | None) -> Shape:
        """The kind of the request; equal requests get the same one."""
        name = "" if partition is None else partition.name
        found = self._shapes.get((id(asked), name))
        if found is None:
            found = self._by_value.get((asked, name))
            if found is None:
                found = Shape(
                    self.cluster,
                    asked,
                    partition,
                    default_mem_per_cpu_bytes=self._settings.default_mem_per_cpu_bytes,
                )
                self._by_value[asked, name] = found
            self._shapes[id(asked), name] = found
        return found

    def find_now(self, shape: Shape, duration_s: float) -> Spot | None:
        """Nodes on which the request fits from now for so long."""
        return place_now(self.timeline, shape, duration_s)

    def find_later(self, shape: Shape, duration_s: float) -> tuple[float, Spot] | None:
        """The earliest time, and nodes, that the known future allows."""
        return place_later(self.timeline, shape, duration_s)

    def allocation(self, spot: Spot, duration_s: float) -> Allocation:
        """What a job gets that starts on the spot for so long; nothing is taken yet."""
        return allocate(self.timeline, self.board, spot, self.now + duration_s)

    def start(self, allocation: Allocation, duration_s: float) -> None:
        """Takes the allocation from now on."""
        commit(self.timeline, self.board, allocation, self.now + duration_s)

    def reserve(self, spot: Spot, start: float, duration_s: float) -> Taken:
        """Keeps the spot for later."""
        return reserve(self.timeline, spot, start, start + duration_s)

    def clear(self, spot: Spot, ready: float, duration_s: float) -> Taken:
        """Keeps the spot from now on for the one for whom others leave until `ready`."""
        return reserve(self.timeline, spot, self.now, ready + duration_s, ready=ready)

    def release(self, taken: Taken) -> None:
        """Takes back a `reserve`."""
        release(self.timeline, taken)

    def amounts(self, row: int, need: Need) -> tuple[int, int, int]:
        """CPUs, bytes of memory and GPUs that a need takes of a node, at the most."""
        amounts = whole_amounts(self.cluster, row, need)
        most = self.cluster.capacity[:, row]
        mem = most[MEM] if need.all_memory else amounts[MEM]
        return int(amounts[CPUS]), int(mem), int(most[GPUS]) if need.exclusive else need.gpus

    def names(self, spot: Spot) -> tuple[NodeName, ...]:
        """The nodes of a spot."""
        return tuple(self.cluster.nodes[row].name for row, _ in spot)

    def _block(self, nodes: frozenset[NodeName], start: float, end: float) -> None:
        for name in nodes:
            row = self.cluster.row.get(name)
            if row is not None and end > self.now:
                everything: Ints = self.cluster.capacity[:, row] + 1
                self.timeline.take(row, start, end, everything)


def reserved_view(view: View, reservation: ReservationView) -> View:
    """The cluster as the jobs of a reservation see it: its nodes alone."""
    return msgspec.structs.replace(
        view, nodes=tuple(node for node in view.nodes if node.name in reservation.nodes), pending=()
    )


def ends_of(job: RunningJob, now: float) -> float:
    """When a running job frees what it holds, as far as is promised."""
    return now + ENDLESS_S if job.ends_by_unix is None else job.ends_by_unix


def known(at_unix: float, now: float) -> bool:
    """Whether a time rests on limits alone, not on an endless job's end."""
    return at_unix < now + ENDLESS_S


def planned_s(limit_s: float | None) -> float:
    """The duration with which a new job is planned. Without a limit it outlasts every job that runs without one, so that
    it cannot pass a reservation that waits for those."""
    return 2 * ENDLESS_S if limit_s is None else max(1.0, limit_s)


Fields = dict[str, Field]


def open_fields(view: View, now: float, settings: Settings) -> Fields:
    """The general field under "", and one for each reservation that a waiting job names."""
    general = Field(view, now, settings)
    asked = {job.reservation for job in view.pending if job.reservation}
    asked |= {job.reservation for job in view.running if job.suspended and job.reservation}
    fields: Fields = {"": general}
    lasting = [reservation for reservation in view.reservations if reservation.end_unix > now]
    for reservation in lasting:
        general.set_aside(reservation)
        if reservation.name in asked:
            field = fields[reservation.name] = Field(reserved_view(view, reservation), now, settings)
            field.keep_within(reservation)
            for other in lasting:
                if _goes_before(other, reservation):
                    field.set_aside(other)
    return fields


def _goes_before(one: ReservationView, other: ReservationView) -> bool:
    """Whose the nodes are where reservations overlap: maintenance, then the one that begins first."""
    return one is not other and _claim(one) < _claim(other)


def _claim(reservation: ReservationView) -> tuple[bool, float, str]:
    return not reservation.maintenance, reservation.start_unix, reservation.name
