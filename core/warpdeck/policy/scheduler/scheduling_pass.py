"""The state of one planning pass: what has been decided, and what is blocked by what. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import msgspec
import numpy as np

from warpdeck.model import Allocation, JobId, iter_tasks
from warpdeck.policy.cache.pass_cache import Memory
from warpdeck.policy.input.decisions import Preempt, Reserve, Resume, Start
from warpdeck.policy.input.settings import MOST_PROTECTED
from warpdeck.policy.input.site import PartitionView
from warpdeck.policy.input.view import PendingJob, View
from warpdeck.policy.limits.access import in_partition
from warpdeck.policy.limits.limits import Ledger
from warpdeck.policy.placement.block_reason import BUSY, Obstacle
from warpdeck.policy.placement.pending_reason import throttled
from warpdeck.policy.placement.request_shape import Shape, Spot
from warpdeck.policy.preemption.preemption import Rules
from warpdeck.policy.reservations.resource_pool import Field, known, open_fields, planned_s
from warpdeck.policy.resources.cluster import Ints, Mask
from warpdeck.policy.resources.demand import Tenant

from .eligibility import Terms
from .evictions import Evictions
from .exclusive_nodes import WholeNodes
from .search import Due, Search, shortened


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a job can start now, and for how long."""

    field: Field
    allocation: Allocation
    limit_s: int | None
    duration_s: float
    tenant: Tenant | None
    reservation: str = ""


class Pass:
    """Decides job by job. Jobs are offered in the order in which they have a right to start."""

    def __init__(self, memory: Memory, view: View, now: float, *, without_place: JobId | None = None) -> None:
        """`memory` has followed the view to this moment."""
        settings = memory.settings
        self.view = view
        self.now = now
        self.settings = settings
        self.queue = memory.queue
        self._misfits = memory.misfits
        self.fields = open_fields(view, now, memory)
        self.ledger = Ledger(view, now, settings, memory.uses)
        whole_nodes = WholeNodes(self.fields[""], settings.billing_weights)
        self.terms = Terms(memory, view, now, ledger=self.ledger, whole_nodes=whole_nodes)
        self.rules = Rules(view, now, settings, self.ledger)
        self.starts: list[Start] = []
        self.reserves: list[Reserve] = []
        self.preempts: list[Preempt] = []
        self.resumes: list[Resume] = []
        self.met: dict[int, Obstacle] = {}
        """By kind what is in the way of all of it, where somebody was asked."""
        self._certain: Mask = np.zeros(0, dtype=np.bool_)
        """Kinds of which nobody need be asked."""
        self.blocked: dict[JobId, Obstacle] = {}
        """Of the jobs that were tried one by one."""
        self.promised: dict[JobId, float] = {}
        """The start that blocked jobs have reserved."""
        self.partly: dict[JobId, tuple[str, str]] = {}
        """Arrays of which tasks started: the reason of the rest."""
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
        """By pool how many of its jobs have a place of their own."""
        self._most_protected = settings.most_protected()
        self._search = Search(now, most_tests=settings.max_backfill_tests)
        self._without_place = without_place
        self._trail: list[tuple[Place, Start]] | None = None
        """What has started since somebody asked for the way back."""
        self._started: Counter[JobId] = Counter()

    def protect(self, count: int) -> None:
        """Protects at least so many blocked jobs of each pool, where the policy protects any."""
        if self.settings.backfill == "easy" and self._most_protected:
            self._most_protected = max(self._most_protected, count)

    def is_protecting_enough(self, pool: int) -> bool:
        """Whether as many blocked jobs of the pool are protected as the policy wants."""
        return self._protected[pool] >= self._most_protected

    @property
    def is_over(self) -> bool:
        """Whether nobody else is tried in this pass."""
        return self.stopped and len(self.starts) >= self.settings.max_starts

    def meet_misfits(self) -> Mask:
        """By kind, whether nothing that it could use is free, so that nobody of it need be asked.

        What forbids a kind to start in any case is not asked for either: `met_by` does, when it is to be told.
        """
        self._misfits.follow(self.queue.kinds, self._misfit)
        certain = self._misfits.certain(self.fields[""].may_fit_now())
        kinds, shapes, least_s = self._misfits.for_how_long(~certain)
        if len(kinds):
            certain[kinds] = ~self.fields[""].may_fit_for(shapes, least_s)
        for kind in np.flatnonzero(certain).tolist() if self.rules.active else ():
            job = self.queue.kinds[kind]
            if any(map(self.evictions.may_push, (job, *job.components))):
                certain[kind] = False
        self._certain = certain
        return certain

    def meet_the_same(self, kind: int) -> Mask | None:
        """Notes of the kinds that are as hard to place as this one, which did not fit, that they do not fit either."""
        obstacle = self.met[kind]
        if obstacle.shape is None or obstacle.reservation or self.rules.active:
            return None
        if obstacle.shape.is_spread or self.terms.draws:
            return None  # others may have it on fewer nodes, or in a reservation
        failed = self._search.failed(obstacle.shape)
        if failed is None:
            return None
        same = self._misfits.as_hard_as(*failed)
        if failed[0] is not failed[0].of_all:
            shut_out = self._search.shut_out(self.fields[""], failed[0].of_all)
            if failed[0].number in shut_out:
                same |= self._misfits.of_shapes(sorted(shut_out))
        self._certain |= same
        return same

    def _misfit(self, job: PendingJob) -> Obstacle | None:
        """What jobs of the kind meet where nothing is free; None if that depends on more than their request."""
        partitions = self.terms.partitions(job)
        if job.reservation or job.deadline_unix or len(partitions) != 1 or self.terms.drawn_as(job):
            return None
        limit_s = self.terms.limit_s(job, partitions[0])
        barred = self.terms.partition_bars(job, partitions[0], limit_s)
        if barred is not None:
            return barred
        shape = self.fields[""].shape(job, partitions[0])
        return self.fields[""].ground.misfit(shape, planned_s(limit_s), "")

    def met_by(self, kind: int) -> Obstacle | None:
        """What the jobs of a kind met that were not tried one by one; what forbids them to start goes before what is missing."""
        found = self.met.get(kind)
        if found is None and kind < len(self._certain) and self._certain[kind]:
            found = self._misfits.obstacles[kind]
            assert found is not None
            job = self.queue.kinds[kind]
            if found.shape is not None and (job.licenses or self.ledger.limits_anything):
                partition = self.terms.partitions(job)[0]
                job = in_partition(job, partition)
                found = self.terms.limit_bars(job, self.terms.limit_s(job, partition)) or found
            self.met[kind] = found
        return found

    def who_waits(self, rows: Ints) -> Mask:
        """Which of the jobs that were offered to the pass did not wholly start, and are not only throttled."""
        done = {*self.partly, *(start.job_id for start in self.starts)} - self.blocked.keys()
        return ~np.isin(self.queue.table["id"][rows], list(done))

    def is_settled(self, kind: int) -> bool:
        """Whether all others of the kind meet the same, whenever their turn comes, and can do nothing about it."""
        obstacle = self.met.get(kind)
        return obstacle is not None and obstacle.shape is None

    def may_push(self, kind: int) -> bool:
        """Whether others of the kind may find somebody to push aside."""
        obstacle, job = self.met.get(kind), self.queue.kinds[kind]
        if obstacle is None or obstacle.shape is None:
            return False
        return self.evictions.may_push(in_partition(job, obstacle.shape.partition))

    def try_job(self, job: PendingJob, kind: int) -> None:
        """Starts the job, or as many of its tasks as can start; what is left is blocked."""
        if not job.tasks:
            obstacle = self.met_by(kind) or self._start(job, kind, None)
            if obstacle is not None:
                self._block(job, kind, obstacle)
            return
        for task in iter_tasks(job.tasks):
            if job.throttle and self._tasks(job) >= job.throttle:
                reason = throttled(job)
                self.partly[job.id] = (reason.code, reason.sentence)
                return
            obstacle = self.met_by(kind) or self._start(job, kind, task)
            if obstacle is not None:
                self._block(job, kind, obstacle)
                return
        self.partly[job.id] = ("None", "starting")

    def _tasks(self, job: PendingJob) -> int:
        """Tasks of the job's array that run."""
        return self._running_tasks[job.array_job_id] + self._started[job.array_job_id]

    @cached_property
    def _running_tasks(self) -> Counter[JobId]:
        return Counter(job.array_job_id for job in self.view.running)

    def _start(self, job: PendingJob, kind: int, task: int | None) -> Obstacle | None:
        """Starts one task; the obstacle if it cannot."""
        if len(self.starts) >= self.settings.max_starts:
            self.stopped = True
            return BUSY
        found = self.start(job, task)
        if found is not None:
            self.met[kind] = found
        return found

    def start(self, job: PendingJob, task: int | None = None) -> Obstacle | None:
        """Starts one task in the first of its partitions in which it can; the obstacle if there is none."""
        obstacles = []
        for partition in self.terms.partitions(job):
            obstacle = self._start_in(job, task, partition)
            if obstacle is None:
                return None
            obstacles.append(obstacle)
        return next((each for each in obstacles if each.shape is not None), obstacles[0])

    def start_all(self, jobs: Sequence[PendingJob]) -> tuple[PendingJob, Obstacle] | None:
        """Starts all of them, or none: then who could not, and why."""
        trail = self._trail = []
        before, looked = self.ledger.mark(), self._search.mark()
        try:
            for job in jobs:
                obstacle = self.start(job)
                if obstacle is not None:
                    break
            else:
                return None
        finally:
            self._trail = None
        for place, start in reversed(trail):
            place.field.give_back(place.allocation, place.duration_s, place.tenant)
            self.starts.remove(start)
        self.ledger.undo(before)
        self._search.undo(looked)
        return job, obstacle

    def _start_in(
        self, job: PendingJob, task: int | None, partition: PartitionView | None
    ) -> Obstacle | None:
        job = in_partition(job, partition)
        place = self.place(job, partition)
        if isinstance(place, Obstacle):
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
        if self._trail is not None:
            self._trail.append((place, start))
        return None

    def place(self, job: PendingJob, partition: PartitionView | None) -> Place | Obstacle:
        """Where the job, as one of this partition, could start now, or what is in its way. Nothing is taken yet."""
        for drawn in self.terms.drawn_as(job):
            found = self._place_in(drawn, partition)
            if isinstance(found, Place):
                return found
        return self._place_in(job, partition)

    def _place_in(self, job: PendingJob, partition: PartitionView | None) -> Place | Obstacle:
        """The same in its reservation, or outside of all."""
        limit_s = self.terms.limit_s(job, partition)
        barred = self.terms.bars(job, partition, limit_s)
        if barred is not None:
            return barred
        field = self.fields[job.reservation]
        shape = self._shape(job, field, partition)
        found: Place | Obstacle | None = None
        for each in shape.each_size():
            found = self._place_as(job, field, each, limit_s)
            if isinstance(found, Place):
                return found
        return found or field.ground.misfit(shape, planned_s(limit_s), job.reservation)

    def _place_as(
        self, job: PendingJob, field: Field, shape: Shape, limit_s: int | None
    ) -> Place | Obstacle | None:
        """Where it could start now as of this shape; None if it does not fit, or others were promised what it would take."""
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
            # It may be given more than it asked for: whole nodes, more nodes, a type of GPU that is limited.
            held, most = self.ledger.tres_of(job, allocation), self.ledger.per_node_of(allocation)
            over = self.ledger.check(job, held, limit_s, per_node=most)
            if over is not None:
                return Obstacle(over.code, over.sentence)
        return Place(
            field=field,
            allocation=allocation,
            limit_s=limit_s,
            duration_s=duration_s,
            tenant=shape.tenant,
            reservation=job.reservation,
        )

    def _shape(self, job: PendingJob, field: Field, partition: PartitionView | None) -> Shape:
        """The job's request, over as many nodes of its range as the limits on each node make it take."""
        shape = field.shape(job, partition)
        if len(shape.gangs) < 2 and not shape.fills:
            return shape
        return shape.spread(self.ledger.most_per_node(job))

    def _find(self, field: Field, shape: Shape, duration_s: float) -> Spot | None:
        """A spot for so long from now."""
        found = self._search.spot_now(field, shape, duration_s)
        if found is None and self._search.is_over and self.starts:
            self.stopped = True
        return found

    def _block(self, job: PendingJob, kind: int, obstacle: Obstacle) -> None:
        """Notes that the job waits; reserves for it, or makes room, if it has the right to that."""
        self.blocked[job.id] = obstacle
        if obstacle.shape is None or job.id == self._without_place:
            return
        field = self.fields[obstacle.reservation]
        job = in_partition(job, obstacle.shape.partition)
        pool = int(self.queue.of_kind["pool"][kind])
        protects = self.may_protect(pool)
        pushes = self.evictions.may_push(job)
        if protects or pushes:
            secured = self._secure(job, obstacle, field, obstacle.shape, protects=protects, pushes=pushes)
            self._protected[pool] += secured

    def is_tried(self, job: PendingJob) -> bool:
        """Whether it is one whose changes are tried, so that nothing is kept for it."""
        return job.id == self._without_place

    def may_protect(self, pool: int) -> bool:
        """Whether another blocked job of the pool gets a place of its own."""
        return not self.is_protecting_enough(pool) and len(self.promised) < MOST_PROTECTED

    def count_protected(self, pool: int) -> None:
        """One more of the pool has a place of its own."""
        self._protected[pool] += 1

    def protect_all(
        self, jobs: Sequence[PendingJob], spots: Sequence[tuple[Field, Spot]], *, at_unix: float, pool: int
    ) -> None:
        """These wait, and have these places from then on, which are reserved already."""
        self.count_protected(pool)
        for job, (field, spot) in zip(jobs, spots, strict=True):
            self.promise(job, field, spot, at_unix)

    def _secure(
        self, job: PendingJob, obstacle: Obstacle, field: Field, shape: Shape, *, protects: bool, pushes: bool
    ) -> bool:
        """Reserves the earliest interval, or has others leave. Whether the job now has a place of its own."""
        later = self._search.spot_later(field, shape, obstacle.duration_s)
        room, patience = self._room(job, field, shape), self.now + self.patience_s
        if room is not None and (there := field.find_later(room, obstacle.duration_s)) is not None:
            later = there if there[0] <= patience else later
        soon = later is not None and later[0] <= patience
        if pushes and (soon or self.evictions.make_room(job, obstacle, field, shape)):
            # Its turn is near: what it will use counts already, so that nobody else leaves in vain.
            self.ledger.take(job, self.terms.tres(job), self.terms.limit_s(job, shape.partition))
            if not soon:
                return True
        if later is None or not (protects or soon):
            return False
        if self.settings.reservation_holds == "start":
            if not self._search.promise(Due(field, shape, obstacle.duration_s, later[0])):
                return False
        else:
            field.reserve(later[1], later[0], obstacle.duration_s)
        self.promise(job, field, later[1], later[0])
        return True

    def _room(self, job: PendingJob, field: Field, shape: Shape) -> Shape | None:
        """The request on the nodes alone that others left for the job a moment ago; None if there are none."""
        if job.room is None or not self.has_room(job):
            return None
        return shape.within(field.cluster.named(frozenset(job.room.nodes)))

    def has_room(self, job: PendingJob) -> bool:
        """Whether others left for the job a moment ago."""
        return job.room is not None and self.now < job.room.until_unix

    @cached_property
    def patience_s(self) -> float:
        """A job that starts within this of itself pushes nobody aside: those told to leave go in this time."""
        return max((self.rules.grace_s(job) for job in self.view.running if job.ending), default=0.0) + 1.0

    def promise(self, job: PendingJob, field: Field, spot: Spot, at_unix: float) -> None:
        """The job waits, and has this place from then on."""
        self.promised[job.id] = at_unix
        if known(at_unix, self.now):
            self.reserves.append(Reserve(job_id=job.id, at_unix=at_unix, nodes=field.names(spot)))
