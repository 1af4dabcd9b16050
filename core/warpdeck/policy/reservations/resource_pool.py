"""Resource pools of a pass: the nodes that every job may use, or those of one reservation.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from warpdeck.model import Allocation, NodeName, Share
from warpdeck.policy.cache.cluster_table import ClusterTable
from warpdeck.policy.cache.pass_cache import PassCache
from warpdeck.policy.input.site import PartitionView, ReservationView
from warpdeck.policy.input.view import PendingJob, PlannerView, RunningJob
from warpdeck.policy.placement.placement import (
    Taken,
    allocate,
    commit,
    place_later,
    place_now,
    release,
    reserve,
    uncommit,
    whole_amounts,
)
from warpdeck.policy.placement.request_class import Placement, RequestClass
from warpdeck.policy.resources.cluster import CPUS, FIRST_TYPE, GPUS, MEM, Floats, Ints, Mask, rows_of
from warpdeck.policy.resources.demand import NodeRequirement, Owner
from warpdeck.policy.resources.timeline import ENDLESS_S
from warpdeck.policy.resources.user_exclusivity import NOBODY

from .partial_reservation import (
    LinkedTimeline,
    NamedResources,
    Users,
    limit_to_parts,
    unlinked_resources,
    users_of,
    withhold_parts,
    without_named,
)

ALL_LINKED: Mapping[NodeName, NamedResources] = {}
MAX_SCREENED = 4_000_000
"""Maximum number of request classes x nodes that are compared one by one. Above this, each request class is
compared only with the largest free amount of any node.
"""
MAX_SCREENED_STEPS = 100_000
"""Maximum number of request classes x nodes x steps that are compared. This takes half a millisecond."""
NONE_FITS = 1 << 62
"""A demand larger than the resources of any node."""


def screen(free_now: Ints, least: Ints) -> Mask:
    """Return for each of these lower bounds of requests whether enough nodes have it free. Every request
    needs CPUs.
    """
    free = free_now[:FIRST_TYPE, free_now[CPUS] > 0]
    if len(least) * free.shape[1] > MAX_SCREENED:
        return np.all(least[:, :FIRST_TYPE] <= free.max(axis=1, initial=0), axis=1)  # type: ignore[no-any-return]
    fits: Mask = least[:, CPUS, None] <= free[CPUS]
    for column in (MEM, GPUS):
        fits &= least[:, column, None] <= free[column]
    enough: Mask = fits.sum(axis=1) >= least[:, FIRST_TYPE]
    return enough


class ResourcePool:
    """Nodes with their free resources over time, from which a pass allocates."""

    def __init__(self, cluster_table: ClusterTable, now: float, *, closes_unix: float = math.inf) -> None:
        """Create the pool. `closes_unix` is the end of the reservation that it belongs to. From then on no
        job starts in the pool.
        """
        self.now = now
        self.closes_unix = closes_unix
        self._linked: list[LinkedTimeline] = []
        """Other resource pools that contain some of these nodes at the same time."""
        self.cluster_table = cluster_table
        self.cluster = cluster_table.cluster
        self.gpu_table = cluster_table.gpu_table(now)
        self.timeline = cluster_table.timeline(now, self.gpu_table)
        self.refresh_free()

    def refresh_free(self) -> None:
        """Cache the free amounts of the first step. During a pass they only decrease."""
        free = self.timeline.free_now
        self._most: list[int] = free.max(axis=1, initial=0).tolist()
        self._some_free: Ints = free[:FIRST_TYPE, free[CPUS] > 0]
        self._may_fit: Mask = np.zeros(0, dtype=np.bool_)

    def set_aside(self, reservation: ReservationView, jobs: Sequence[RunningJob] = ()) -> None:
        """Withhold the nodes of a reservation, or its parts of them, from jobs of this pool. `jobs` are the
        jobs that run in the reservation.
        """
        if not reservation.parts:
            self._block(reservation.nodes, reservation.start_unix, reservation.end_unix)
        elif reservation.end_unix > self.now:
            withhold_parts(self.timeline, reservation, jobs)

    def keep_until(self, reservation: ReservationView) -> None:
        """Block the time before the reservation begins for its jobs."""
        if reservation.start_unix > self.now:
            self._block(frozenset(self.cluster.row), self.now, reservation.start_unix)

    def link(self, other: ResourcePool, unlinked: Mapping[NodeName, NamedResources] = ALL_LINKED) -> None:
        """Link two resource pools that have nodes in common at the same time. For `unlinked`, see
        `LinkedTimeline`.
        """
        self._linked.append(LinkedTimeline(other.timeline, other.gpu_table, unlinked))
        other._linked.append(LinkedTimeline(self.timeline, self.gpu_table, unlinked))

    def request_class(self, job: PendingJob, partition: PartitionView | None) -> RequestClass:
        """Return the request class of a job. Jobs with equal requests share one."""
        return self.cluster_table.classes.of(job, partition)

    def may_fit(self, request_class: RequestClass) -> bool:
        """Return whether the request might fit somewhere now.

        This is a very cheap test, which usually returns False on a full cluster.
        """
        if request_class.number >= len(self._may_fit):
            self.may_fit_now()
        return bool(self._may_fit[request_class.number])

    def may_fit_now(self) -> Mask:
        """Return the result of `may_fit` for all request classes so far, indexed by request class number."""
        least = self.cluster_table.classes.lower_bounds()
        is_predictable = len(self._may_fit)
        if is_predictable < len(least):
            self._may_fit = np.concatenate((self._may_fit, screen(self._some_free, least[is_predictable:])))
        return self._may_fit

    def may_fit_for(self, numbers: Ints, durations_s: Floats) -> Mask:
        """Return for each of these request classes whether it might fit from now on for its duration.

        A request class might fit if its lower bound is free on enough nodes for the whole time. If this test
        would cost more than trying the request classes one by one, it returns True for all of them.
        """
        least, timeline = self.cluster_table.classes.lower_bounds()[numbers], self.timeline
        fewest = least.min(axis=0, initial=NONE_FITS)
        rows = rows_of((timeline.free_now[:FIRST_TYPE] >= fewest[:FIRST_TYPE, None]).all(axis=0))
        times = timeline.times[rows]
        if len(numbers) * times.size > MAX_SCREENED_STEPS:
            return np.ones(len(numbers), dtype=np.bool_)
        fits: Mask = times >= (self.now + durations_s)[:, None, None]
        fits[:, :, 0] = False
        enough = least[:, CPUS, None, None] <= timeline.free[CPUS, rows]
        for column in (MEM, GPUS):
            enough &= least[:, column, None, None] <= timeline.free[column, rows]
        fits |= enough
        found: Mask = fits.all(axis=2).sum(axis=1) >= least[:, FIRST_TYPE]
        return found

    def rows_with_capacity(self, base: RequestClass) -> Ints:
        """Return the rows on which the lower bound of the request class is free now.

        The users with running jobs on these nodes are not considered.
        """
        cpus, mem_bytes, gpus, _ = base.lower_bound()
        free = self.timeline.free_now
        enough: Mask = (free[CPUS] >= cpus) & (free[MEM] >= mem_bytes) & (free[GPUS] >= gpus)
        if base.gangs and base.gangs[0].requirements[0][0].exclusive:
            enough &= free[CPUS] >= self.cluster.capacity[CPUS]
        return rows_of(enough & base.usable())

    def excluded_variants(self, base: RequestClass) -> list[int]:
        """Return the numbers of the user-specific variants of the request class that jobs of other users keep
        from being placed now.
        """
        users_on_nodes, rows = self.timeline.users_on_nodes, self.rows_with_capacity(base)
        if users_on_nodes is None:
            return []
        sole_users, least = users_on_nodes.sole_users(alone=base.excludes_users)[rows], base.lower_bound()[-1]
        of_users = np.bincount(sole_users[sole_users >= 0]).tolist()
        short = least - int(np.count_nonzero(sole_users == NOBODY))
        found = []
        for each in self.cluster_table.classes.per_user(base):
            assert each.owner is not None
            number = users_on_nodes.number(each.owner.user)
            if short > (of_users[number] if number < len(of_users) else 0):
                found.append(each.number)
        return found

    def may_give(self, need: NodeRequirement) -> bool:
        """Return whether some node might have these resources free now."""
        gpus = need.gpus if need.gpu_share_pct >= 100 else 0
        return (
            need.cpus <= self._most[CPUS] and need.mem_bytes <= self._most[MEM] and gpus <= self._most[GPUS]
        )

    def find_now(self, request_class: RequestClass, duration_s: float) -> Placement | None:
        """Return nodes on which the request fits from now on for this duration."""
        return place_now(self.timeline, request_class, duration_s)

    def find_later(self, request_class: RequestClass, duration_s: float) -> tuple[float, Placement] | None:
        """Return the earliest time at which the request fits, and the nodes; None if it fits at no known
        time.
        """
        found = place_later(self.timeline, request_class, duration_s)
        return None if found is None or found[0] >= self.closes_unix else found

    def allocation(self, placement: Placement, duration_s: float) -> Allocation:
        """Return the allocation of a job that starts on the placement for this duration. Nothing is taken
        yet.
        """
        return allocate(self.timeline, self.gpu_table, placement, self.now + duration_s)

    def start(self, allocation: Allocation, duration_s: float, owner: Owner | None) -> None:
        """Take the allocation from now on."""
        commit(self.timeline, self.gpu_table, allocation, self.now + duration_s, owner=owner)
        for other in self._linked:
            other.start(allocation, self.now + duration_s, owner)

    def give_back(self, allocation: Allocation, duration_s: float, owner: Owner | None) -> None:
        """Undo a `start`. The last one must be undone first."""
        uncommit(self.timeline, self.gpu_table, allocation, self.now + duration_s, owner=owner)
        for other in self._linked:
            other.give_back(allocation, self.now + duration_s, owner, origin=self.gpu_table)

    def resume(self, row: int, share: Share, *, kept: Share, ends: float) -> None:
        """Take the resources of a share on a row, except those that were kept while the job was suspended."""
        more: Ints = self.cluster.amounts(share) - self.cluster.amounts(kept)
        self.timeline.take(row, self.now, ends, more)
        self.gpu_table.hold(self.timeline, row, share, besides=kept.gpus, ends=ends)
        for other in self._linked:
            other.resume(share, kept=kept, ends=ends)

    def reserve(self, placement: Placement, start: float, duration_s: float) -> list[Taken]:
        """Reserve the placement for a later interval."""
        return self._reserve(placement, start, start + duration_s, ready=start)

    def reserve_after_preemption(self, placement: Placement, ready: float, duration_s: float) -> list[Taken]:
        """Reserve the placement from now on for a preempting job. The preempted jobs leave by `ready`."""
        return self._reserve(placement, self.now, ready + duration_s, ready=ready)

    def _reserve(self, placement: Placement, start: float, end: float, *, ready: float) -> list[Taken]:
        own = reserve(self.timeline, placement, start, end, ready=ready)
        if not self._linked:
            return [own]
        names = self.names(placement)
        return [own, *(other.reserve(placement, names, start, end, ready) for other in self._linked)]

    def release(self, taken: list[Taken]) -> None:
        """Undo a `reserve`."""
        release(self.timeline, taken[0])
        for other, each in zip(self._linked, taken[1:], strict=True):
            other.release(each)

    def amounts(self, row: int, need: NodeRequirement) -> tuple[int, int, int]:
        """Return the largest amounts (CPUs, bytes of memory, GPUs) that this requirement takes of the node."""
        amounts = whole_amounts(self.cluster, row, need)
        most = self.cluster.capacity[:, row]
        mem = most[MEM] if need.all_memory else amounts[MEM]
        return int(amounts[CPUS]), int(mem), int(most[GPUS]) if need.exclusive else need.gpus

    def names(self, placement: Placement) -> tuple[NodeName, ...]:
        """Return the names of the placement's nodes."""
        return tuple(self.cluster.nodes[row].name for row, _ in placement)

    def _block(self, nodes: frozenset[NodeName], start: float, end: float) -> None:
        for name in nodes:
            row = self.cluster.row.get(name)
            if row is not None and end > self.now:
                everything: Ints = self.cluster.capacity[:, row] + 1
                self.timeline.take(row, start, end, everything)


def reservation_table(view: PlannerView, general: ClusterTable, reservation: ReservationView) -> ClusterTable:
    """Return the cluster table for the jobs of a reservation.

    It contains only the nodes of the reservation, or all nodes if the jobs may use nodes outside of it.
    """
    nodes = tuple(node for node in view.nodes if reservation.is_everywhere or node.name in reservation.nodes)
    rows = [general.cluster.row[node.name] for node in nodes]
    made = ClusterTable(general.settings)
    made.classes.set_owners(general.classes.owners)
    made.follow(
        PlannerView(nodes=nodes, running=tuple(general.jobs_on(rows)), pending=(), partitions=view.partitions)
    )
    return made


def is_predictable(at_unix: float, now: float) -> bool:
    """Return whether a time follows from time limits alone. Otherwise it depends on the assumed end of a job
    without a limit.
    """
    return at_unix < now + ENDLESS_S


def planned_s(limit_s: float | None) -> float:
    """Return the duration in seconds with which a new job is planned.

    A job without a limit is planned to outlast every running job without a limit. Otherwise it could overtake
    a reservation that waits for these jobs.
    """
    return 2 * ENDLESS_S if limit_s is None else max(1.0, limit_s)


Pools = dict[str, ResourcePool]


def open_pools(view: PlannerView, now: float, cache: PassCache) -> Pools:
    """Return the resource pools of a pass by reservation name.

    The general resource pool has the key "". There is one more for each reservation that a pending or
    suspended job names, and for each magnetic reservation.
    """
    general = ResourcePool(cache.cluster_table, now)
    pools: Pools = {"": general}
    if not view.reservations:
        return pools
    requested = {job.reservation for job in view.running if job.suspended}
    requested.update(cache.queue.reservations.keys)
    current = [reservation for reservation in view.reservations if reservation.end_unix > now]
    users = users_of(current, view.running)
    for reservation in current:
        general.set_aside(reservation, users.get(reservation.name, ()))
        if reservation.name in requested or reservation.magnetic:
            pools[reservation.name] = _reservation_pool(view, now, cache.cluster_table, reservation, users)
    opened = [each for each in current if each.name in pools]
    _join(general, [(each, pools[each.name]) for each in opened])
    return pools


def _join(general: ResourcePool, opened: Sequence[tuple[ReservationView, ResourcePool]]) -> None:
    """Link the resource pools that have nodes in common at the same time."""
    for at, (one, pool) in enumerate(opened):
        parts = [one] if one.is_of_parts else []
        if one.is_everywhere or parts:
            general.link(pool, unlinked_resources(parts))
        for other, another in opened[:at]:
            of_parts = [*parts, *([other] if other.is_of_parts else [])]
            both_everywhere = one.is_everywhere and other.is_everywhere
            if both_everywhere or (
                of_parts and (one.is_everywhere or other.is_everywhere or one.nodes & other.nodes)
            ):
                pool.link(another, unlinked_resources(of_parts))


def _reservation_pool(
    view: PlannerView, now: float, general: ClusterTable, reservation: ReservationView, users: Users
) -> ResourcePool:
    """Return the resource pool for the jobs of a reservation, limited to its nodes and its time."""
    pool = ResourcePool(
        reservation_table(view, general, reservation), now, closes_unix=reservation.closes_unix()
    )
    if not reservation.flex:
        pool.keep_until(reservation)
    for other in view.reservations:
        if other is reservation or other.end_unix <= now:
            continue
        jobs = users.get(other.name, ())
        if _has_precedence(other, reservation) or (
            other.parts and reservation.parts and reservation.is_everywhere
        ):
            pool.set_aside(other, jobs)
        elif reservation.is_everywhere:
            for nodes, start, end in _outside(other, reservation):
                outside = msgspec.structs.replace(other, nodes=nodes, start_unix=start, end_unix=end)
                pool.set_aside(outside, jobs)
        elif other.is_of_parts and reservation.is_of_parts:
            pool.set_aside(without_named(other, reservation), jobs)
    if reservation.is_of_parts:
        limit_to_parts(pool.timeline, reservation, users.get(reservation.name, ()))
    return pool


def _outside(other: ReservationView, own: ReservationView) -> list[tuple[frozenset[NodeName], float, float]]:
    """Return the (nodes, start, end) that belong to `other` but not to `own`."""
    both, start, end = other.nodes & own.nodes, other.start_unix, other.end_unix
    parts = [
        (other.nodes - both, start, end),
        (both, start, min(end, own.start_unix)),
        (both, max(start, own.end_unix), end),
    ]
    return [(nodes, begins, ends) for nodes, begins, ends in parts if nodes and begins < ends]


def _has_precedence(one: ReservationView, other: ReservationView) -> bool:
    """Return whether `one` has precedence over `other` where they overlap: maintenance first, then the
    earlier start.
    """
    return _precedence(one) < _precedence(other)


def _precedence(reservation: ReservationView) -> tuple[bool, float, str]:
    return not reservation.maintenance, reservation.start_unix, reservation.name
