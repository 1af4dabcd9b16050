"""Cached block reasons of equivalence classes when too little is free. They depend only on the request.

On a full cluster most classes have this block reason. It is kept from pass to pass, so that these jobs need
not be tried one by one.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from warpdeck.policy.input.view import PendingJob
from warpdeck.policy.placement.block_reason import BlockReason
from warpdeck.policy.placement.request_class import RequestClass
from warpdeck.policy.resources.cluster import Floats, Ints, Mask, rows_of

ASK, NEVER = -1, -2
"""Used instead of a request class number. ASK: jobs of the class must be tried in each pass. NEVER: a rule
forbids jobs of the class to start, whatever is free.
"""


class UnplaceableClasses:
    """Block reasons by equivalence class. They are valid as long as queue, request classes and partitions
    stay the same.
    """

    def __init__(self) -> None:
        self.block_reasons: list[BlockReason | None] = []
        self._request_class: Ints = np.zeros(0, dtype=np.int64)
        self._base: Ints = np.zeros(0, dtype=np.int64)
        """The number of `RequestClass.base` of each equivalence class."""
        self._least_s: Floats = np.zeros(0)
        """The time in seconds that jobs of each equivalence class must be able to run; 0 if their limit can
        be reduced.
        """

    def follow(
        self, representatives: Sequence[PendingJob], find: Callable[[PendingJob], BlockReason | None]
    ) -> None:
        """Add new equivalence classes. `representatives` has one job of each class and may only grow. `find`
        returns the block reason of a job.
        """
        new = [find(job) for job in representatives[len(self.block_reasons) :]]
        if new:
            self.block_reasons += new
            self._request_class = np.concatenate(
                (self._request_class, np.array([_request_class(each) for each in new]))
            )
            base = [_request_class(each, base=True) for each in new]
            self._base = np.concatenate((self._base, np.array(base)))
            least = [_least_s(*pair) for pair in zip(representatives[-len(new) :], new, strict=True)]
            self._least_s = np.concatenate((self._least_s, np.array(least)))

    def blocked_now(self, may_fit: Mask) -> Mask:
        """Return a mask of the equivalence classes that cannot start now. `may_fit` is indexed by request
        class number.
        """
        fits = np.concatenate((may_fit, (False, True)))  # The last two entries are those of NEVER and ASK.
        met: Mask = ~fits[self._request_class]
        return met

    def with_durations(self, class_ids: Mask) -> tuple[Ints, Ints, Floats]:
        """Return the given equivalence classes that have a request class, the number of that class, and the
        time that their jobs must be able to run.
        """
        found = rows_of(class_ids & (self._request_class >= 0))
        return found, self._request_class[found], self._least_s[found]

    def at_least_as_hard(self, request_class: RequestClass, duration_s: float) -> Mask:
        """Return a mask of the equivalence classes of this request class that must run for at least this
        duration.

        If the request class applies to all users, classes with its user-specific variants are included.
        """
        request_classes = self._base if request_class.base is request_class else self._request_class
        found: Mask = (request_classes == request_class.number) & (self._least_s >= duration_s)
        return found

    def of_request_classes(self, numbers: Sequence[int]) -> Mask:
        """Return a mask of the equivalence classes of these request classes, regardless of their duration."""
        return np.isin(self._request_class, numbers)


def _least_s(job: PendingJob, block_reason: BlockReason | None) -> float:
    return 0.0 if block_reason is None or job.time_min_s is not None else block_reason.duration_s


def _request_class(block_reason: BlockReason | None, *, base: bool = False) -> int:
    if block_reason is None:
        return ASK
    if block_reason.request_class is None:
        return NEVER
    return (block_reason.request_class.base if base else block_reason.request_class).number
