"""The two rounds of a pass: the order in which jobs are tried, and the jobs that need not be tried.

In the main pass, jobs are tried in queue order, until as many blocked jobs of each contention group have
reservations as the policy wants. In the backfill pass, the remaining jobs are tried in backfill order. In
both, jobs of one equivalence class share a result, so that most jobs are never tried.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warpdeck.policy.input.view import PendingJob
from warpdeck.policy.resources.cluster import Ints, Mask

from .hetjob import start_components
from .scheduling_pass import SchedulingPass

LOOK = 64
"""Number of positions in the first search for the next job to try. Each further step examines four times as
many.
"""


class Walk:
    """Iterates over positions in order, skipping those of closed equivalence classes."""

    def __init__(self, class_ids: Ints, is_open: Mask, *, always: Mask) -> None:
        """`class_ids` is by position, `is_open` by equivalence class. Positions in `always` are never skipped."""
        self._classes = class_ids
        self._always = always if always.any() else None
        self.is_open = is_open

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Iterate over (position, equivalence class) of the open positions."""
        at = 0
        while (at := self._next(at)) < len(self._classes):
            yield at, int(self._classes[at])
            at += 1

    def _next(self, at: int) -> int:
        size = LOOK
        while at < len(self._classes):
            found = self.is_open[self._classes[at : at + size]]
            if self._always is not None:
                found |= self._always[at : at + size]
            first = int(found.argmax())
            if found[first]:
                return at + first
            at += size
            size *= 4
        return len(self._classes)


def main_pass(current: SchedulingPass, rows: Ints) -> Ints:
    """Offer the jobs of these rows, in order, a start or a reservation. Return the remaining rows."""
    if current.context.rules.quotas:
        return _borrowers_last(current, rows)
    table, jobs = current.context.queue.table.of(rows), current.context.queue.jobs
    groups = current.context.queue.by_class["contention_group"]
    last = np.full(len(current.context.queue.contention_groups), len(rows), dtype=np.int64)
    """By contention group, the position of the last job that was offered a start or a reservation."""
    for group in range(len(last)):
        if current.reserved.is_protecting_enough(group):
            last[group] = -1
    class_ids = table["class"]
    walk = Walk(class_ids, last[groups] >= 0, always=table["is_throttled"])
    for place, class_id in walk:
        group = groups[class_id]
        if place > last[group]:
            continue
        _try(current, jobs[rows[place]], class_id)
        if current.is_over:
            walk.is_open[:] = False
        elif current.reserved.is_protecting_enough(group):
            last[group] = place
            walk.is_open[groups == group] = False
        elif current.classes.is_final(class_id):
            walk.is_open[class_id] = False
    return rows[np.arange(len(rows)) > last[groups[class_ids]]] if len(rows) else rows


def backfill_pass(current: SchedulingPass, rows: Ints) -> None:
    """Start the jobs of these rows, in order, wherever that delays no reservation."""
    table, jobs = current.context.queue.table.of(rows), current.context.queue.jobs
    class_ids = table["class"]
    is_open = np.zeros(len(current.context.queue.representatives), dtype=np.bool_)
    is_open[class_ids] = True
    is_open &= ~current.classes.skip_unplaceable()
    for class_id in current.classes.reasons:
        is_open[class_id] &= current.classes.may_preempt(class_id)
    walk = Walk(class_ids, is_open, always=table["is_throttled"])
    for place, class_id in walk:
        was_known = class_id in current.classes.reasons
        _try(current, jobs[rows[place]], class_id)
        if current.is_over:
            walk.is_open[:] = False
        elif class_id in current.classes.reasons:
            walk.is_open[class_id] = current.classes.may_preempt(class_id)
            same = None if was_known else current.classes.block_harder(class_id)
            if same is not None:
                walk.is_open &= ~same


def _borrowers_last(current: SchedulingPass, rows: Ints) -> Ints:
    """Offer resources to jobs within their account's quota, to guarded jobs, and to jobs with a claim, before
    jobs that would borrow. Return the remaining rows.
    """
    remaining: list[int] = []
    class_ids, jobs = current.context.queue.table["class"].tolist(), current.context.queue.jobs
    groups = current.context.queue.by_class["contention_group"]
    for row in _by_quota(current, rows.tolist()):
        if current.reserved.is_protecting_enough(int(groups[class_ids[row]])):
            remaining.append(row)
        else:
            _try(current, jobs[row], class_ids[row])
    return np.array(remaining, dtype=np.int64)


def _by_quota(current: SchedulingPass, rows: list[int]) -> Iterator[int]:
    borrowing = []
    for row in rows:
        job = current.context.queue.jobs[row]
        is_first = current.context.has_claim(job) or current.reserved.is_guarded(job)
        if is_first or current.context.rules.within_quota(job, current.context.eligibility.tres(job)):
            yield row
        else:
            borrowing.append(row)
    yield from borrowing


def _try(current: SchedulingPass, job: PendingJob, class_id: int) -> None:
    """Offer the free resources to one job, or to all components of a heterogeneous job together."""
    if job.components:
        start_components(current, job, class_id)
    else:
        current.try_job(job, class_id)
