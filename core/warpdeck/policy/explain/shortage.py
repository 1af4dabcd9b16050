"""Texts about the resources that a request class lacks now. They name foreign GPU users and unavailable
nodes.

Request classes that may use the same nodes share the results about these nodes, so that hundreds of classes
cost little more than one.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

import numpy as np

from warpdeck.policy.placement.gangs import NO_ROW, Gang
from warpdeck.policy.placement.pending_reason import GIB, many
from warpdeck.policy.placement.request_class import RequestClass
from warpdeck.policy.reservations.resource_pool import ResourcePool
from warpdeck.policy.resources.cluster import CPUS, GPUS, MEM, Ints, Mask
from warpdeck.policy.resources.demand import NodeRequirement

INSTANT_S = 0.001
"""A duration so short that no reservation interferes. A request that fits for this duration would start now
if no job were ahead of it.
"""
MAX_NAMED = 3
"""Maximum number of nodes or GPUs named in a sentence."""


class Shortages:
    """Shortages in one resource pool, as it is when the object is created."""

    def __init__(self, pool: ResourcePool) -> None:
        self._pool = pool
        pool.refresh_free()
        self._usable: dict[int, Mask] = {}
        self._present_users: dict[int, set[int]] = {}
        """By base request class: the users that have jobs on the nodes with enough free resources."""
        self._absent_user: dict[int, RequestClass] = {}
        """By base request class: the request class of a user without jobs on any of these nodes."""
        self._freest: dict[tuple[int, int, bool], int] = {}

    def alike(self, request_class: RequestClass) -> RequestClass:
        """Return a representative of the request classes that get the same sentence.

        All users without jobs on the nodes with enough free resources are in the same situation.
        """
        base, users_on_nodes, owner = (
            request_class.base,
            self._pool.timeline.users_on_nodes,
            request_class.owner,
        )
        if users_on_nodes is None or owner is None:
            return request_class
        present = self._present_users.get(base.number)
        if present is None:
            rows = self._pool.rows_with_capacity(base)
            present = self._present_users[base.number] = set(
                users_on_nodes.sole_users(alone=owner.alone)[rows].tolist()
            )
        if not present:
            return base
        if users_on_nodes.number(owner.user) in present:
            return request_class
        return self._absent_user.setdefault(base.number, request_class)

    def fits_now(self, request_class: RequestClass) -> bool:
        """Return whether the request would fit now if nothing were reserved."""
        return self._pool.may_fit(request_class) and self._pool.find_now(request_class, INSTANT_S) is not None

    def usable(self, request_class: RequestClass) -> Mask:
        """Return the nodes that the request allows and that accept jobs."""
        found = self._usable.get(id(request_class.masks))
        if found is None:
            found = self._usable[id(request_class.masks)] = (
                request_class.usable() & self._pool.cluster.takes_jobs
            )
        return found

    def of(self, request_class: RequestClass) -> str:
        """Return a text about the resources that the request lacks now."""
        cluster = self._pool.cluster
        usable = self.usable(request_class)
        if not usable.any():
            out = [cluster.nodes[row] for row in np.flatnonzero(request_class.usable())[:MAX_NAMED]]
            named = "; ".join(f"{node.name} {node.unavailable}" for node in out)
            return "no node it may use accepts jobs now" + (f" ({named})" if named else "")
        gang = request_class.gangs[0]
        need = gang.requirements[0][0]
        named = self._nodelist_text(gang, usable)
        if named:
            return named
        if gang.nodes > 1 and self._pool.may_give(need):
            fitting = len(self._pool.timeline.fitting_now(need, INSTANT_S, usable))
            if fitting:
                return f"{fitting} of {gang.nodes} required nodes are available now"
        conflict = self._exclusivity_text(request_class, usable, need)
        if conflict:
            return conflict
        best = self._freest_row(request_class, need)
        gpus = cluster.nodes[best].gpus if need.gpus else ()
        blocked = [f"{gpu.index} {gpu.blocked}" for gpu in gpus if gpu.blocked]
        return self._free_text(best, need) + (f"; GPU {', '.join(blocked[:2])}" if blocked else "")

    def _nodelist_text(self, gang: Gang, usable: Mask) -> str:
        """Return a text about the first node of --nodelist that could not take even the smallest part of the
        request now, or "".
        """
        if not gang.named:
            return ""
        need = min(
            (each for each, _ in gang.requirements), key=lambda each: (each.gpus, each.cpus, each.mem_bytes)
        )
        able = self._pool.timeline.enough(need, self._pool.timeline.free_now) & usable
        for row in gang.named:
            if row == NO_ROW or able[row]:
                continue
            node = self._pool.cluster.nodes[row]
            if not usable[row]:
                return f"{node.name} (--nodelist): {node.unavailable or 'not available to this job'}"
            return self._free_text(row, need, is_named=True)
        return ""

    def _exclusivity_text(self, request_class: RequestClass, usable: Mask, need: NodeRequirement) -> str:
        """Return a text about nodes with enough free resources that are blocked only by other users' jobs, or
        "".
        """
        timeline, owner = self._pool.timeline, need.owner
        if timeline.users_on_nodes is None or owner is None:
            return ""
        rows = np.flatnonzero(timeline.enough(need, timeline.free_now) & usable)
        rows = rows[timeline.users_on_nodes.conflicts_now(owner, rows)]
        if not len(rows):
            return ""
        first = next((row for row in request_class.gangs[0].named if row in rows), rows[0])
        name = self._pool.cluster.nodes[first].name
        if owner.alone:
            requester, requested = "this job", "--exclusive=user"
            if request_class.partition is not None and request_class.partition.exclusive_user:
                requester, requested = f"partition {request_class.partition.name}", "exclusive_user"
            return (
                f"{name} has free resources, but other users' jobs run there,"
                f" and {requester} requires nodes without other users ({requested})"
            )
        return (
            f"{name} has free resources, but another user's job there excludes other users"
            " (--exclusive=user, or its partition's exclusive_user)"
        )

    def _column(self, need: NodeRequirement) -> int:
        return self._pool.cluster.type_columns.get(need.gpu_type, GPUS)

    def _freest_row(self, request_class: RequestClass, need: NodeRequirement) -> int:
        key = (id(request_class.masks), self._column(need), bool(need.gpus))
        found = self._freest.get(key)
        if found is None:
            rows = np.flatnonzero(self.usable(request_class))
            free = self._pool.timeline.free_now[:, rows]
            freest: Ints = np.arange(len(rows))
            for counted in (self._column(need), CPUS, MEM) if need.gpus else (CPUS, MEM):
                freest = freest[free[counted, freest] == free[counted, freest].max()]
            found = self._freest[key] = int(rows[freest[0]])
        return found

    def _free_text(self, row: int, need: NodeRequirement, *, is_named: bool = False) -> str:
        cluster = self._pool.cluster
        name = cluster.nodes[row].name
        free = [max(0, count) for count in self._pool.timeline.free_now[:, row].tolist()]
        found = f"{name} (--nodelist) has" if is_named else f"best is {name} with"
        if need.gpus and free[self._column(need)] < need.gpus:
            return f"{found} {free[self._column(need)]} free"
        if need.exclusive and free[CPUS] < cluster.capacity[CPUS, row]:
            return f"{name} (--nodelist) is not idle" if is_named else "no node is idle"
        if free[CPUS] < need.cpus:
            return f"{found} {many(free[CPUS], 'CPU')} free"
        return f"{found} {free[MEM] / GIB:.0f} GiB free"
