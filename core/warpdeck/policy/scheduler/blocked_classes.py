"""Block reasons that all jobs of an equivalence class share, so that most jobs are never tried.

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
    """The block reasons of one pass, by equivalence class. `unplaceable` is kept from pass to pass."""

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
        self.met: dict[int, BlockReason] = {}
        """The block reason of each equivalence class of which a job was tried."""
        self._certain: Mask = np.zeros(0, dtype=np.bool_)
        """Mask of the equivalence classes whose jobs need not be tried."""

    def skip_unplaceable(self) -> Mask:
        """Return a mask of the equivalence classes for which too little is free, so that their jobs need not
        be tried.

        The test covers only resources. `blocked_by` checks for rules that forbid a class to start when a reason
        is needed.
        """
        queue, field = self._context.queue, self._context.fields[""]
        self._unplaceable.follow(queue.kinds, self._why_unplaceable)
        certain = self._unplaceable.certain(field.may_fit_now())
        kinds, shapes, least_s = self._unplaceable.for_how_long(~certain)
        if len(kinds):
            certain[kinds] = ~field.may_fit_for(shapes, least_s)
        for kind in np.flatnonzero(certain).tolist() if self._context.rules.active else ():
            job = queue.kinds[kind]
            if any(map(self._evictions.may_preempt, (job, *job.components))):
                certain[kind] = False
        self._certain = certain
        return certain

    def meet_the_same(self, kind: int) -> Mask | None:
        """Mark equivalence classes that are at least as hard to place as this one, which did not fit, and
        return their mask.

        None if no conclusion is possible.
        """
        obstacle = self.met[kind]
        if obstacle.shape is None or obstacle.reservation or self._context.rules.active:
            return None
        if obstacle.shape.is_spread or self._context.terms.draws:
            return None  # Other jobs of the equivalence class may fit on fewer nodes, or in a reservation.
        failed = self._search.failed(obstacle.shape)
        if failed is None:
            return None
        same = self._unplaceable.as_hard_as(*failed)
        if failed[0] is not failed[0].of_all:
            shut_out = self._search.shut_out(self._context.fields[""], failed[0].of_all)
            if failed[0].number in shut_out:
                same |= self._unplaceable.of_shapes(sorted(shut_out))
        self._certain |= same
        return same

    def _why_unplaceable(self, job: PendingJob) -> BlockReason | None:
        """Return the block reason for jobs of this equivalence class when no resources are free.

        None if it depends on more than their request.
        """
        terms, field = self._context.terms, self._context.fields[""]
        partitions = terms.partitions(job)
        if job.reservation or job.deadline_unix or len(partitions) != 1 or terms.drawn_as(job):
            return None
        limit_s = terms.limit_s(job, partitions[0])
        barred = terms.partition_bars(job, partitions[0], limit_s)
        if barred is not None:
            return barred
        return field.cluster_table.unplaceable(field.shape(job, partitions[0]), planned_s(limit_s), "")

    def blocked_by(self, kind: int) -> BlockReason | None:
        """Return the block reason for jobs of an equivalence class that were not tried one by one.

        A rule that forbids them to start takes precedence over missing resources.
        """
        found = self.met.get(kind)
        if found is None and kind < len(self._certain) and self._certain[kind]:
            found = self._unplaceable.obstacles[kind]
            assert found is not None
            job = self._context.queue.kinds[kind]
            if found.shape is not None and (job.licenses or self._context.ledger.limits_anything):
                terms = self._context.terms
                partition = terms.partitions(job)[0]
                job = in_partition(job, partition)
                found = terms.limit_bars(job, terms.limit_s(job, partition)) or found
            self.met[kind] = found
        return found

    def is_settled(self, kind: int) -> bool:
        """Return whether all other jobs of the equivalence class have the same block reason, at any position,
        and cannot preempt.
        """
        obstacle = self.met.get(kind)
        return obstacle is not None and obstacle.shape is None

    def may_preempt(self, kind: int) -> bool:
        """Return whether other jobs of the equivalence class may find jobs to preempt."""
        obstacle, job = self.met.get(kind), self._context.queue.kinds[kind]
        if obstacle is None or obstacle.shape is None:
            return False
        return self._evictions.may_preempt(in_partition(job, obstacle.shape.partition))
