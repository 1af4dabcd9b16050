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
from warpdeck.policy.placement.request_shape import Placement, RequestClass
from warpdeck.policy.reservations.resource_pool import ResourcePool, planned_s
from warpdeck.policy.resources.demand import Owner

from .pass_context import PassContext
from .search import PlacementSearch, shortened


class StartPlacement(msgspec.Struct, frozen=True, kw_only=True):
    """A position at which a job can start now: pool, allocation and duration."""

    field: ResourcePool
    allocation: Allocation
    limit_s: int | None
    duration_s: float
    tenant: Owner | None
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
        """Return how many tasks of the job's array run, including those just started."""
        return self._tasks_before[job.array_job_id] + self._started[job.array_job_id]

    @cached_property
    def _tasks_before(self) -> Counter[JobId]:
        return Counter(job.array_job_id for job in self._context.view.running)

    def start(self, job: PendingJob, task: int | None = None) -> BlockReason | None:
        """Start one task in the first partition in which it can start. Return the block reason if there is
        none.
        """
        obstacles = []
        for partition in self._context.terms.partitions(job):
            obstacle = self._start_in(job, task, partition)
            if obstacle is None:
                return None
            obstacles.append(obstacle)
        return next((each for each in obstacles if each.shape is not None), obstacles[0])

    def start_all(self, jobs: Sequence[PendingJob]) -> tuple[PendingJob, BlockReason] | None:
        """Start all of the jobs or none. If it is none, return the job that could not start and its block
        reason.
        """
        undo_log = self._undo_log = []
        before, looked = self._context.ledger.mark(), self._search.mark()
        try:
            for job in jobs:
                obstacle = self.start(job)
                if obstacle is not None:
                    break
            else:
                return None
        finally:
            self._undo_log = None
        for place, start in reversed(undo_log):
            place.field.give_back(place.allocation, place.duration_s, place.tenant)
            self.starts.remove(start)
        self._context.ledger.undo(before)
        self._search.undo(looked)
        return job, obstacle

    def _start_in(
        self, job: PendingJob, task: int | None, partition: PartitionView | None
    ) -> BlockReason | None:
        job = in_partition(job, partition)
        place = self.place(job, partition)
        if isinstance(place, BlockReason):
            return place
        place.field.start(place.allocation, place.duration_s, place.tenant)
        self._context.ledger.take(job, self._context.ledger.tres_of(job, place.allocation), place.limit_s)
        self._started[job.array_job_id] += 1
        start = Start(
            job_id=job.id,
            task=task,
            allocation=place.allocation,
            time_limit_s=place.limit_s,
            partition="" if partition is None else partition.name,
            reservation=place.reservation,
        )
        self.starts.append(start)
        if self._undo_log is not None:
            self._undo_log.append((place, start))
        return None

    def place(self, job: PendingJob, partition: PartitionView | None) -> StartPlacement | BlockReason:
        """Return where the job could start now in this partition, or its block reason. Nothing is taken
        yet.
        """
        for drawn in self._context.terms.drawn_as(job):
            found = self._place_in(drawn, partition)
            if isinstance(found, StartPlacement):
                return found
        return self._place_in(job, partition)

    def _place_in(self, job: PendingJob, partition: PartitionView | None) -> StartPlacement | BlockReason:
        """Return the same for the job's own reservation, or for the general pool if it has none."""
        limit_s = self._context.terms.limit_s(job, partition)
        barred = self._context.terms.bars(job, partition, limit_s)
        if barred is not None:
            return barred
        field = self._context.fields[job.reservation]
        shape = self._shape(job, field, partition)
        found: StartPlacement | BlockReason | None = None
        for each in shape.each_size():
            found = self._place_as(job, field, each, limit_s)
            if isinstance(found, StartPlacement):
                return found
        return found or field.cluster_table.unplaceable(shape, planned_s(limit_s), job.reservation)

    def _place_as(
        self, job: PendingJob, field: ResourcePool, shape: RequestClass, limit_s: int | None
    ) -> StartPlacement | BlockReason | None:
        """Return where the job could start now with this request class.

        None if it does not fit, or if it would take resources that are reserved for other jobs.
        """
        duration_s = planned_s(limit_s)
        room = self._context.freed_for(job, field, shape)
        found = None if room is None else field.find_now(room, duration_s)
        found = found or self._find(field, shape, duration_s)
        given_s = None
        if found is None and job.time_min_s is not None:
            found, given_s = shortened(field, shape, least_s=job.time_min_s, limit_s=duration_s)
        if found is None or not self._search.keeps_promises(field, found, given_s or duration_s):
            return None
        if given_s is not None:
            limit_s, duration_s = int(given_s), given_s
        allocation, ledger = field.allocation(found, duration_s), self._context.ledger
        if ledger.limits_anything:
            # The job may get more than it asked for: whole nodes, more nodes, or a GPU type that is limited.
            held, most = ledger.tres_of(job, allocation), ledger.per_node_of(allocation)
            over = ledger.check(job, held, limit_s, per_node=most)
            if over is not None:
                return BlockReason(over.code, over.sentence)
        return StartPlacement(
            field=field,
            allocation=allocation,
            limit_s=limit_s,
            duration_s=duration_s,
            tenant=shape.tenant,
            reservation=job.reservation,
        )

    def _shape(self, job: PendingJob, field: ResourcePool, partition: PartitionView | None) -> RequestClass:
        """Return the job's request class, restricted to numbers of nodes that the limits per node permit."""
        shape = field.shape(job, partition)
        if len(shape.gangs) < 2 and not shape.fills:
            return shape
        return shape.spread(self._context.ledger.most_per_node(job))

    def _find(self, field: ResourcePool, shape: RequestClass, duration_s: float) -> Placement | None:
        """Return a placement that is free from now on for this duration."""
        found = self._search.spot_now(field, shape, duration_s)
        if found is None and self._search.is_over and self.starts:
            self.stopped = True
        return found
