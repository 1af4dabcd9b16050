"""The blocked jobs of a pass for which resources are reserved, so that backfill does not delay them.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from warpdeck.model import JobId
from warpdeck.policy.cache.waiting_queue import QueueTable
from warpdeck.policy.input.decisions import Reserve
from warpdeck.policy.input.settings import MAX_PROTECTED
from warpdeck.policy.input.view import PendingJob
from warpdeck.policy.placement.request_class import Placement
from warpdeck.policy.reservations.resource_pool import ResourcePool, is_predictable

from .pass_context import PassContext


class ReservedStarts:
    """The reserved starts of one pass, and the number of blocked jobs with a reservation in each contention
    group.

    Nothing is reserved for `trial_job`, because the caller tries changes of this job.
    """

    def __init__(self, context: PassContext, *, trial_job: JobId | None) -> None:
        self._context = context
        self._trial_job = trial_job
        self._most_protected = context.settings.most_protected()
        self._protected: Counter[int] = Counter()
        """Number of blocked jobs with a reservation, by contention group."""
        self._guarded: frozenset[JobId] = frozenset()
        self._most_guarded: Counter[int] = Counter()
        """Number of guarded jobs, by contention group. As many blocked jobs get a reservation at least."""
        self.reserves: list[Reserve] = []
        self.start_unix: dict[JobId, float] = {}
        """The start times that are reserved for blocked jobs."""

    def protect(self, count: int) -> None:
        """Protect at least this many blocked jobs of each contention group with reservations, if the policy
        protects any.
        """
        if self._context.settings.backfill == "easy" and self._most_protected:
            self._most_protected = max(self._most_protected, count)

    def guard(self, table: QueueTable) -> None:
        """Give reservations on particular nodes to these jobs, which have waited longer than the bound."""
        if self._context.settings.backfill == "easy":
            groups = self._context.queue.by_class["contention_group"][table["class"]]
            self._guarded = frozenset(table["id"].tolist())
            self._most_guarded = Counter(groups.tolist())

    def is_guarded(self, job: PendingJob) -> bool:
        """Return whether the job has waited longer than the bound."""
        return job.id in self._guarded

    def is_protecting_enough(self, group: int) -> bool:
        """Return whether as many blocked jobs of the contention group have a reservation as the policy wants."""
        most = max(self._most_protected, self._most_guarded[group]) if self._guarded else self._most_protected
        return self._protected[group] >= most

    def is_trial(self, job: PendingJob) -> bool:
        """Return whether this is the job of a dry run with trial changes. Nothing is reserved for it."""
        return job.id == self._trial_job

    def may_protect(self, group: int) -> bool:
        """Return whether another blocked job of the contention group gets a reservation."""
        return not self.is_protecting_enough(group) and len(self.start_unix) < MAX_PROTECTED

    def count_protected(self, group: int) -> None:
        """Count one more job of the contention group that has a reservation."""
        self._protected[group] += 1

    def protect_all(
        self,
        jobs: Sequence[PendingJob],
        placements: Sequence[tuple[ResourcePool, Placement]],
        *,
        at_unix: float,
        group: int,
    ) -> None:
        """Record that these jobs wait for `at_unix` and for these placements, which are already reserved."""
        self.count_protected(group)
        for job, (pool, placement) in zip(jobs, placements, strict=True):
            self.record(job, pool, placement, at_unix)

    def record(self, job: PendingJob, pool: ResourcePool, placement: Placement, at_unix: float) -> None:
        """Record that the job waits and has this placement reserved from `at_unix` on."""
        self.start_unix[job.id] = at_unix
        if is_predictable(at_unix, self._context.now):
            self.reserves.append(Reserve(job_id=job.id, at_unix=at_unix, nodes=pool.names(placement)))
