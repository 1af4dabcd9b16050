"""What the jobs of each kind meet where nothing that they could use is free: known from their request alone. Pure.

On a full cluster that is the answer for most kinds, so it is kept from pass to pass and given without asking them one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from warpdeck.policy.input.view import PendingJob
from warpdeck.policy.placement.block_reason import Obstacle
from warpdeck.policy.placement.request_shape import Shape
from warpdeck.policy.resources.cluster import Floats, Ints, Mask

ASK, NEVER = -1, -2
"""In place of a shape: the kind is to be asked in each pass; it cannot start whatever is free."""


class Misfits:
    """By kind. Holds as long as queue, shapes and partitions are the same."""

    def __init__(self) -> None:
        self.obstacles: list[Obstacle | None] = []
        self._shape: Ints = np.zeros(0, dtype=np.int64)
        self._of_all: Ints = np.zeros(0, dtype=np.int64)
        """Shape.of_all of it."""
        self._least_s: Floats = np.zeros(0)
        """How long it must be able to run; 0 where that may become less."""

    def follow(self, kinds: Sequence[PendingJob], find: Callable[[PendingJob], Obstacle | None]) -> None:
        """These are the kinds now, more than before or as many; `find` tells what one meets."""
        new = [find(job) for job in kinds[len(self.obstacles) :]]
        if new:
            self.obstacles += new
            self._shape = np.concatenate((self._shape, np.array([_shape(each) for each in new])))
            of_all = [_shape(each, of_all=True) for each in new]
            self._of_all = np.concatenate((self._of_all, np.array(of_all)))
            least = [_least_s(*pair) for pair in zip(kinds[-len(new) :], new, strict=True)]
            self._least_s = np.concatenate((self._least_s, np.array(least)))

    def certain(self, may_fit: Mask) -> Mask:
        """Which kinds meet theirs now. `may_fit` by shape number."""
        fits = np.concatenate((may_fit, (False, True)))  # the last two are NEVER and ASK
        met: Mask = ~fits[self._shape]
        return met

    def for_how_long(self, kinds: Mask) -> tuple[Ints, Ints, Floats]:
        """Those of these kinds that have a shape, its number, and how long they must be able to run."""
        found = np.flatnonzero(kinds & (self._shape >= 0))
        return found, self._shape[found], self._least_s[found]

    def as_hard_as(self, shape: Shape, duration_s: float) -> Mask:
        """The kinds of this shape, whosever they are if it is of all, that must run for so long or longer."""
        shapes = self._of_all if shape.of_all is shape else self._shape
        found: Mask = (shapes == shape.number) & (self._least_s >= duration_s)
        return found

    def of_shapes(self, numbers: Sequence[int]) -> Mask:
        """The kinds of these shapes, however long they must run."""
        return np.isin(self._shape, numbers)


def _least_s(job: PendingJob, obstacle: Obstacle | None) -> float:
    return 0.0 if obstacle is None or job.time_min_s is not None else obstacle.duration_s


def _shape(obstacle: Obstacle | None, *, of_all: bool = False) -> int:
    if obstacle is None:
        return ASK
    if obstacle.shape is None:
        return NEVER
    return (obstacle.shape.of_all if of_all else obstacle.shape).number
