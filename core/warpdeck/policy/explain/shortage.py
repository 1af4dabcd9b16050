"""Texts about the resources that a request class lacks now; they name foreign GPU users and unavailable
nodes.

Request classes that may use the same nodes share the results about these nodes, so that hundreds of classes
cost little more than one.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

import numpy as np

from warpdeck.policy.placement.gangs import NO_ROW, Gang
from warpdeck.policy.placement.pending_reason import GIB, many
from warpdeck.policy.placement.request_shape import RequestClass
from warpdeck.policy.reservations.resource_pool import ResourcePool
from warpdeck.policy.resources.cluster import CPUS, GPUS, MEM, Ints, Mask
from warpdeck.policy.resources.demand import NodeRequirement

INSTANT_S = 0.001
"""A duration so short that no reservation interferes. A request that fits this long would fit now if no job
were ahead of it.
"""
MAX_NAMED = 3
"""Maximum number of nodes or GPUs named in a sentence."""


class Shortages:
    """Shortages in one resource pool, as it is when the object is created."""

    def __init__(self, field: ResourcePool) -> None:
        self._field = field
        field.look_again()
        self._usable: dict[int, Mask] = {}
        self._there: dict[int, set[int]] = {}
        """Number of a request class -> the users that have jobs on the nodes with enough free resources."""
        self._stranger: dict[int, RequestClass] = {}
        """By the same number: the request class of a user that is on none of these nodes."""
        self._freest: dict[tuple[int, int, bool], int] = {}

    def alike(self, shape: RequestClass) -> RequestClass:
        """Return a representative of the request classes that get the same sentence.

        For a request of several users, all users that are on none of the nodes with enough free resources are
        in the same situation.
        """
        of_all, tenants, tenant = shape.of_all, self._field.timeline.tenants, shape.tenant
        if tenants is None or tenant is None:
            return shape
        there = self._there.get(of_all.number)
        if there is None:
            rows = self._field.roomy(of_all)
            there = self._there[of_all.number] = set(tenants.whose(alone=tenant.alone)[rows].tolist())
        if not there:
            return of_all
        if tenants.number(tenant.user) in there:
            return shape
        return self._stranger.setdefault(of_all.number, shape)

    def fits_now(self, shape: RequestClass) -> bool:
        """Return whether it would fit if there were no reservations."""
        return self._field.may_fit(shape) and self._field.find_now(shape, INSTANT_S) is not None

    def usable(self, shape: RequestClass) -> Mask:
        """Return the nodes that the request allows and that accept jobs."""
        found = self._usable.get(id(shape.masks))
        if found is None:
            found = self._usable[id(shape.masks)] = shape.usable() & self._field.cluster.takes_jobs
        return found

    def of(self, shape: RequestClass) -> str:
        """Return a text that says what is missing for the request now."""
        cluster = self._field.cluster
        usable = self.usable(shape)
        if not usable.any():
            out = [cluster.nodes[row] for row in np.flatnonzero(shape.usable())[:MAX_NAMED]]
            named = "; ".join(f"{node.name} {node.unavailable}" for node in out)
            return "no node it may use accepts jobs now" + (f" ({named})" if named else "")
        gang = shape.gangs[0]
        need = gang.wanted[0][0]
        named = self._named_words(gang, usable)
        if named:
            return named
        if gang.nodes > 1 and self._field.may_give(need):
            fitting = len(self._field.timeline.fitting_now(need, INSTANT_S, usable))
            if fitting:
                return f"{fitting} of {gang.nodes} required nodes are available now"
        barred = self._barred_words(shape, usable, need)
        if barred:
            return barred
        best = self._freest_row(shape, need)
        gpus = cluster.nodes[best].gpus if need.gpus else ()
        blocked = [f"{gpu.index} {gpu.blocked}" for gpu in gpus if gpu.blocked]
        return self._free_words(best, need) + (f"; GPU {', '.join(blocked[:2])}" if blocked else "")

    def _named_words(self, gang: Gang, usable: Mask) -> str:
        """Return a text about the first node of its --nodelist that could not take even its smallest part
        now, or "".
        """
        if not gang.named:
            return ""
        need = min((each for each, _ in gang.wanted), key=lambda each: (each.gpus, each.cpus, each.mem_bytes))
        able = self._field.timeline.enough(need, self._field.timeline.free_now) & usable
        for row in gang.named:
            if row == NO_ROW or able[row]:
                continue
            node = self._field.cluster.nodes[row]
            if not usable[row]:
                return f"{node.name} (--nodelist): {node.unavailable or 'not available to this job'}"
            return self._free_words(row, need, is_named=True)
        return ""

    def _barred_words(self, shape: RequestClass, usable: Mask, need: NodeRequirement) -> str:
        """Return a text about nodes with enough free resources that are blocked only by other users' jobs, or
        "".
        """
        timeline, tenant = self._field.timeline, need.tenant
        if timeline.tenants is None or tenant is None:
            return ""
        rows = np.flatnonzero(timeline.enough(need, timeline.free_now) & usable)
        rows = rows[timeline.tenants.barred_now(tenant, rows)]
        if not len(rows):
            return ""
        first = next((row for row in shape.gangs[0].named if row in rows), rows[0])
        name = self._field.cluster.nodes[first].name
        if tenant.alone:
            who, asked = "this job", "--exclusive=user"
            if shape.partition is not None and shape.partition.exclusive_user:
                who, asked = f"partition {shape.partition.name}", "exclusive_user"
            return (
                f"{name} has free resources, but other users' jobs run there,"
                f" and {who} requires nodes without other users ({asked})"
            )
        return (
            f"{name} has free resources, but another user's job there excludes other users"
            " (--exclusive=user, or its partition's exclusive_user)"
        )

    def _column(self, need: NodeRequirement) -> int:
        return self._field.cluster.type_columns.get(need.gpu_type, GPUS)

    def _freest_row(self, shape: RequestClass, need: NodeRequirement) -> int:
        key = (id(shape.masks), self._column(need), bool(need.gpus))
        found = self._freest.get(key)
        if found is None:
            rows = np.flatnonzero(self.usable(shape))
            free = self._field.timeline.free_now[:, rows]
            freest: Ints = np.arange(len(rows))
            for counted in (self._column(need), CPUS, MEM) if need.gpus else (CPUS, MEM):
                freest = freest[free[counted, freest] == free[counted, freest].max()]
            found = self._freest[key] = int(rows[freest[0]])
        return found

    def _free_words(self, row: int, need: NodeRequirement, *, is_named: bool = False) -> str:
        cluster = self._field.cluster
        name = cluster.nodes[row].name
        free = [max(0, count) for count in self._field.timeline.free_now[:, row].tolist()]
        found = f"{name} (--nodelist) has" if is_named else f"best is {name} with"
        if need.gpus and free[self._column(need)] < need.gpus:
            return f"{found} {many(free[self._column(need)], 'GPU')} free"
        if need.exclusive and free[CPUS] < cluster.capacity[CPUS, row]:
            return f"{name} (--nodelist) is not idle" if is_named else "no node is idle"
        if free[CPUS] < need.cpus:
            return f"{found} {many(free[CPUS], 'CPU')} free"
        return f"{found} {free[MEM] / GIB:.0f} GiB free"
