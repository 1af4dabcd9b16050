"""Searches for resources now or later. A search that failed is not repeated in the same pass.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from typing import NamedTuple

from warpdeck.policy.placement.request_class import Placement, RequestClass
from warpdeck.policy.reservations.resource_pool import ResourcePool


class ReservedStart(NamedTuple):
    """A reservation of a start time only, on any nodes."""

    pool: ResourcePool
    request_class: RequestClass
    duration_s: float
    at_unix: float


class PlacementSearch:
    """The searches of one pass at time `now`. `most_tests` bounds the number of placements tried."""

    def __init__(self, now: float, *, most_tests: int) -> None:
        self._now = now
        self._tests_left = most_tests
        self._too_long: dict[int, float] = {}
        """By request class, the shortest duration for which no placement was free now."""
        self._never: dict[int, float] = {}
        """By request class, the shortest duration for which there was no placement at any time."""
        self._due: list[ReservedStart] = []
        self._found = 0
        """Number of user-specific searches that found a placement."""
        self._excluded_variants: dict[int, tuple[tuple[int, int], frozenset[int]]] = {}
        """Cached results of `excluded_variants`, by base request class.

        An entry holds the state for which it was computed, and the excluded variants. The state is the number
        of placements found and the number of user-specific request classes.
        """

    @property
    def is_over(self) -> bool:
        """True if the maximum number of placements was tried."""
        return self._tests_left <= 0

    def savepoint(self) -> dict[int, float]:
        """Return a savepoint for `rollback`."""
        return dict(self._too_long)

    def rollback(self, savepoint: dict[int, float]) -> None:
        """Restore a savepoint. Requests that failed since then may fit again, because allocations were given
        back.
        """
        self._too_long = savepoint
        self._excluded_variants.clear()

    def failed(self, request_class: RequestClass) -> tuple[RequestClass, float] | None:
        """Return the request class for which no placement was free now, and the shortest duration for which
        the search failed.

        If the variant for all users failed, it is returned instead of the user-specific one. None if neither
        failed.
        """
        for each in (request_class.base, request_class):
            if id(each) in self._too_long:
                return each, self._too_long[id(each)]
        return None

    def excluded_variants(self, pool: ResourcePool, base: RequestClass) -> frozenset[int]:
        """Return `ResourcePool.excluded_variants` for this request class. The result is cached until
        resources are taken or variants are added.
        """
        version = self._found, len(pool.cluster_table.classes.per_user(base))
        known = self._excluded_variants.get(id(base))
        if known is None or known[0] != version:
            known = self._excluded_variants[id(base)] = version, frozenset(pool.excluded_variants(base))
        return known[1]

    def place_now(
        self, pool: ResourcePool, request_class: RequestClass, duration_s: float
    ) -> Placement | None:
        """Return a placement that is free from now on for this duration. A failed search also rules out
        longer durations.
        """
        key = id(request_class)
        failed = self._too_long.get(key)
        if failed is not None and duration_s >= failed:
            return None
        if self.is_over or not pool.may_fit(request_class):
            return None
        if request_class.owner is not None:
            if request_class.number in self.excluded_variants(pool, request_class.base):
                self._too_long[key] = duration_s
                return None
            if self.place_now(pool, request_class.base, duration_s) is None:
                return None
        self._tests_left -= 1
        found = pool.find_now(request_class, duration_s)
        if found is None:
            self._too_long[key] = duration_s
        elif request_class.owner is not None:
            self._found += 1
        return found

    def place_later(
        self, pool: ResourcePool, request_class: RequestClass, duration_s: float
    ) -> tuple[float, Placement] | None:
        """Return the earliest start as (Unix seconds, placement), or None."""
        failed = self._never.get(id(request_class))
        if failed is not None and duration_s >= failed:
            return None
        later = pool.find_later(request_class, duration_s)
        if later is None:
            self._never[id(request_class)] = duration_s
        return later

    def reserve_start(self, due: ReservedStart) -> bool:
        """Reserve a start time on arbitrary nodes. Return False if the resource pool already has a
        reservation of this kind, because two of them cannot both be guaranteed.
        """
        if any(each.pool is due.pool for each in self._due):
            return False
        self._due.append(due)
        return True

    def keeps_reserved_starts(self, pool: ResourcePool, placement: Placement, duration_s: float) -> bool:
        """Return whether jobs with a reserved start on arbitrary nodes can still start by then if this
        placement is taken now.
        """
        end = self._now + duration_s
        due = [each for each in self._due if each.pool is pool and end > each.at_unix]
        if not due:
            return True
        taken = pool.reserve(placement, self._now, duration_s)
        later = [(pool.find_later(each.request_class, each.duration_s), each.at_unix) for each in due]
        pool.release(taken)
        return all(found is not None and found[0] <= at for found, at in later)


def shortened(
    pool: ResourcePool, request_class: RequestClass, *, least_s: float, limit_s: float
) -> tuple[Placement | None, float | None]:
    """Return (placement, seconds) for the longest time that the job can have now; (None, None) if that is
    less than --time-min.
    """
    longest = 0.0
    for gang in request_class.gangs:
        for mask in request_class.masks:
            longest = max(longest, pool.timeline.longest_now(gang.requirements, mask))
    granted_s = float(int(min(longest, limit_s)))
    if granted_s < least_s or granted_s <= 0:
        return None, None
    found = pool.find_now(request_class, granted_s)
    return found, None if found is None else granted_s
