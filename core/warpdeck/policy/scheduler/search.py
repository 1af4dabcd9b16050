"""Searches for resources now or later. A search that has failed once in a pass is not repeated.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from typing import NamedTuple

from warpdeck.policy.placement.request_shape import Placement, RequestClass
from warpdeck.policy.reservations.resource_pool import ResourcePool


class ReservedStart(NamedTuple):
    """A reservation of a start time only, on any nodes."""

    field: ResourcePool
    shape: RequestClass
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
        self._shut_out: dict[int, tuple[tuple[int, int], frozenset[int]]] = {}
        """Cached results of `shut_out`, by request class for all users.

        Each has the state in which it was computed, and the user-specific request classes that other users'
        jobs keep out. The state consists of the number of placements found and the number of user-specific
        request classes.
        """

    @property
    def is_over(self) -> bool:
        """True if the maximum number of placements was tried."""
        return self._tests_left <= 0

    def mark(self) -> dict[int, float]:
        """Return a savepoint for `undo`."""
        return dict(self._too_long)

    def undo(self, mark: dict[int, float]) -> None:
        """Restore a savepoint. Requests that did not fit besides allocations now given back may fit again."""
        self._too_long = mark

    def failed(self, shape: RequestClass) -> tuple[RequestClass, float] | None:
        """Return the request class for which no placement was free now, and the shortest duration for which
        that is so.

        If the variant for all users failed, it is returned instead of the user's own. None if neither failed.
        """
        for each in (shape.of_all, shape):
            if id(each) in self._too_long:
                return each, self._too_long[id(each)]
        return None

    def shut_out(self, field: ResourcePool, of_all: RequestClass) -> frozenset[int]:
        """Return the result of `ResourcePool.shut_out`, recomputed if resources were taken since or if there are
        more of these request classes.
        """
        moment = self._found, len(field.cluster_table.owned(of_all))
        known = self._shut_out.get(id(of_all))
        if known is None or known[0] != moment:
            known = self._shut_out[id(of_all)] = moment, frozenset(field.shut_out(of_all))
        return known[1]

    def spot_now(self, field: ResourcePool, shape: RequestClass, duration_s: float) -> Placement | None:
        """Return a placement from now on for this duration. A failed search also rules out longer
        durations.
        """
        key = id(shape)
        failed = self._too_long.get(key)
        if failed is not None and duration_s >= failed:
            return None
        if self.is_over or not field.may_fit(shape):
            return None
        if shape.tenant is not None:
            if shape.number in self.shut_out(field, shape.of_all):
                self._too_long[key] = duration_s
                return None
            if self.spot_now(field, shape.of_all, duration_s) is None:
                return None
        self._tests_left -= 1
        found = field.find_now(shape, duration_s)
        if found is None:
            self._too_long[key] = duration_s
        elif shape.tenant is not None:
            self._found += 1
        return found

    def spot_later(
        self, field: ResourcePool, shape: RequestClass, duration_s: float
    ) -> tuple[float, Placement] | None:
        """Return the earliest start as (Unix seconds, placement), or None."""
        failed = self._never.get(id(shape))
        if failed is not None and duration_s >= failed:
            return None
        later = field.find_later(shape, duration_s)
        if later is None:
            self._never[id(shape)] = duration_s
        return later

    def promise(self, due: ReservedStart) -> bool:
        """Record the start time. Return False if the resource pool has one already, because two on arbitrary
        nodes cannot both be guaranteed.
        """
        if any(each.field is due.field for each in self._due):
            return False
        self._due.append(due)
        return True

    def keeps_promises(self, field: ResourcePool, spot: Placement, duration_s: float) -> bool:
        """Return whether jobs with only a reserved time can still start by then if this placement is taken
        now.
        """
        end = self._now + duration_s
        due = [each for each in self._due if each.field is field and end > each.at_unix]
        if not due:
            return True
        taken = field.reserve(spot, self._now, duration_s)
        later = [(field.find_later(each.shape, each.duration_s), each.at_unix) for each in due]
        field.release(taken)
        return all(found is not None and found[0] <= at for found, at in later)


def shortened(
    field: ResourcePool, shape: RequestClass, *, least_s: float, limit_s: float
) -> tuple[Placement | None, float | None]:
    """Return (placement, seconds) for the longest time the job can have now, if that is enough for
    --time-min.
    """
    longest = 0.0
    for gang in shape.gangs:
        for mask in shape.masks:
            longest = max(longest, field.timeline.longest_now(gang.wanted, mask))
    given_s = float(int(min(longest, limit_s)))
    if given_s < least_s or given_s <= 0:
        return None, None
    found = field.find_now(shape, given_s)
    return found, None if found is None else given_s
