"""Block reasons that all jobs of an equivalence class share. Thanks to them most jobs are never tried.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

import numpy as np

from warpdeck.policy.cache.unplaceable import UnplaceableClasses
from warpdeck.policy.input.view import PendingJob
from warpdeck.policy.limits.access import in_partition
from warpdeck.policy.placement.block_reason import BlockReason
from warpdeck.policy.reservations.resource_pool import planned_s
from warpdeck.policy.resources.cluster import Mask

from .evictions import Evictions
from .pass_context import PassContext
from .search import PlacementSearch


class BlockedClasses:
    """The block reasons of one pass, by equivalence class. `unplaceable` is the cache that is kept from pass
    to pass.
    """

    def __init__(
        self,
        context: PassContext,
        search: PlacementSearch,
        evictions: Evictions,
        unplaceable: UnplaceableClasses,
    ) -> None:
        self._context = context
        self._search = search
        self._evictions = evictions
        self._unplaceable = unplaceable
        self.reasons: dict[int, BlockReason] = {}
        """Known block reasons by equivalence class: the reasons of jobs that were tried, and of classes that
        were skipped after `blocked_by`.
        """
        self._blocked: Mask = np.zeros(0, dtype=np.bool_)
        """Mask of the equivalence classes with jobs that need not be tried."""

    def skip_unplaceable(self) -> Mask:
        """Return a mask of the equivalence classes for which too little is free. Their jobs need not be
        tried.

        The test covers only resources. `blocked_by` checks later whether a rule forbids the start of a class.
        """
        queue, pool = self._context.queue, self._context.pools[""]
        self._unplaceable.follow(queue.representatives, self._unplaceable_reason)
        blocked = self._unplaceable.blocked_now(pool.may_fit_now())
        class_ids, request_classes, least_s = self._unplaceable.with_durations(~blocked)
        if len(class_ids):
            # A complex number holds a class and its duration, because np.unique is much faster for numbers than for pairs.
            kinds, kind_of = np.unique(request_classes + 1j * least_s, return_inverse=True)
            fits = pool.may_fit_for(kinds.real.astype(np.int64), kinds.imag)
            blocked[class_ids] = ~fits[kind_of]
        for class_id in np.flatnonzero(blocked).tolist() if self._context.rules.active else ():
            job = queue.representatives[class_id]
            if any(map(self._evictions.may_preempt, (job, *job.components))):
                blocked[class_id] = False
        self._blocked = blocked
        return blocked

    def block_harder(self, class_id: int) -> Mask | None:
        """Mark the equivalence classes that are at least as hard to place as this one, which did not fit.
        Return their mask.

        None if no conclusion is possible.
        """
        block_reason = self.reasons[class_id]
        if block_reason.request_class is None or block_reason.reservation or self._context.rules.active:
            return None
        if block_reason.request_class.is_spread or self._context.eligibility.has_magnetic:
            return None  # Other jobs of the equivalence class may fit on fewer nodes, or in a reservation.
        failed = self._search.failed(block_reason.request_class)
        if failed is None:
            return None
        same = self._unplaceable.at_least_as_hard(*failed)
        if failed[0] is not failed[0].base:
            excluded_variants = self._search.excluded_variants(self._context.pools[""], failed[0].base)
            if failed[0].number in excluded_variants:
                same |= self._unplaceable.of_request_classes(sorted(excluded_variants))
        self._blocked |= same
        return same

    def _unplaceable_reason(self, job: PendingJob) -> BlockReason | None:
        """Return the block reason for jobs of this equivalence class when no resources are free.

        None if the block reason depends on more than the request.
        """
        eligibility, pool = self._context.eligibility, self._context.pools[""]
        partitions = eligibility.partitions(job)
        if job.reservation or job.deadline_unix or len(partitions) != 1 or eligibility.magnetic_variants(job):
            return None
        limit_s = eligibility.limit_s(job, partitions[0])
        rule = eligibility.partition_rule(job, partitions[0], limit_s)
        if rule is not None:
            return rule
        return pool.cluster_table.classes.unplaceable(
            pool.request_class(job, partitions[0]), planned_s(limit_s), ""
        )

    def blocked_by(self, class_id: int) -> BlockReason | None:
        """Return the block reason for jobs of an equivalence class that were not tried one by one.

        A rule that forbids them to start takes precedence over missing resources.
        """
        found = self.reasons.get(class_id)
        if found is None and class_id < len(self._blocked) and self._blocked[class_id]:
            found = self._unplaceable.block_reasons[class_id]
            assert found is not None
            job = self._context.queue.representatives[class_id]
            if found.request_class is not None and (
                job.licenses or self._context.limit_usage.limits_anything
            ):
                eligibility = self._context.eligibility
                partition = eligibility.partitions(job)[0]
                job = in_partition(job, partition)
                found = eligibility.blocking_limit(job, eligibility.limit_s(job, partition)) or found
            self.reasons[class_id] = found
        return found

    def is_final(self, class_id: int) -> bool:
        """Return whether a rule blocks the class. All other jobs of it then have the same block reason and
        cannot preempt.
        """
        block_reason = self.reasons.get(class_id)
        return block_reason is not None and block_reason.request_class is None

    def may_preempt(self, class_id: int) -> bool:
        """Return whether jobs of a blocked equivalence class might preempt other jobs."""
        block_reason, job = self.reasons.get(class_id), self._context.queue.representatives[class_id]
        if block_reason is None or block_reason.request_class is None:
            return False
        return self._evictions.may_preempt(in_partition(job, block_reason.request_class.partition))
