"""A scheduling pass: starts jobs one by one, and reserves resources or preempts jobs for blocked ones.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from warpdeck.model import JobId, iter_tasks
from warpdeck.policy.cache.pass_cache import PassCache
from warpdeck.policy.input.decisions import Preempt, Resume
from warpdeck.policy.input.view import PendingJob, PlannerView
from warpdeck.policy.limits.access import in_partition
from warpdeck.policy.placement.block_reason import BUSY, BlockReason
from warpdeck.policy.placement.pending_reason import throttled
from warpdeck.policy.placement.request_class import RequestClass
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
        self, cache: PassCache, view: PlannerView, now: float, *, trial_job: JobId | None = None
    ) -> None:
        """Create a pass over the view. `cache` must already have been updated to it."""
        context = self.context = open_context(cache, view, now)
        self._search = PlacementSearch(now, most_tests=context.settings.max_backfill_tests)
        self.starter = JobStarter(context, self._search)
        self.reserved = ReservedStarts(context, trial_job=trial_job)
        self.preempts: list[Preempt] = []
        self.resumes: list[Resume] = []
        self.evictions = Evictions(context, preempts=self.preempts, record_start=self.reserved.record)
        self.classes = BlockedClasses(context, self._search, self.evictions, cache.unplaceable_classes)
        self.blocked: dict[JobId, BlockReason] = {}
        """The block reasons of the jobs that were tried one by one."""
        self.partly: dict[JobId, tuple[str, str]] = {}
        """Arrays with started tasks, with the reason code and sentence of the remaining tasks."""

    @property
    def is_over(self) -> bool:
        """True if no further job is tried in this pass."""
        return self.starter.stopped and self.starter.is_full

    def waiting_mask(self, rows: Ints) -> Mask:
        """Return a mask of the rows of jobs that did not start completely, except arrays that only wait for
        their own task limit.
        """
        done = {*self.partly, *(start.job_id for start in self.starter.starts)} - self.blocked.keys()
        return ~np.isin(self.context.queue.table["id"][rows], list(done))

    def try_job(self, job: PendingJob, class_id: int) -> None:
        """Start the job, or as many of its tasks as can start. Mark the rest as blocked."""
        if not job.tasks:
            block_reason = self.classes.blocked_by(class_id) or self._start(job, class_id, None)
            if block_reason is not None:
                self._block(job, class_id, block_reason)
            return
        for task in iter_tasks(job.tasks):
            if job.throttle and self.starter.running_tasks(job) >= job.throttle:
                reason = throttled(job)
                self.partly[job.id] = (reason.code, reason.sentence)
                return
            block_reason = self.classes.blocked_by(class_id) or self._start(job, class_id, task)
            if block_reason is not None:
                self._block(job, class_id, block_reason)
                return
        self.partly[job.id] = ("None", "starting")

    def _start(self, job: PendingJob, class_id: int, task: int | None) -> BlockReason | None:
        """Start one task, or return and record the block reason."""
        if self.starter.is_full:
            self.starter.stopped = True
            return BUSY
        found = self.starter.start(job, task)
        if found is not None:
            self.classes.reasons[class_id] = found
        return found

    def _block(self, job: PendingJob, class_id: int, block_reason: BlockReason) -> None:
        """Record that the job is blocked. Reserve resources or preempt other jobs for it if it has a right to
        that.
        """
        self.blocked[job.id] = block_reason
        if block_reason.request_class is None or self.reserved.is_trial(job):
            return
        pool = self.context.pools[block_reason.reservation]
        job = in_partition(job, block_reason.request_class.partition)
        group = int(self.context.queue.by_class["contention_group"][class_id])
        protects = self.reserved.may_protect(group)
        preempts_others = self.evictions.may_preempt(job)
        if protects or preempts_others:
            secured = self._secure(
                job,
                block_reason,
                pool,
                block_reason.request_class,
                protects=protects,
                preempts_others=preempts_others,
            )
            if secured:
                self.reserved.count_protected(group)

    def _secure(
        self,
        job: PendingJob,
        block_reason: BlockReason,
        pool: ResourcePool,
        request_class: RequestClass,
        *,
        protects: bool,
        preempts_others: bool,
    ) -> bool:
        """Reserve the earliest interval for a blocked job, or preempt other jobs for it.

        Returns whether the job now has resources reserved.
        """
        later = self._search.place_later(pool, request_class, block_reason.duration_s)
        freed, patience = self.context.freed_for(job, pool, request_class), self.context.now + self.patience_s
        if freed is not None and (start := pool.find_later(freed, block_reason.duration_s)) is not None:
            later = start if start[0] <= patience else later
        soon = later is not None and later[0] <= patience
        if preempts_others and (soon or self.evictions.preempt_for(job, block_reason, pool, request_class)):
            # The job starts soon. Its resources are counted now, so that no other job is preempted in vain.
            self.context.limit_usage.take(
                job,
                self.context.eligibility.tres(job),
                self.context.eligibility.limit_s(job, request_class.partition),
            )
            if not soon:
                return True
        if later is None or not (protects or soon):
            return False
        if self.context.settings.reservation_holds == "start" and not self.reserved.is_guarded(job):
            if not self._search.reserve_start(
                ReservedStart(pool, request_class, block_reason.duration_s, later[0])
            ):
                return False
        else:
            pool.reserve(later[1], later[0], block_reason.duration_s)
        self.reserved.record(job, pool, later[1], later[0])
        return True

    @cached_property
    def patience_s(self) -> float:
        """Seconds until the jobs that are being preempted have left.

        A job that can start within this time does not preempt further jobs.
        """
        return (
            max(
                (self.context.rules.grace_s(job) for job in self.context.view.running if job.ending),
                default=0.0,
            )
            + 1.0
        )
