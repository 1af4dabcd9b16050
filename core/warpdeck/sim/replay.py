"""Replay a workload with the real `plan` in virtual time. Jobs run for their real run time, but at most until
their limit.

The replay is event driven. All ends and submissions of one point in time are applied, ends first, and then
one pass runs (and another while it reports that it stopped at a limit). Nothing is random, and the clock is
only read to measure CPU time. Nodes, requests and jobs that did not change are the same objects in all
passes.

A preempted job ends after its grace time. With mode requeue it waits again and starts from the beginning;
with cancel it is finished. Suspension is treated as requeue, because a log does not contain the work that
would be lost.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from warpdeck.model import JobId
from warpdeck.policy import (
    PassCache,
    PendingJob,
    Plan,
    PlannerSettings,
    PlannerView,
    Preempt,
    RunningJob,
    Start,
    Weights,
    plan,
)
from warpdeck.policy.priority.predict import Prediction, Predictor

from .simjobs import SimJob

STRICT_WINDOW = 64
"""Number of queued jobs in the view of a pass in strict order of submission. No job passes another there, so
a pass needs no more.
"""
MAX_PASSES_AT_ONCE = 10_000
"""Maximum number of passes at one point in time. More passes would mean that the planner reports progress
without making any.
"""

Progress = Callable[[int, int], None]
"""Function that is called periodically with the number of ended jobs and of all jobs."""
PROGRESS_EVERY = 256


class JobRun(NamedTuple):
    """The result of a job: its last start and its end, in seconds of virtual time."""

    job: SimJob
    start_s: float
    end_s: float

    @property
    def wait_s(self) -> float:
        return self.start_s - self.job.pending.eligible_at_unix


class ReplayResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a replay.

    `runs` are in the order of submission, `unstarted` jobs could never start, and `predictions` contain the
    true run times.
    """

    runs: tuple[JobRun, ...]
    unstarted: tuple[SimJob, ...] = ()
    predictions: tuple[Prediction, ...] = ()
    passes: int = 0
    preempted: int = 0
    cpu_s: float = 0.0


def replay(
    jobs: Sequence[SimJob], site: PlannerView, settings: PlannerSettings, *, progress: Progress | None = None
) -> ReplayResult:
    """Replay the jobs (in order of submission, ids ascending) on the site's nodes. `site` must contain no
    jobs.
    """
    begun_s = time.process_time()
    run = _Replay(jobs, site, settings, progress)
    run.play()
    return run.record(time.process_time() - begun_s)


class _Replay:
    def __init__(
        self, jobs: Sequence[SimJob], site: PlannerView, settings: PlannerSettings, progress: Progress | None
    ) -> None:
        self._jobs = {job.pending.id: job for job in jobs}
        self._order = sorted(jobs, key=lambda job: (job.pending.eligible_at_unix, job.pending.id))
        self._next = 0
        self._site = site
        self._settings = settings
        self._strict = settings.backfill == "none" and settings.weights == Weights() and not site.partitions
        self._progress = progress
        self._now_s = 0.0
        self._pending: dict[JobId, PendingJob] = {}
        self._running: list[RunningJob] = []
        """Sorted by id."""
        self._ends: list[tuple[float, JobId, int, bool]] = []
        """A heap of (time, job, start count, preempted). Ends of earlier starts are ignored."""
        self._started: dict[JobId, tuple[float, int]] = {}
        """Maps a job to its last start and the number of its starts."""
        self._runs: dict[JobId, JobRun] = {}
        self._longest_wait_s = 0.0
        self._predictor = Predictor()
        self._cache = PassCache()
        self._predicted_s: dict[JobId, float] = {}
        self._predictions: list[Prediction] = []
        self._requeued: set[JobId] = set()
        """Preempted jobs that wait again after their end."""
        self.passes = 0
        self.preempted = 0

    def play(self) -> None:
        """Run until all jobs have ended and no other job can start."""
        while (at_s := self._next_event()) < math.inf:
            self._now_s = at_s
            self._apply_ends()
            self._apply_submissions()
            if self._pending:
                self._plan()

    def record(self, cpu_s: float) -> ReplayResult:
        not_run = [job for job_id, job in self._jobs.items() if job_id not in self._runs]
        return ReplayResult(
            runs=tuple(self._runs[job_id] for job_id in sorted(self._runs)),
            unstarted=tuple(not_run),
            predictions=tuple(self._predictions),
            passes=self.passes,
            preempted=self.preempted,
            cpu_s=cpu_s,
        )

    def _next_event(self) -> float:
        submit = (
            self._order[self._next].pending.eligible_at_unix if self._next < len(self._order) else math.inf
        )
        return min(submit, self._ends[0][0] if self._ends else math.inf)

    def _apply_ends(self) -> None:
        while self._ends and self._ends[0][0] <= self._now_s:
            _, job_id, count, was_preempted = heapq.heappop(self._ends)
            if self._started[job_id][1] != count or job_id in self._runs or job_id in self._pending:
                continue
            self._drop_running(job_id)
            if was_preempted and job_id in self._requeued:
                self._requeue(job_id)
            else:
                self._end(job_id)

    def _requeue(self, job_id: JobId) -> None:
        self._requeued.discard(job_id)
        self._pending[job_id] = self._jobs[job_id].pending
        self._pending = dict(sorted(self._pending.items()))

    def _end(self, job_id: JobId) -> None:
        self._requeued.discard(job_id)
        job = self._jobs[job_id]
        start_s = self._started[job_id][0]
        self._runs[job_id] = JobRun(job, start_s, self._now_s)
        self._learn(job, self._now_s - start_s)
        if self._progress is not None and len(self._runs) % PROGRESS_EVERY == 0:
            self._progress(len(self._runs), len(self._jobs))

    def _learn(self, job: SimJob, ran_s: float) -> None:
        self._predictor.remember(job.pending.user, ran_s, limit_s=job.pending.time_limit_s)
        predicted_s = self._predicted_s.pop(job.pending.id, None)
        if predicted_s is not None:
            limit = float(job.pending.time_limit_s or ran_s)
            self._predictions.append(Prediction(predicted_s=predicted_s, limit_s=limit, ran_s=ran_s))

    def _apply_submissions(self) -> None:
        while self._next < len(self._order):
            pending = self._order[self._next].pending
            if pending.eligible_at_unix > self._now_s:
                return
            self._next += 1
            predicted_s = self._predictor.predict(pending.user, limit_s=pending.time_limit_s)
            if predicted_s is not None:
                self._predicted_s[pending.id] = predicted_s
                pending = msgspec.structs.replace(pending, predicted_s=predicted_s)
            self._pending[pending.id] = pending

    def _plan(self) -> None:
        for _ in range(MAX_PASSES_AT_ONCE):
            visible = tuple(itertools.islice(self._pending.values(), STRICT_WINDOW if self._strict else None))
            view = msgspec.structs.replace(
                self._site, running=tuple(self._running), pending=visible, longest_wait_s=self._longest_wait_s
            )
            decided = plan(view, self._now_s, self._settings, cache=self._cache, explain_only=())
            self.passes += 1
            self._apply(decided)
            if not self._pending or not (decided.more or len(decided.starts) == len(visible)):
                return
        raise AssertionError(f"{MAX_PASSES_AT_ONCE} passes at {self._now_s} s and no end")

    def _apply(self, decided: Plan) -> None:
        for start in decided.starts:
            self._start(start)
        if self._settings.backfill == "conservative":
            self._record_reserved_starts(decided)
        for preempt in decided.preempts:
            self._preempt(preempt)
        for end in decided.ends:
            self._pending.pop(end.job_id, None)

    def _start(self, start: Start) -> None:
        pending = self._pending.pop(start.job_id)
        job = self._jobs[start.job_id]
        limit = start.time_limit_s or pending.time_limit_s or self._settings.default_time_s
        ran_s = job.run_s if limit is None else min(job.run_s, limit)
        count = self._started.get(start.job_id, (0.0, 0))[1] + 1
        self._started[start.job_id] = (self._now_s, count)
        self._longest_wait_s = max(self._longest_wait_s, self._now_s - pending.eligible_at_unix)
        heapq.heappush(self._ends, (self._now_s + ran_s, start.job_id, count, False))
        running = RunningJob(
            id=pending.id,
            array_job_id=pending.array_job_id,
            label=pending.label,
            allocation=start.allocation,
            ends_by_unix=None if limit is None else self._now_s + limit,
            user=pending.user,
            account=pending.account,
            qos=pending.qos,
            partition=pending.partition,
            licenses=pending.licenses,
            excludes_users=pending.resources.share_with == "user",
            start_at_unix=self._now_s,
            expects_end_unix=None if pending.predicted_s is None else self._now_s + pending.predicted_s,
        )
        bisect.insort(self._running, running, key=_by_id)

    def _record_reserved_starts(self, decided: Plan) -> None:
        for reserve in decided.reserves:
            pending = self._pending[reserve.job_id]
            if pending.reserved_start_unix != reserve.at_unix:
                self._pending[reserve.job_id] = msgspec.structs.replace(
                    pending, reserved_start_unix=reserve.at_unix
                )

    def _preempt(self, preempt: Preempt) -> None:
        index = self._find_running(preempt.job_id)
        running = self._running[index]
        if running.ending:
            return
        self.preempted += 1
        waiting = self._pending.get(preempt.for_job_id)
        if waiting is not None:
            self._pending[preempt.for_job_id] = msgspec.structs.replace(
                waiting, preempted_claim=preempt.preempted_claim
            )
        leaves_s = self._now_s + preempt.grace_s
        self._running[index] = msgspec.structs.replace(running, ending=True, ends_by_unix=leaves_s)
        if preempt.mode != "cancel":
            self._requeued.add(preempt.job_id)
        count = self._started[preempt.job_id][1]
        heapq.heappush(self._ends, (leaves_s, preempt.job_id, count, True))

    def _drop_running(self, job_id: JobId) -> None:
        del self._running[self._find_running(job_id)]

    def _find_running(self, job_id: JobId) -> int:
        index = bisect.bisect_left(self._running, job_id, key=_by_id)
        assert self._running[index].id == job_id, f"job {job_id} does not run"
        return index


def _by_id(job: RunningJob) -> JobId:
    return job.id
