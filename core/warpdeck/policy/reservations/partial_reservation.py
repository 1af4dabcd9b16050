"""Partial reservations of the CPUs and GPUs of nodes: the resources they keep, and the resources left to
other jobs.

A partial reservation reserves amounts, not particular CPUs or GPUs. Other jobs can use the rest of the node.
Resources that jobs of the reservation hold count towards the amount. Of each named resource, these jobs can
use the reserved amount and no more. All other resources of the node (always the memory) are shared with all
jobs, as in Slurm's core-based reservations. Reservations of whole nodes do not use this module.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from warpdeck.model import Allocation, NodeName, Share
from warpdeck.model.reservation import ReservedPart
from warpdeck.notation.filters.reservations import part_in_words
from warpdeck.policy.input.site import ReservationView
from warpdeck.policy.input.view import PlannerView, RunningJob
from warpdeck.policy.placement.placement import Taken, release, reserve
from warpdeck.policy.placement.request_class import Placement
from warpdeck.policy.resources.cluster import CPUS, GPUS, Cluster, Ints, Mask
from warpdeck.policy.resources.demand import Owner
from warpdeck.policy.resources.gpus import GpuTable
from warpdeck.policy.resources.timeline import OVERRUN_S, Timeline, ends_of

UNBOUND = np.iinfo(np.int64).max
Users = Mapping[str, Sequence[RunningJob]]
"""The jobs that run in each partial reservation."""


def users_of(reservations: Iterable[ReservationView], running: Iterable[RunningJob]) -> Users:
    """Return the running jobs of each partial reservation."""
    found: dict[str, list[RunningJob]] = {each.name: [] for each in reservations if each.parts}
    for job in running if found else ():
        if job.reservation in found:
            found[job.reservation].append(job)
    return found


def outside_of_parts(view: PlannerView) -> Sequence[RunningJob]:
    """Return the running jobs that leave their resources to all jobs when they end.

    Jobs in partial reservations are left out, because their resources go back to the reservation.
    """
    of_parts = {each.name for each in view.reservations if each.parts}
    return [job for job in view.running if job.reservation not in of_parts] if of_parts else view.running


def amounts_of(cluster: Cluster, part: ReservedPart) -> Ints:
    """Return the amounts that a part reserves, by column; 0 in columns of other resources."""
    found = np.zeros(cluster.columns, dtype=np.int64)
    found[CPUS] = part.cpus
    for name, count in part.gpus:
        found[cluster.counted_in(name)] += count
    return found


class NamedResources(NamedTuple):
    """Whether a partial reservation reserves CPUs, and whether it reserves GPUs, of a node."""

    cpus: bool
    gpus: bool

    def columns(self, cluster: Cluster) -> Mask:
        """Return the named resources as a mask over the columns of a cluster."""
        found = np.zeros(cluster.columns, dtype=np.bool_)
        found[CPUS], found[GPUS:] = self.cpus, self.gpus
        return found


NOTHING = NamedResources(cpus=False, gpus=False)


def _named(part: ReservedPart) -> NamedResources:
    return NamedResources(part.cpus > 0, bool(part.gpus))


MAX_LISTED = 3
"""Maximum number of nodes in a text that lists reserved amounts."""


def parts_text(reservation: ReservationView) -> str:
    """Return the reserved parts as text, for example "8 CPUs and 2 h100 of gpu01"."""
    listed = [
        part_in_words(node=part.node, cpus=part.cpus, gpus=part.gpus)
        for part in reservation.parts[:MAX_LISTED]
    ]
    return ", ".join([*listed, *(["..."] if len(reservation.parts) > MAX_LISTED else [])])


def withhold_parts(timeline: Timeline, reservation: ReservationView, jobs: Iterable[RunningJob]) -> None:
    """Take the reserved amounts from the timeline of other jobs, except amounts that jobs of the reservation
    already hold.
    """
    cluster, now = timeline.cluster, timeline.now
    start, end = max(now, reservation.start_unix), reservation.end_unix
    for part in _on(cluster, reservation):
        row, amounts = cluster.row[part.node], amounts_of(cluster, part)
        timeline.take(row, start, end, amounts)
        for ends, held in _held(timeline, part, amounts, jobs):
            if ends > start:
                timeline.take(row, start, min(ends, end), -held)


def limit_to_parts(timeline: Timeline, reservation: ReservationView, jobs: Iterable[RunningJob]) -> None:
    """Limit the timeline of the reservation's own jobs to the unused part of the reserved amounts.

    These jobs are ended when the reservation is over, so their time limits do not matter.
    """
    cluster, now = timeline.cluster, timeline.now
    start, end = max(now, reservation.start_unix), reservation.end_unix
    for part in _on(cluster, reservation):
        row, amounts, named = cluster.row[part.node], amounts_of(cluster, part), _named(part).columns(cluster)
        holders = _held(timeline, part, amounts, jobs)
        begins, left = start, amounts - sum((held for _, held in holders), 0 * amounts)
        for ends, held in reversed(holders):  # Reversed, so that the jobs that end first come first.
            if begins < ends:
                timeline.limit(row, begins, min(ends, end), np.where(named, left, UNBOUND))
                begins = min(ends, end)
            left = left + held
        timeline.limit(row, begins, end, np.where(named, amounts, UNBOUND))
        timeline.renew(row, end, np.where(named, amounts, cluster.capacity[:, row]))


def _on(cluster: Cluster, reservation: ReservationView) -> list[ReservedPart]:
    return [part for part in reservation.parts if part.node in reservation.nodes and part.node in cluster.row]


def _held(
    timeline: Timeline, part: ReservedPart, amounts: Ints, jobs: Iterable[RunningJob]
) -> list[tuple[float, Ints]]:
    """Return (end, amounts held of the part) for the reservation's jobs on the node, last end first.

    The amounts together do not exceed the part.
    """
    there = [
        (max(ends_of(job, timeline.now), timeline.now + OVERRUN_S), job.id, share)
        for job in jobs
        for share in job.allocation.shares
        if share.node == part.node
    ]
    left, found = amounts.copy(), []
    for ends, _, share in sorted(there, key=lambda each: (-each[0], each[1])):
        held = np.minimum(left, timeline.cluster.amounts(share))
        left -= held
        found.append((ends, held))
    return found


def unlinked_resources(reservations: Iterable[ReservationView]) -> dict[NodeName, NamedResources]:
    """Return, by node, the resources that any of these reservations names. Each reservation has its own
    amount of them, so resources taken from one leave the others unchanged.
    """
    found: dict[NodeName, NamedResources] = {}
    for each in reservations:
        for part in each.parts:
            one, other = _named(part), found.get(part.node, NOTHING)
            found[part.node] = NamedResources(one.cpus or other.cpus, one.gpus or other.gpus)
    return found


def without_named(other: ReservationView, own: ReservationView) -> ReservationView:
    """Return the other reservation without the resources that `own` names on the same nodes.

    `own` has separate amounts of these resources and need not leave any to a reservation with lower
    precedence.
    """
    named = {part.node: part for part in own.parts}
    left = []
    for part in other.parts:
        mine = named.get(part.node)
        if mine is not None:
            part = msgspec.structs.replace(part, cpus=0, gpus=() if mine.gpus else part.gpus)
        left.append(part)
    return msgspec.structs.replace(other, parts=tuple(left))


class LinkedTimeline(NamedTuple):
    """A linked resource pool, which contains nodes of another pool. Resources taken in one pool are taken in
    the other too.

    `unlinked` names, by node, the resources that are not linked, because each pool has its own amount. Nodes
    that are in only one of the pools are ignored.
    """

    timeline: Timeline
    gpu_table: GpuTable
    unlinked: Mapping[NodeName, NamedResources]

    def start(self, allocation: Allocation, ends: float, owner: Owner | None) -> None:
        """Mirror an allocation that was taken in the other resource pool."""
        for row, node, at in self._rows(allocation):
            share = allocation.shares[at]
            self._take(row, node, self.timeline.cluster.amounts(share), ends)
            self.timeline.add_user(row, self.timeline.now, ends, owner)
            if self._has_gpus(node):
                self.gpu_table.hold(self.timeline, row, share, ends=ends)
            else:
                self.gpu_table.take(row, share.gpus)

    def give_back(
        self, allocation: Allocation, ends: float, owner: Owner | None, *, origin: GpuTable
    ) -> None:
        """Mirror that an allocation was given back in the other resource pool. `origin` is the GPU table of
        that pool.
        """
        cluster = self.timeline.cluster
        for row, node, at in self._rows(allocation):
            share = allocation.shares[at]
            self._take(row, node, -cluster.amounts(share), ends)
            self.timeline.remove_user(row, self.timeline.now, ends, owner)
            if self._has_gpus(node):
                self.gpu_table.unhold(self.timeline, row, share, ends=ends)
            else:
                self.gpu_table.give_back(row, origin.free_on(node) & set(share.gpus))

    def resume(self, share: Share, *, kept: Share, ends: float) -> None:
        """Mirror that a suspended job was resumed in the other resource pool. `kept` is the share that it
        kept while suspended.
        """
        row = self.timeline.cluster.row.get(share.node)
        if row is None:
            return
        cluster = self.timeline.cluster
        self._take(row, share.node, cluster.amounts(share) - cluster.amounts(kept), ends)
        if self._has_gpus(share.node):
            self.gpu_table.hold(self.timeline, row, share, besides=kept.gpus, ends=ends)
        else:
            self.gpu_table.take(row, share.gpus)

    def reserve(
        self, placement: Placement, names: Sequence[NodeName], start: float, end: float, ready: float
    ) -> Taken:
        """Mirror a reservation of a placement in the other resource pool. `names` are its nodes."""
        rows = self.timeline.cluster.row
        here = [(rows[name], need) for name, (_, need) in zip(names, placement, strict=True) if name in rows]
        common = {
            rows[name]: ~self.unlinked[name].columns(self.timeline.cluster)
            for name in names
            if name in rows and name in self.unlinked
        }
        return reserve(self.timeline, here, start, end, ready=ready, common=common)

    def release(self, taken: Taken) -> None:
        """Undo a `reserve`."""
        release(self.timeline, taken)

    def _rows(self, allocation: Allocation) -> list[tuple[int, NodeName, int]]:
        rows = self.timeline.cluster.row
        return [
            (rows[share.node], share.node, at)
            for at, share in enumerate(allocation.shares)
            if share.node in rows
        ]

    def _take(self, row: int, node: NodeName, amounts: Ints, ends: float) -> None:
        if node in self.unlinked:
            amounts = amounts * ~self.unlinked[node].columns(self.timeline.cluster)
        self.timeline.take(row, self.timeline.now, ends, amounts)

    def _has_gpus(self, node: NodeName) -> bool:
        """Return whether the GPUs of the node are linked."""
        return not self.unlinked.get(node, NOTHING).gpus
