"""Where a request fits, now or later: what has failed once in a pass is not looked for again. Pure."""

from __future__ import annotations

from typing import NamedTuple

from warpdeck.policy.placement.request_shape import Shape, Spot
from warpdeck.policy.reservations.resource_pool import Field


class Due(NamedTuple):
    """A start that holds a time only, on any nodes."""

    field: Field
    shape: Shape
    duration_s: float
    at_unix: float


class Search:
    """Of one pass, at the moment `now`. `most_tests`: how many spots are tried on the nodes until it looks no further."""

    def __init__(self, now: float, *, most_tests: int) -> None:
        self._now = now
        self._tests_left = most_tests
        self._too_long: dict[int, float] = {}
        """By shape the shortest duration for which there was no spot now."""
        self._never: dict[int, float] = {}
        """The same of any time."""
        self._due: list[Due] = []
        self._found = 0
        """How many tenants found a spot."""
        self._shut_out: dict[int, tuple[tuple[int, int], frozenset[int]]] = {}
        """By shape that is whosever it is: how many had found a spot and how many shapes of users there were; whom nodes kept out."""

    @property
    def is_over(self) -> bool:
        """Whether as many spots were tried as may be."""
        return self._tests_left <= 0

    def mark(self) -> dict[int, float]:
        """For `undo`."""
        return dict(self._too_long)

    def undo(self, mark: dict[int, float]) -> None:
        """What did not fit beside those who gave back their places may fit by itself."""
        self._too_long = mark

    def failed(self, shape: Shape) -> tuple[Shape, float] | None:
        """The shape, whosever it is where that was asked, and the shortest duration for which there was no spot now."""
        for each in (shape.of_all, shape):
            if id(each) in self._too_long:
                return each, self._too_long[id(each)]
        return None

    def shut_out(self, field: Field, of_all: Shape) -> frozenset[int]:
        """Field.shut_out, asked anew when somebody took something since, or there are more of these shapes."""
        moment = self._found, len(field.ground.owned(of_all))
        known = self._shut_out.get(id(of_all))
        if known is None or known[0] != moment:
            known = self._shut_out[id(of_all)] = moment, frozenset(field.shut_out(of_all))
        return known[1]

    def spot_now(self, field: Field, shape: Shape, duration_s: float) -> Spot | None:
        """A spot for so long from now; what failed once fails for as long or longer."""
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

    def spot_later(self, field: Field, shape: Shape, duration_s: float) -> tuple[float, Spot] | None:
        """(unix seconds, spot) of the earliest start."""
        failed = self._never.get(id(shape))
        if failed is not None and duration_s >= failed:
            return None
        later = field.find_later(shape, duration_s)
        if later is None:
            self._never[id(shape)] = duration_s
        return later

    def promise(self, due: Due) -> bool:
        """Keeps the time for it. False if there is one in that field already: two on any nodes cannot be kept together."""
        if any(each.field is due.field for each in self._due):
            return False
        self._due.append(due)
        return True

    def keeps_promises(self, field: Field, spot: Spot, duration_s: float) -> bool:
        """Whether those who have only a time reserved can still start by then if this spot is taken now."""
        end = self._now + duration_s
        due = [each for each in self._due if each.field is field and end > each.at_unix]
        if not due:
            return True
        taken = field.reserve(spot, self._now, duration_s)
        later = [(field.find_later(each.shape, each.duration_s), each.at_unix) for each in due]
        field.release(taken)
        return all(found is not None and found[0] <= at for found, at in later)


def shortened(
    field: Field, shape: Shape, *, least_s: float, limit_s: float
) -> tuple[Spot | None, float | None]:
    """(spot, seconds) for as long as it can have now, if that is enough (--time-min)."""
    longest = 0.0
    for gang in shape.gangs:
        for mask in shape.masks:
            longest = max(longest, field.timeline.longest_now(gang.wanted, mask))
    given_s = float(int(min(longest, limit_s)))
    if given_s < least_s or given_s <= 0:
        return None, None
    found = field.find_now(shape, given_s)
    return found, None if found is None else given_s
