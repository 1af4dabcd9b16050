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
from collections.abc import Callable, Iterator, Sequence
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
    run = Replay(jobs, site, settings, progress)
    run.play()
    return run.record(time.process_time() - begun_s)


class _Submissions:
    """The jobs in their order of submission, with predictions of their run times."""

    def __init__(self, jobs: Sequence[SimJob]) -> None:
        self._order = sorted(jobs, key=lambda job: (job.pending.eligible_at_unix, job.pending.id))
        self._next = 0
        self._predictor = Predictor()
        self._predicted_s: dict[JobId, float] = {}
        self.predictions: list[Prediction] = []
        """The predictions of ended jobs."""

    def next_s(self) -> float:
        """Return the time of the next submission; infinity if there is none."""
        return self._order[self._next].pending.eligible_at_unix if self._next < len(self._order) else math.inf

    def due(self, now_s: float) -> Iterator[PendingJob]:
        """Yield the jobs that are submitted by now, each once."""
        while self.next_s() <= now_s:
            pending = self._order[self._next].pending
            self._next += 1
            predicted_s = self._predictor.predict(pending.user, limit_s=pending.time_limit_s)
            if predicted_s is not None:
                self._predicted_s[pending.id] = predicted_s
                pending = msgspec.structs.replace(pending, predicted_s=predicted_s)
            yield pending

    def learn(self, job: SimJob, ran_s: float) -> None:
        """Record the run time of an ended job for later predictions."""
        self._predictor.remember(job.pending.user, ran_s, limit_s=job.pending.time_limit_s)
        predicted_s = self._predicted_s.pop(job.pending.id, None)
        if predicted_s is not None:
            limit = float(job.pending.time_limit_s or ran_s)
            self.predictions.append(Prediction(predicted_s=predicted_s, limit_s=limit, ran_s=ran_s))


class Ended(NamedTuple):
    """A job that has ended: its start in seconds, and whether it was preempted."""

    job_id: JobId
    start_s: float
    was_preempted: bool


class _RunningJobs:
    """The running jobs, sorted by id, and the times of their ends."""

    def __init__(self) -> None:
        self.jobs: list[RunningJob] = []
        self._ends: list[tuple[float, JobId, int, bool]] = []
        """A heap of (time, job, number of the start, preempted). Ends of earlier starts are ignored."""
        self._starts: dict[JobId, tuple[float, int]] = {}
        """Running job -> time and number of its start."""
        self._count = 0

    def next_end_s(self) -> float:
        """Return the time of the next end; infinity if there is none."""
        return self._ends[0][0] if self._ends else math.inf

    def start(self, job: RunningJob, *, ends_s: float) -> None:
        """Add a job that runs until `ends_s`."""
        self._count += 1
        self._starts[job.id] = job.start_at_unix, self._count
        if ends_s < math.inf:
            heapq.heappush(self._ends, (ends_s, job.id, self._count, False))
        bisect.insort(self.jobs, job, key=_by_id)

    def set_end(self, job_id: JobId, ends_s: float) -> None:
        """Set the end of a running job that was started with an unknown end."""
        heapq.heappush(self._ends, (ends_s, job_id, self._starts[job_id][1], False))

    def preempt(self, job_id: JobId, *, ends_s: float) -> bool:
        """End a job at that time. Returns False if it is ending already."""
        index = self._index_of(job_id)
        if self.jobs[index].ending:
            return False
        self.jobs[index] = msgspec.structs.replace(self.jobs[index], ending=True, ends_by_unix=ends_s)
        heapq.heappush(self._ends, (ends_s, job_id, self._starts[job_id][1], True))
        return True

    def pop_ended(self, now_s: float) -> Iterator[Ended]:
        """Remove and yield the jobs that have ended by now."""
        while self._ends and self._ends[0][0] <= now_s:
            _, job_id, number, was_preempted = heapq.heappop(self._ends)
            start_s, last_number = self._starts.get(job_id, (0.0, 0))
            if last_number == number:
                del self.jobs[self._index_of(job_id)], self._starts[job_id]
                yield Ended(job_id, start_s, was_preempted)

    def _index_of(self, job_id: JobId) -> int:
        index = bisect.bisect_left(self.jobs, job_id, key=_by_id)
        assert self.jobs[index].id == job_id, f"job {job_id} does not run"
        return index


class Replay:
    """One replay, event by event. `replay` is the usual way to run it."""

    def __init__(
        self, jobs: Sequence[SimJob], site: PlannerView, settings: PlannerSettings, progress: Progress | None
    ) -> None:
        self._jobs = {job.pending.id: job for job in jobs}
        self._site = site
        self._settings = settings
        is_strict = settings.backfill == "none" and settings.weights == Weights() and not site.partitions
        self._visible_jobs = STRICT_WINDOW if is_strict else None
        self._progress = progress
        self._now_s = 0.0
        self._submissions = _Submissions(jobs)
        self._pending: dict[JobId, PendingJob] = {}
        self._running = _RunningJobs()
        self._runs: dict[JobId, JobRun] = {}
        self._longest_wait_s = 0.0
        self._cache = PassCache()
        self.started_s: dict[JobId, float] = {}
        """The last start of each job."""
        self._requeued: set[JobId] = set()
        """Preempted jobs that wait again after their end."""
        self.passes = 0
        self.preempted = 0

    def play(self) -> None:
        """Run until all jobs have ended and no other job can start."""
        while (at_s := self.next_event_s()) < math.inf:
            self.step(at_s)

    def next_event_s(self) -> float:
        """Return the time of the next end or submission; infinity if there is none."""
        return min(self._submissions.next_s(), self._running.next_end_s())

    def step(self, at_s: float) -> None:
        """Apply the events of this time, and run a pass."""
        self._now_s = at_s
        for ended in self._running.pop_ended(at_s):
            self._end(ended)
        self._pending.update((job.id, job) for job in self._submissions.due(at_s))
        if self._pending:
            self._plan()

    def use(self, settings: PlannerSettings) -> None:
        """Plan with other settings from now on."""
        self._settings = settings

    def record(self, cpu_s: float) -> ReplayResult:
        not_run = [job for job_id, job in self._jobs.items() if job_id not in self._runs]
        return ReplayResult(
            runs=tuple(self._runs[job_id] for job_id in sorted(self._runs)),
            unstarted=tuple(not_run),
            predictions=tuple(self._submissions.predictions),
            passes=self.passes,
            preempted=self.preempted,
            cpu_s=cpu_s,
        )

    def _end(self, ended: Ended) -> None:
        job_id, is_requeued = ended.job_id, ended.job_id in self._requeued
        self._requeued.discard(job_id)
        job = self._jobs[job_id]
        if ended.was_preempted and is_requeued:
            self._pending[job_id] = job.pending
            self._pending = dict(sorted(self._pending.items()))
            return
        self._runs[job_id] = JobRun(job, ended.start_s, self._now_s)
        self._submissions.learn(job, self._now_s - ended.start_s)
        if self._progress is not None and len(self._runs) % PROGRESS_EVERY == 0:
            self._progress(len(self._runs), len(self._jobs))

    def _plan(self) -> None:
        for _ in range(MAX_PASSES_AT_ONCE):
            visible = tuple(itertools.islice(self._pending.values(), self._visible_jobs))
            view = msgspec.structs.replace(
                self._site,
                running=tuple(self._running.jobs),
                pending=visible,
                longest_wait_s=self._longest_wait_s,
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
        self._longest_wait_s = max(self._longest_wait_s, self._now_s - pending.eligible_at_unix)
        self.started_s[pending.id] = self._now_s
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
        self._running.start(running, ends_s=self._end_of(job, self._now_s + ran_s))

    def _end_of(self, job: SimJob, ends_s: float) -> float:
        """Return the time at which a job that starts now ends; infinity if this is not known yet."""
        return ends_s

    def _record_reserved_starts(self, decided: Plan) -> None:
        for reserve in decided.reserves:
            pending = self._pending[reserve.job_id]
            if pending.reserved_start_unix != reserve.at_unix:
                self._pending[reserve.job_id] = msgspec.structs.replace(
                    pending, reserved_start_unix=reserve.at_unix
                )

    def _preempt(self, preempt: Preempt) -> None:
        if not self._running.preempt(preempt.job_id, ends_s=self._now_s + preempt.grace_s):
            return
        self.preempted += 1
        waiting = self._pending.get(preempt.for_job_id)
        if waiting is not None:
            self._pending[preempt.for_job_id] = msgspec.structs.replace(
                waiting, preempted_claim=preempt.preempted_claim
            )
        if preempt.mode != "cancel":
            self._requeued.add(preempt.job_id)


def _by_id(job: RunningJob) -> JobId:
    return job.id
