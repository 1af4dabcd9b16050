"""What reservations of a part of a node's CPUs and GPUs keep, and what is left of the node for others. Pure.

So much of a node is set aside, not these CPUs or those GPUs: others have what is free beyond it, and what jobs of the reservation
hold counts towards it. In the columns that it names its own jobs have that and no more; all else of the node (memory always) they
share with everybody, as in Slurm's core-based reservations. With whole nodes nothing here is asked.
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
from warpdeck.policy.input.view import RunningJob, View
from warpdeck.policy.placement.placement import Taken, release, reserve
from warpdeck.policy.placement.request_shape import Spot
from warpdeck.policy.resources.cluster import CPUS, GPUS, Cluster, Ints, Mask
from warpdeck.policy.resources.demand import Tenant
from warpdeck.policy.resources.gpus import GpuBoard
from warpdeck.policy.resources.timeline import OVERDUE_S, Timeline, ends_of

UNBOUND = np.iinfo(np.int64).max
Users = Mapping[str, Sequence[RunningJob]]
"""The jobs that run in each reservation of parts."""


def users_of(reservations: Iterable[ReservationView], running: Iterable[RunningJob]) -> Users:
    """The jobs in each, of those that are of parts."""
    found: dict[str, list[RunningJob]] = {each.name: [] for each in reservations if each.parts}
    for job in running if found else ():
        if job.reservation in found:
            found[job.reservation].append(job)
    return found


def outside_of_parts(view: View) -> Sequence[RunningJob]:
    """The running jobs that leave what they have to everybody when they end: those of parts leave it to their reservation."""
    of_parts = {each.name for each in view.reservations if each.parts}
    return [job for job in view.running if job.reservation not in of_parts] if of_parts else view.running


def amounts_of(cluster: Cluster, part: ReservedPart) -> Ints:
    """What it sets aside, by column; nothing in those that it does not name."""
    found = np.zeros(cluster.columns, dtype=np.int64)
    found[CPUS] = part.cpus
    for name, count in part.gpus:
        found[cluster.counted_in(name)] += count
    return found


class Named(NamedTuple):
    """What of a node a reservation has parts of."""

    cpus: bool
    gpus: bool

    def columns(self, cluster: Cluster) -> Mask:
        """The same by column."""
        found = np.zeros(cluster.columns, dtype=np.bool_)
        found[CPUS], found[GPUS:] = self.cpus, self.gpus
        return found


NOTHING = Named(cpus=False, gpus=False)


def _named(part: ReservedPart) -> Named:
    return Named(part.cpus > 0, bool(part.gpus))


MAX_TOLD = 3
"""Nodes of which it is said how much."""


def in_words(reservation: ReservationView) -> str:
    """What it has: 8 CPUs and 2 h100 of gpu01."""
    told = [
        part_in_words(node=part.node, cpus=part.cpus, gpus=part.gpus) for part in reservation.parts[:MAX_TOLD]
    ]
    return ", ".join([*told, *(["..."] if len(reservation.parts) > MAX_TOLD else [])])


def keep(timeline: Timeline, reservation: ReservationView, jobs: Iterable[RunningJob]) -> None:
    """Others have no more than is left beside it in its time."""
    cluster, now = timeline.cluster, timeline.now
    start, end = max(now, reservation.start_unix), reservation.end_unix
    for part in _on(cluster, reservation):
        row, amounts = cluster.row[part.node], amounts_of(cluster, part)
        timeline.take(row, start, end, amounts)
        for ends, held in _held(timeline, part, amounts, jobs):
            if ends > start:
                timeline.take(row, start, min(ends, end), -held)


def narrow(timeline: Timeline, reservation: ReservationView, jobs: Iterable[RunningJob]) -> None:
    """Its own jobs have what is left of it, in its time. When it is over they are ended, so their limits do not count."""
    cluster, now = timeline.cluster, timeline.now
    start, end = max(now, reservation.start_unix), reservation.end_unix
    for part in _on(cluster, reservation):
        row, amounts, named = cluster.row[part.node], amounts_of(cluster, part), _named(part).columns(cluster)
        holders = _held(timeline, part, amounts, jobs)
        begins, left = start, amounts - sum((held for _, held in holders), 0 * amounts)
        for ends, held in reversed(holders):  # those that end first
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
    """(end, what it holds of the part) for its jobs on the node, the last one to end first; together no more than the part."""
    there = [
        (max(ends_of(job, timeline.now), timeline.now + OVERDUE_S), job.id, share)
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


def apart_on(reservations: Iterable[ReservationView]) -> dict[NodeName, Named]:
    """By node, what any of these has parts of: what one takes of that is not missing for another."""
    found: dict[NodeName, Named] = {}
    for each in reservations:
        for part in each.parts:
            one, other = _named(part), found.get(part.node, NOTHING)
            found[part.node] = Named(one.cpus or other.cpus, one.gpus or other.gpus)
    return found


def beyond(other: ReservationView, own: ReservationView) -> ReservationView:
    """Of what another sets aside all that `own` does not name on these nodes: its own columns it need not leave to one behind it."""
    named = {part.node: part for part in own.parts}
    left = []
    for part in other.parts:
        mine = named.get(part.node)
        if mine is not None:
            part = msgspec.structs.replace(part, cpus=0, gpus=() if mine.gpus else part.gpus)
        left.append(part)
    return msgspec.structs.replace(other, parts=tuple(left))


class Neighbour(NamedTuple):
    """A timeline and board on which nodes of another field are too: what is taken there is taken here.

    `apart` is what is not, by node: of that each has its own. Nodes that are not here are nobody's business.
    """

    timeline: Timeline
    board: GpuBoard
    apart: Mapping[NodeName, Named]

    def start(self, allocation: Allocation, ends: float, tenant: Tenant | None) -> None:
        """The allocation was taken there."""
        for row, node, at in self._rows(allocation):
            share = allocation.shares[at]
            self._take(row, node, self.timeline.cluster.amounts(share), ends)
            self.timeline.settle(row, self.timeline.now, ends, tenant)
            if self._has_gpus(node):
                self.board.hold(self.timeline, row, share, ends=ends)
            else:
                self.board.take(row, share.gpus)

    def give_back(
        self, allocation: Allocation, ends: float, tenant: Tenant | None, *, origin: GpuBoard
    ) -> None:
        """It was given back there, on the board `origin`."""
        cluster = self.timeline.cluster
        for row, node, at in self._rows(allocation):
            share = allocation.shares[at]
            self._take(row, node, -cluster.amounts(share), ends)
            self.timeline.unsettle(row, self.timeline.now, ends, tenant)
            if self._has_gpus(node):
                self.board.let_go(self.timeline, row, share, ends=ends)
            else:
                self.board.give_back(row, origin.free_on(node) & set(share.gpus))

    def resume(self, share: Share, *, kept: Share, ends: float) -> None:
        """One goes on there who had kept so much."""
        row = self.timeline.cluster.row.get(share.node)
        if row is None:
            return
        cluster = self.timeline.cluster
        self._take(row, share.node, cluster.amounts(share) - cluster.amounts(kept), ends)
        if self._has_gpus(share.node):
            self.board.hold(self.timeline, row, share, besides=kept.gpus, ends=ends)
        else:
            self.board.take(row, share.gpus)

    def reserve(self, spot: Spot, names: Sequence[NodeName], start: float, end: float, ready: float) -> Taken:
        """The spot was reserved there; `names` are its nodes."""
        rows = self.timeline.cluster.row
        here = [(rows[name], need) for name, (_, need) in zip(names, spot, strict=True) if name in rows]
        common = {
            rows[name]: ~self.apart[name].columns(self.timeline.cluster)
            for name in names
            if name in rows and name in self.apart
        }
        return reserve(self.timeline, here, start, end, ready=ready, common=common)

    def release(self, taken: Taken) -> None:
        """Takes back a `reserve`."""
        release(self.timeline, taken)

    def _rows(self, allocation: Allocation) -> list[tuple[int, NodeName, int]]:
        rows = self.timeline.cluster.row
        return [
            (rows[share.node], share.node, at)
            for at, share in enumerate(allocation.shares)
            if share.node in rows
        ]

    def _take(self, row: int, node: NodeName, amounts: Ints, ends: float) -> None:
        if node in self.apart:
            amounts = amounts * ~self.apart[node].columns(self.timeline.cluster)
        self.timeline.take(row, self.timeline.now, ends, amounts)

    def _has_gpus(self, node: NodeName) -> bool:
        """Whether GPUs of the node are common."""
        return not self.apart.get(node, NOTHING).gpus
