"""Cached block reasons of each equivalence class of jobs when no usable resources are free. They depend only
on the request.

On a full cluster this is the result for most classes. So it is kept from pass to pass and used without trying
the jobs one by one.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from warpdeck.policy.input.view import PendingJob
from warpdeck.policy.placement.block_reason import BlockReason
from warpdeck.policy.placement.request_shape import RequestClass
from warpdeck.policy.resources.cluster import Floats, Ints, Mask

ASK, NEVER = -1, -2
"""Used instead of a request class number. ASK: the equivalence class must be tried in each pass. NEVER: it
cannot start, whatever is free.
"""


class UnplaceableClasses:
    """Block reasons by equivalence class. Valid as long as queue, request classes and partitions stay the
    same.
    """

    def __init__(self) -> None:
        self.obstacles: list[BlockReason | None] = []
        self._shape: Ints = np.zeros(0, dtype=np.int64)
        self._of_all: Ints = np.zeros(0, dtype=np.int64)
        """The number of `RequestClass.of_all` of the equivalence class's request class."""
        self._least_s: Floats = np.zeros(0)
        """How long each equivalence class must be able to run, in seconds; 0 if that can be shortened."""

    def follow(self, kinds: Sequence[PendingJob], find: Callable[[PendingJob], BlockReason | None]) -> None:
        """Add new equivalence classes. `kinds` may only grow; `find` returns the block reason of a job."""
        new = [find(job) for job in kinds[len(self.obstacles) :]]
        if new:
            self.obstacles += new
            self._shape = np.concatenate((self._shape, np.array([_shape(each) for each in new])))
            of_all = [_shape(each, of_all=True) for each in new]
            self._of_all = np.concatenate((self._of_all, np.array(of_all)))
            least = [_least_s(*pair) for pair in zip(kinds[-len(new) :], new, strict=True)]
            self._least_s = np.concatenate((self._least_s, np.array(least)))

    def certain(self, may_fit: Mask) -> Mask:
        """Return the equivalence classes that have their block reason now. `may_fit` is indexed by request
        class number.
        """
        fits = np.concatenate((may_fit, (False, True)))  # The last two entries are those of NEVER and ASK.
        met: Mask = ~fits[self._shape]
        return met

    def for_how_long(self, kinds: Mask) -> tuple[Ints, Ints, Floats]:
        """Return those of these equivalence classes that have a request class, with the request class's
        number and the time they must be able to run.
        """
        found = np.flatnonzero(kinds & (self._shape >= 0))
        return found, self._shape[found], self._least_s[found]

    def as_hard_as(self, shape: RequestClass, duration_s: float) -> Mask:
        """Return the equivalence classes of this request class that must run for at least this duration.

        If the request class applies to all users, classes with its user-specific variants are included.
        """
        shapes = self._of_all if shape.of_all is shape else self._shape
        found: Mask = (shapes == shape.number) & (self._least_s >= duration_s)
        return found

    def of_shapes(self, numbers: Sequence[int]) -> Mask:
        """Return the equivalence classes of these request classes, whatever their duration."""
        return np.isin(self._shape, numbers)


def _least_s(job: PendingJob, obstacle: BlockReason | None) -> float:
    return 0.0 if obstacle is None or job.time_min_s is not None else obstacle.duration_s


def _shape(obstacle: BlockReason | None, *, of_all: bool = False) -> int:
    if obstacle is None:
        return ASK
    if obstacle.shape is None:
        return NEVER
    return (obstacle.shape.of_all if of_all else obstacle.shape).number
