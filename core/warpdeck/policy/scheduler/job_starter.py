"""Starts jobs in a pass: finds a placement that no rule forbids, and takes its resources.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import msgspec

from warpdeck.model import Allocation, JobId
from warpdeck.policy.input.decisions import Start
from warpdeck.policy.input.site import PartitionView
from warpdeck.policy.input.view import PendingJob
from warpdeck.policy.limits.access import in_partition
from warpdeck.policy.placement.block_reason import BlockReason
from warpdeck.policy.placement.request_class import Placement, RequestClass
from warpdeck.policy.reservations.resource_pool import ResourcePool, planned_s
from warpdeck.policy.resources.demand import Owner

from .pass_context import PassContext
from .search import PlacementSearch, shortened


class StartPlacement(msgspec.Struct, frozen=True, kw_only=True):
    """A placement with which a job can start now: pool, allocation and duration."""

    pool: ResourcePool
    allocation: Allocation
    limit_s: int | None
    duration_s: float
    owner: Owner | None
    reservation: str = ""


class JobStarter:
    """The starts of one pass."""

    def __init__(self, context: PassContext, search: PlacementSearch) -> None:
        self._context = context
        self._search = search
        self.starts: list[Start] = []
        self.stopped = False
        """True if the pass ended before all jobs were tried."""
        self._started: Counter[JobId] = Counter()
        """Number of tasks started in this pass, by array."""
        self._undo_log: list[tuple[StartPlacement, Start]] | None = None
        """The starts since `start_all` began, so that it can undo them."""

    @property
    def is_full(self) -> bool:
        """True if the pass may start no more jobs."""
        return len(self.starts) >= self._context.settings.max_starts

    def running_tasks(self, job: PendingJob) -> int:
        """Return the number of running tasks of the job's array, including tasks started in this pass."""
        return self._tasks_before[job.array_job_id] + self._started[job.array_job_id]

    @cached_property
    def _tasks_before(self) -> Counter[JobId]:
        return Counter(job.array_job_id for job in self._context.view.running)

    def start(self, job: PendingJob, task: int | None = None) -> BlockReason | None:
        """Start one task in the first partition in which it can start. If there is none, return the block
        reason.
        """
        block_reasons = []
        for partition in self._context.eligibility.partitions(job):
            block_reason = self._start_in(job, task, partition)
            if block_reason is None:
                return None
            block_reasons.append(block_reason)
        return next((each for each in block_reasons if each.request_class is not None), block_reasons[0])

    def start_all(self, jobs: Sequence[PendingJob]) -> tuple[PendingJob, BlockReason] | None:
        """Start all of the jobs or none. If it is none, return the job that could not start and its block
        reason.
        """
        undo_log = self._undo_log = []
        before, looked = self._context.limit_usage.savepoint(), self._search.savepoint()
        try:
            for job in jobs:
                block_reason = self.start(job)
                if block_reason is not None:
                    break
            else:
                return None
        finally:
            self._undo_log = None
        for start_placement, start in reversed(undo_log):
            start_placement.pool.give_back(
                start_placement.allocation, start_placement.duration_s, start_placement.owner
            )
            self.starts.remove(start)
        self._context.limit_usage.rollback(before)
        self._search.rollback(looked)
        return job, block_reason

    def _start_in(
        self, job: PendingJob, task: int | None, partition: PartitionView | None
    ) -> BlockReason | None:
        job = in_partition(job, partition)
        start_placement = self.find(job, partition)
        if isinstance(start_placement, BlockReason):
            return start_placement
        start_placement.pool.start(
            start_placement.allocation, start_placement.duration_s, start_placement.owner
        )
        self._context.limit_usage.take(
            job, self._context.limit_usage.tres_of(job, start_placement.allocation), start_placement.limit_s
        )
        self._started[job.array_job_id] += 1
        start = Start(
            job_id=job.id,
            task=task,
            allocation=start_placement.allocation,
            time_limit_s=start_placement.limit_s,
            partition="" if partition is None else partition.name,
            reservation=start_placement.reservation,
        )
        self.starts.append(start)
        if self._undo_log is not None:
            self._undo_log.append((start_placement, start))
        return None

    def find(self, job: PendingJob, partition: PartitionView | None) -> StartPlacement | BlockReason:
        """Return the placement with which the job could start now in this partition, or its block reason.
        Nothing is taken yet.
        """
        for drawn in self._context.eligibility.magnetic_variants(job):
            found = self._place_in(drawn, partition)
            if isinstance(found, StartPlacement):
                return found
        return self._place_in(job, partition)

    def _place_in(self, job: PendingJob, partition: PartitionView | None) -> StartPlacement | BlockReason:
        """Return a start placement in the job's own reservation, or in the general pool if it has none; else
        the block reason.
        """
        limit_s = self._context.eligibility.limit_s(job, partition)
        rule = self._context.eligibility.blocking_rule(job, partition, limit_s)
        if rule is not None:
            return rule
        pool = self._context.pools[job.reservation]
        request_class = self._request_class(job, pool, partition)
        found: StartPlacement | BlockReason | None = None
        for each in request_class.each_size():
            found = self._place_as(job, pool, each, limit_s)
            if isinstance(found, StartPlacement):
                return found
        return found or pool.cluster_table.classes.unplaceable(
            request_class, planned_s(limit_s), job.reservation
        )

    def _place_as(
        self, job: PendingJob, pool: ResourcePool, request_class: RequestClass, limit_s: int | None
    ) -> StartPlacement | BlockReason | None:
        """Return the placement with which the job could start now as this request class, or the limit that it
        would exceed.

        None if the job does not fit, or if it would take resources that are reserved for other jobs.
        """
        duration_s = planned_s(limit_s)
        freed = self._context.freed_for(job, pool, request_class)
        found = None if freed is None else pool.find_now(freed, duration_s)
        found = found or self._find(pool, request_class, duration_s)
        granted_s = None
        if found is None and job.time_min_s is not None:
            found, granted_s = shortened(pool, request_class, least_s=job.time_min_s, limit_s=duration_s)
        if found is None or not self._search.keeps_reserved_starts(pool, found, granted_s or duration_s):
            return None
        if granted_s is not None:
            limit_s, duration_s = int(granted_s), granted_s
        allocation, limit_usage = pool.allocation(found, duration_s), self._context.limit_usage
        if limit_usage.limits_anything:
            # The job may get more than it asked for: whole nodes, more nodes, or a GPU type that is limited.
            held, most = limit_usage.tres_of(job, allocation), limit_usage.per_node_of(allocation)
            over = limit_usage.check(job, held, limit_s, per_node=most)
            if over is not None:
                return BlockReason(over.code, over.sentence)
        return StartPlacement(
            pool=pool,
            allocation=allocation,
            limit_s=limit_s,
            duration_s=duration_s,
            owner=request_class.owner,
            reservation=job.reservation,
        )

    def _request_class(
        self, job: PendingJob, pool: ResourcePool, partition: PartitionView | None
    ) -> RequestClass:
        """Return the job's request class, restricted to numbers of nodes that the limits per node permit."""
        request_class = pool.request_class(job, partition)
        if len(request_class.gangs) < 2 and not request_class.fills:
            return request_class
        return request_class.spread(self._context.limit_usage.most_per_node(job))

    def _find(self, pool: ResourcePool, request_class: RequestClass, duration_s: float) -> Placement | None:
        """Return a placement that is free from now on for this duration."""
        found = self._search.place_now(pool, request_class, duration_s)
        if found is None and self._search.is_over and self.starts:
            self.stopped = True
        return found
