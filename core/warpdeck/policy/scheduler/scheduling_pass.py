"""The state of one scheduling pass: decisions made so far, and the reasons why other jobs are blocked.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import msgspec
import numpy as np

from warpdeck.model import Allocation, JobId, iter_tasks
from warpdeck.policy.cache.pass_cache import PassCache
from warpdeck.policy.input.decisions import Preempt, Reserve, Resume, Start
from warpdeck.policy.input.settings import MOST_PROTECTED
from warpdeck.policy.input.site import PartitionView
from warpdeck.policy.input.view import PendingJob, View
from warpdeck.policy.limits.access import in_partition
from warpdeck.policy.limits.limits import LimitUsage
from warpdeck.policy.placement.block_reason import BUSY, BlockReason
from warpdeck.policy.placement.pending_reason import throttled
from warpdeck.policy.placement.request_shape import Placement, RequestClass
from warpdeck.policy.preemption.preemption import PreemptionRules
from warpdeck.policy.reservations.resource_pool import ResourcePool, known, open_fields, planned_s
from warpdeck.policy.resources.cluster import Ints, Mask
from warpdeck.policy.resources.demand import Owner

from .eligibility import Eligibility
from .evictions import Evictions
from .exclusive_nodes import WholeNodes
from .search import PlacementSearch, ReservedStart, shortened


class StartPlacement(msgspec.Struct, frozen=True, kw_only=True):
    """A position at which a job can start now: pool, allocation and duration."""

    field: ResourcePool
    allocation: Allocation
    limit_s: int | None
    duration_s: float
    tenant: Owner | None
    reservation: str = ""


class SchedulingPass:
    """A scheduling pass. It decides job by job; the caller offers jobs in the order of their precedence."""

    def __init__(
        self, memory: PassCache, view: View, now: float, *, without_place: JobId | None = None
    ) -> None:
        """`memory` must already have been updated to the view."""
        settings = memory.settings
        self.view = view
        self.now = now
        self.settings = settings
        self.queue = memory.queue
        self._unplaceable = memory.unplaceable_classes
        self.fields = open_fields(view, now, memory)
        self.ledger = LimitUsage(view, now, settings, memory.uses)
        whole_nodes = WholeNodes(self.fields[""], settings.billing_weights)
        self.terms = Eligibility(memory, view, now, ledger=self.ledger, whole_nodes=whole_nodes)
        self.rules = PreemptionRules(view, now, settings, self.ledger)
        self.starts: list[Start] = []
        self.reserves: list[Reserve] = []
        self.preempts: list[Preempt] = []
        self.resumes: list[Resume] = []
        self.met: dict[int, BlockReason] = {}
        """The block reason that applies to all jobs of an equivalence class, for equivalence classes of which
        a job was tried.
        """
        self._certain: Mask = np.zeros(0, dtype=np.bool_)
        """Mask of the equivalence classes whose jobs need not be tried."""
        self.blocked: dict[JobId, BlockReason] = {}
        """The block reasons of the jobs that were tried one by one."""
        self.promised: dict[JobId, float] = {}
        """The start times that are reserved for blocked jobs."""
        self.partly: dict[JobId, tuple[str, str]] = {}
        """Arrays of which some tasks started, with the reason of the remaining tasks."""
        self.stopped = False
        self.evictions = Evictions(
            view=view,
            now=now,
            fields=self.fields,
            terms=self.terms,
            rules=self.rules,
            ledger=self.ledger,
            billing_weights=settings.billing_weights,
            preempts=self.preempts,
            promise=self.promise,
        )
        self._protected: Counter[int] = Counter()
        """Number of blocked jobs with a reservation, by pool."""
        self._most_protected = settings.most_protected()
        self._search = PlacementSearch(now, most_tests=settings.max_backfill_tests)
        self._without_place = without_place
        self._undo_log: list[tuple[StartPlacement, Start]] | None = None
        """The starts since `start_all` began, so that it can undo them."""
        self._started: Counter[JobId] = Counter()

    def protect(self, count: int) -> None:
        """Protect at least this many blocked jobs of each pool with reservations, if the policy protects
        any.
        """
        if self.settings.backfill == "easy" and self._most_protected:
            self._most_protected = max(self._most_protected, count)

    def is_protecting_enough(self, pool: int) -> bool:
        """Return whether as many blocked jobs of the pool have a reservation as the policy wants."""
        return self._protected[pool] >= self._most_protected

    @property
    def is_over(self) -> bool:
        """True if no further job is tried in this pass."""
        return self.stopped and len(self.starts) >= self.settings.max_starts

    def skip_unplaceable(self) -> Mask:
        """Return a mask of the equivalence classes for which too little is free, so that their jobs need not
        be tried.

        The test covers only resources. `blocked_by` checks for rules that forbid a class to start when a reason
        is needed.
        """
        self._unplaceable.follow(self.queue.kinds, self._why_unplaceable)
        certain = self._unplaceable.certain(self.fields[""].may_fit_now())
        kinds, shapes, least_s = self._unplaceable.for_how_long(~certain)
        if len(kinds):
            certain[kinds] = ~self.fields[""].may_fit_for(shapes, least_s)
        for kind in np.flatnonzero(certain).tolist() if self.rules.active else ():
            job = self.queue.kinds[kind]
            if any(map(self.evictions.may_preempt, (job, *job.components))):
                certain[kind] = False
        self._certain = certain
        return certain

    def meet_the_same(self, kind: int) -> Mask | None:
        """Mark equivalence classes that are at least as hard to place as this one, which did not fit, and
        return their mask.

        None if no conclusion is possible.
        """
        obstacle = self.met[kind]
        if obstacle.shape is None or obstacle.reservation or self.rules.active:
            return None
        if obstacle.shape.is_spread or self.terms.draws:
            return None  # Other jobs of the equivalence class may fit on fewer nodes, or in a reservation.
        failed = self._search.failed(obstacle.shape)
        if failed is None:
            return None
        same = self._unplaceable.as_hard_as(*failed)
        if failed[0] is not failed[0].of_all:
            shut_out = self._search.shut_out(self.fields[""], failed[0].of_all)
            if failed[0].number in shut_out:
                same |= self._unplaceable.of_shapes(sorted(shut_out))
        self._certain |= same
        return same

    def _why_unplaceable(self, job: PendingJob) -> BlockReason | None:
        """Return the block reason for jobs of this equivalence class when no resources are free.

        None if it depends on more than their request.
        """
        partitions = self.terms.partitions(job)
        if job.reservation or job.deadline_unix or len(partitions) != 1 or self.terms.drawn_as(job):
            return None
        limit_s = self.terms.limit_s(job, partitions[0])
        barred = self.terms.partition_bars(job, partitions[0], limit_s)
        if barred is not None:
            return barred
        shape = self.fields[""].shape(job, partitions[0])
        return self.fields[""].cluster_table.unplaceable(shape, planned_s(limit_s), "")

    def blocked_by(self, kind: int) -> BlockReason | None:
        """Return the block reason for jobs of an equivalence class that were not tried one by one.

        A rule that forbids them to start takes precedence over missing resources.
        """
        found = self.met.get(kind)
        if found is None and kind < len(self._certain) and self._certain[kind]:
            found = self._unplaceable.obstacles[kind]
            assert found is not None
            job = self.queue.kinds[kind]
            if found.shape is not None and (job.licenses or self.ledger.limits_anything):
                partition = self.terms.partitions(job)[0]
                job = in_partition(job, partition)
                found = self.terms.limit_bars(job, self.terms.limit_s(job, partition)) or found
            self.met[kind] = found
        return found

    def who_waits(self, rows: Ints) -> Mask:
        """Return the mask of the offered jobs that did not start completely and do more than wait for their
        array's throttle.
        """
        done = {*self.partly, *(start.job_id for start in self.starts)} - self.blocked.keys()
        return ~np.isin(self.queue.table["id"][rows], list(done))

    def is_settled(self, kind: int) -> bool:
        """Return whether all other jobs of the equivalence class have the same block reason, at any position,
        and cannot preempt.
        """
        obstacle = self.met.get(kind)
        return obstacle is not None and obstacle.shape is None

    def may_preempt(self, kind: int) -> bool:
        """Return whether other jobs of the equivalence class may find jobs to preempt."""
        obstacle, job = self.met.get(kind), self.queue.kinds[kind]
        if obstacle is None or obstacle.shape is None:
            return False
        return self.evictions.may_preempt(in_partition(job, obstacle.shape.partition))

    def try_job(self, job: PendingJob, kind: int) -> None:
        """Start the job, or as many of its tasks as can start. The rest is marked as blocked."""
        if not job.tasks:
            obstacle = self.blocked_by(kind) or self._start(job, kind, None)
            if obstacle is not None:
                self._block(job, kind, obstacle)
            return
        for task in iter_tasks(job.tasks):
            if job.throttle and self._tasks(job) >= job.throttle:
                reason = throttled(job)
                self.partly[job.id] = (reason.code, reason.sentence)
                return
            obstacle = self.blocked_by(kind) or self._start(job, kind, task)
            if obstacle is not None:
                self._block(job, kind, obstacle)
                return
        self.partly[job.id] = ("None", "starting")

    def _tasks(self, job: PendingJob) -> int:
        """Return how many tasks of the job's array run, including those just started."""
        return self._running_tasks[job.array_job_id] + self._started[job.array_job_id]

    @cached_property
    def _running_tasks(self) -> Counter[JobId]:
        return Counter(job.array_job_id for job in self.view.running)

    def _start(self, job: PendingJob, kind: int, task: int | None) -> BlockReason | None:
        """Start one task, or return and record the block reason."""
        if len(self.starts) >= self.settings.max_starts:
            self.stopped = True
            return BUSY
        found = self.start(job, task)
        if found is not None:
            self.met[kind] = found
        return found

    def start(self, job: PendingJob, task: int | None = None) -> BlockReason | None:
        """Start one task in the first partition in which it can start. Return the block reason if there is
        none.
        """
        obstacles = []
        for partition in self.terms.partitions(job):
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
        before, looked = self.ledger.mark(), self._search.mark()
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
        self.ledger.undo(before)
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
        self.ledger.take(job, self.ledger.tres_of(job, place.allocation), place.limit_s)
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
        for drawn in self.terms.drawn_as(job):
            found = self._place_in(drawn, partition)
            if isinstance(found, StartPlacement):
                return found
        return self._place_in(job, partition)

    def _place_in(self, job: PendingJob, partition: PartitionView | None) -> StartPlacement | BlockReason:
        """Return the same for the job's own reservation, or for the general pool if it has none."""
        limit_s = self.terms.limit_s(job, partition)
        barred = self.terms.bars(job, partition, limit_s)
        if barred is not None:
            return barred
        field = self.fields[job.reservation]
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
        room = self._room(job, field, shape)
        found = None if room is None else field.find_now(room, duration_s)
        found = found or self._find(field, shape, duration_s)
        given_s = None
        if found is None and job.time_min_s is not None:
            found, given_s = shortened(field, shape, least_s=job.time_min_s, limit_s=duration_s)
        if found is None or not self._search.keeps_promises(field, found, given_s or duration_s):
            return None
        if given_s is not None:
            limit_s, duration_s = int(given_s), given_s
        allocation = field.allocation(found, duration_s)
        if self.ledger.limits_anything:
            # The job may get more than it asked for: whole nodes, more nodes, or a GPU type that is limited.
            held, most = self.ledger.tres_of(job, allocation), self.ledger.per_node_of(allocation)
            over = self.ledger.check(job, held, limit_s, per_node=most)
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
        return shape.spread(self.ledger.most_per_node(job))

    def _find(self, field: ResourcePool, shape: RequestClass, duration_s: float) -> Placement | None:
        """Return a placement that is free from now on for this duration."""
        found = self._search.spot_now(field, shape, duration_s)
        if found is None and self._search.is_over and self.starts:
            self.stopped = True
        return found

    def _block(self, job: PendingJob, kind: int, obstacle: BlockReason) -> None:
        """Record that the job is blocked. Reserve resources or preempt other jobs for it if it is entitled to
        that.
        """
        self.blocked[job.id] = obstacle
        if obstacle.shape is None or job.id == self._without_place:
            return
        field = self.fields[obstacle.reservation]
        job = in_partition(job, obstacle.shape.partition)
        pool = int(self.queue.of_kind["pool"][kind])
        protects = self.may_protect(pool)
        preempts_others = self.evictions.may_preempt(job)
        if protects or preempts_others:
            secured = self._secure(
                job, obstacle, field, obstacle.shape, protects=protects, preempts_others=preempts_others
            )
            self._protected[pool] += secured

    def is_tried(self, job: PendingJob) -> bool:
        """Return whether this is the job whose changes are being tried out, so that nothing is reserved for
        it.
        """
        return job.id == self._without_place

    def may_protect(self, pool: int) -> bool:
        """Return whether another blocked job of the pool gets a reservation."""
        return not self.is_protecting_enough(pool) and len(self.promised) < MOST_PROTECTED

    def count_protected(self, pool: int) -> None:
        """Count one more job of the pool that has a reservation."""
        self._protected[pool] += 1

    def protect_all(
        self,
        jobs: Sequence[PendingJob],
        spots: Sequence[tuple[ResourcePool, Placement]],
        *,
        at_unix: float,
        pool: int,
    ) -> None:
        """Record that these jobs wait for `at_unix` and for these placements, which are already reserved."""
        self.count_protected(pool)
        for job, (field, spot) in zip(jobs, spots, strict=True):
            self.promise(job, field, spot, at_unix)

    def _secure(
        self,
        job: PendingJob,
        obstacle: BlockReason,
        field: ResourcePool,
        shape: RequestClass,
        *,
        protects: bool,
        preempts_others: bool,
    ) -> bool:
        """Reserve the earliest interval for a blocked job, or preempt other jobs for it.

        Returns whether the job now has resources reserved.
        """
        later = self._search.spot_later(field, shape, obstacle.duration_s)
        room, patience = self._room(job, field, shape), self.now + self.patience_s
        if room is not None and (there := field.find_later(room, obstacle.duration_s)) is not None:
            later = there if there[0] <= patience else later
        soon = later is not None and later[0] <= patience
        if preempts_others and (soon or self.evictions.make_room(job, obstacle, field, shape)):
            # The job starts soon. Its resources are counted already, so that no other job is preempted in
            # vain.
            self.ledger.take(job, self.terms.tres(job), self.terms.limit_s(job, shape.partition))
            if not soon:
                return True
        if later is None or not (protects or soon):
            return False
        if self.settings.reservation_holds == "start":
            if not self._search.promise(ReservedStart(field, shape, obstacle.duration_s, later[0])):
                return False
        else:
            field.reserve(later[1], later[0], obstacle.duration_s)
        self.promise(job, field, later[1], later[0])
        return True

    def _room(self, job: PendingJob, field: ResourcePool, shape: RequestClass) -> RequestClass | None:
        """Return the request class restricted to the nodes on which jobs were just preempted for this job;
        None if there are none.
        """
        if job.room is None or not self.has_room(job):
            return None
        return shape.within(field.cluster.named(frozenset(job.room.nodes)))

    def has_room(self, job: PendingJob) -> bool:
        """Return whether other jobs were just preempted for this job."""
        return job.room is not None and self.now < job.room.until_unix

    @cached_property
    def patience_s(self) -> float:
        """Seconds in which the jobs that are being preempted will have left.

        A job that starts within this time without preemption does not preempt any job.
        """
        return max((self.rules.grace_s(job) for job in self.view.running if job.ending), default=0.0) + 1.0

    def promise(self, job: PendingJob, field: ResourcePool, spot: Placement, at_unix: float) -> None:
        """Record that the job waits and has this placement reserved from `at_unix` on."""
        self.promised[job.id] = at_unix
        if known(at_unix, self.now):
            self.reserves.append(Reserve(job_id=job.id, at_unix=at_unix, nodes=field.names(spot)))
