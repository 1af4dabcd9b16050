"""A scheduling pass: decides job by job, and reserves resources or preempts jobs for those that are blocked.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from warpdeck.model import JobId, iter_tasks
from warpdeck.policy.cache.pass_cache import PassCache
from warpdeck.policy.input.decisions import Preempt, Resume
from warpdeck.policy.input.view import PendingJob, View
from warpdeck.policy.limits.access import in_partition
from warpdeck.policy.placement.block_reason import BUSY, BlockReason
from warpdeck.policy.placement.pending_reason import throttled
from warpdeck.policy.placement.request_shape import RequestClass
from warpdeck.policy.reservations.resource_pool import ResourcePool
from warpdeck.policy.resources.cluster import Ints, Mask

from .blocked_classes import BlockedClasses
from .evictions import Evictions
from .job_starter import JobStarter
from .pass_context import open_context
from .reserved_starts import ReservedStarts
from .search import PlacementSearch, ReservedStart


class SchedulingPass:
    """A scheduling pass. It decides job by job; the caller offers jobs in the order of their precedence."""

    def __init__(
        self, memory: PassCache, view: View, now: float, *, without_place: JobId | None = None
    ) -> None:
        """`memory` must already have been updated to the view."""
        context = self.context = open_context(memory, view, now)
        self._search = PlacementSearch(now, most_tests=context.settings.max_backfill_tests)
        self.starter = JobStarter(context, self._search)
        self.reserved = ReservedStarts(context, without_place=without_place)
        self.preempts: list[Preempt] = []
        self.resumes: list[Resume] = []
        self.evictions = Evictions(context, preempts=self.preempts, promise=self.reserved.promise)
        self.classes = BlockedClasses(context, self._search, self.evictions, memory.unplaceable_classes)
        self.blocked: dict[JobId, BlockReason] = {}
        """The block reasons of the jobs that were tried one by one."""
        self.partly: dict[JobId, tuple[str, str]] = {}
        """Arrays of which some tasks started, with the reason of the remaining tasks."""

    @property
    def is_over(self) -> bool:
        """True if no further job is tried in this pass."""
        return self.starter.stopped and self.starter.is_full

    def who_waits(self, rows: Ints) -> Mask:
        """Return the mask of the offered jobs that did not start completely and do more than wait for their
        array's throttle.
        """
        done = {*self.partly, *(start.job_id for start in self.starter.starts)} - self.blocked.keys()
        return ~np.isin(self.context.queue.table["id"][rows], list(done))

    def try_job(self, job: PendingJob, kind: int) -> None:
        """Start the job, or as many of its tasks as can start. The rest is marked as blocked."""
        if not job.tasks:
            obstacle = self.classes.blocked_by(kind) or self._start(job, kind, None)
            if obstacle is not None:
                self._block(job, kind, obstacle)
            return
        for task in iter_tasks(job.tasks):
            if job.throttle and self.starter.running_tasks(job) >= job.throttle:
                reason = throttled(job)
                self.partly[job.id] = (reason.code, reason.sentence)
                return
            obstacle = self.classes.blocked_by(kind) or self._start(job, kind, task)
            if obstacle is not None:
                self._block(job, kind, obstacle)
                return
        self.partly[job.id] = ("None", "starting")

    def _start(self, job: PendingJob, kind: int, task: int | None) -> BlockReason | None:
        """Start one task, or return and record the block reason."""
        if self.starter.is_full:
            self.starter.stopped = True
            return BUSY
        found = self.starter.start(job, task)
        if found is not None:
            self.classes.met[kind] = found
        return found

    def _block(self, job: PendingJob, kind: int, obstacle: BlockReason) -> None:
        """Record that the job is blocked. Reserve resources or preempt other jobs for it if it is entitled to
        that.
        """
        self.blocked[job.id] = obstacle
        if obstacle.shape is None or self.reserved.is_tried(job):
            return
        field = self.context.fields[obstacle.reservation]
        job = in_partition(job, obstacle.shape.partition)
        pool = int(self.context.queue.of_kind["pool"][kind])
        protects = self.reserved.may_protect(pool)
        preempts_others = self.evictions.may_preempt(job)
        if protects or preempts_others:
            secured = self._secure(
                job, obstacle, field, obstacle.shape, protects=protects, preempts_others=preempts_others
            )
            if secured:
                self.reserved.count_protected(pool)

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
        room, patience = self.context.freed_for(job, field, shape), self.context.now + self.patience_s
        if room is not None and (there := field.find_later(room, obstacle.duration_s)) is not None:
            later = there if there[0] <= patience else later
        soon = later is not None and later[0] <= patience
        if preempts_others and (soon or self.evictions.make_room(job, obstacle, field, shape)):
            # The job starts soon. Its resources are counted already, so that no other job is preempted in
            # vain.
            self.context.ledger.take(
                job, self.context.terms.tres(job), self.context.terms.limit_s(job, shape.partition)
            )
            if not soon:
                return True
        if later is None or not (protects or soon):
            return False
        if self.context.settings.reservation_holds == "start":
            if not self._search.promise(ReservedStart(field, shape, obstacle.duration_s, later[0])):
                return False
        else:
            field.reserve(later[1], later[0], obstacle.duration_s)
        self.reserved.promise(job, field, later[1], later[0])
        return True

    @cached_property
    def patience_s(self) -> float:
        """Seconds in which the jobs that are being preempted will have left.

        A job that starts within this time without preemption does not preempt any job.
        """
        return (
            max(
                (self.context.rules.grace_s(job) for job in self.context.view.running if job.ending),
                default=0.0,
            )
            + 1.0
        )
