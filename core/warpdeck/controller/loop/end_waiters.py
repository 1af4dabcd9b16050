"""Wait for jobs to start or end. All requests that wait use this module.

A waiter names submissions. When a job changes, its submission is read again from the state and the store.
Starts and ends are never collected from the changes themselves. A waiter therefore cannot miss an end, even
if the records change in between. Examples are tasks that were prefetched to a node and revoked, pending tasks
that were merged into one record, requeued jobs, and records that were evicted from memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from warpdeck.controller.state.state import State
from warpdeck.model import Job, JobId, JobState, has_task
from warpdeck.ports.store import Store

from .commit_barrier import CommitBarrier

JobStart = tuple[JobId, int]
"""One start of a job: the id of the job and its number of restarts."""


@dataclass(frozen=True)
class SubmissionChanges:
    """The changes of one submission.

    `begun` contains the jobs that run now, and `ended` the jobs that have ended. `done` means that there is
    no job left to wait for. `unknown` means that neither the memory nor the store contains the submission
    (any more).
    """

    number: JobId
    begun: Sequence[Job] = ()
    ended: Sequence[Job] = ()
    done: bool = False
    unknown: bool = False


@dataclass
class Waiter:
    """A waiter, with the jobs of its submissions that have changed since its last check."""

    jobs: dict[JobId, dict[JobId, None]] = field(default_factory=dict)
    """Keyed by submission."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def mark_changed(self, number: JobId, job_id: JobId) -> None:
        """Record that this job of the submission must be checked again."""
        self.jobs.setdefault(number, {})[job_id] = None
        self.changed.set()

    def take(self) -> dict[JobId, dict[JobId, None]]:
        """Return the recorded changes and clear them."""
        taken, self.jobs = self.jobs, {}
        self.changed.clear()
        return taken


class EndWaiters:
    """The waiters of each submission."""

    def __init__(self, state: State, store: Store, commits: CommitBarrier) -> None:
        self.state = state
        self.store = store
        self.commits = commits
        self._waiters: dict[JobId, dict[int, Waiter]] = {}

    @property
    def waiting(self) -> int:
        """Number of submissions that have at least one waiter."""
        return len(self._waiters)

    def numbers(self) -> set[JobId]:
        """Return the submissions that have at least one waiter."""
        return set(self._waiters)

    def touch(self, jobs: Iterable[JobId]) -> None:
        """Record that these jobs have changed or may have changed.

        If a record was merged into another one and removed, `jobs` must contain the other record as well.
        """
        if not self._waiters:
            return
        known = self.state.jobs
        for job_id in jobs:
            job = known.get(job_id)
            for number in {job_id, job_id if job is None else job.array_job_id}:
                for waiter in self._waiters.get(number, {}).values():
                    waiter.mark_changed(number, job_id)

    def join(self, waiter: Waiter, number: JobId) -> None:
        """Start sending the changes of this submission to the waiter."""
        self._waiters.setdefault(number, {})[id(waiter)] = waiter

    def leave(self, waiter: Waiter, number: JobId) -> None:
        """Stop sending the changes of this submission to the waiter."""
        waiters = self._waiters.get(number, {})
        waiters.pop(id(waiter), None)
        if not waiters:
            self._waiters.pop(number, None)

    @contextmanager
    def waiter(self, job: Job) -> Iterator[Waiter]:
        """Yield a waiter for one job.

        The waiter covers the whole array, because a task may move to another record.
        """
        made = Waiter()
        self.join(made, job.array_job_id)
        try:
            yield made
        finally:
            self.leave(made, job.array_job_id)

    async def record_of(self, job: Job) -> Job | None:
        """Return the record that holds the job now, or None if the job is unknown.

        This is the job's own record, or the shared record of its array if the task is pending there again.
        """
        state = self.state
        now = state.jobs.get(job.id)
        if now is not None and _holds(now, job):
            return now
        for member in state.array_members(job.array_job_id):
            if _holds(member, job):
                return member
        if now is not None and job.array_task_id is None:
            return now  # This record holds the remaining tasks of an array record.
        return next((each for each in await self.store.named(job.array_job_id) if _holds(each, job)), None)


def _holds(record: Job, job: Job) -> bool:
    """Return whether the record belongs to this job, or is an array record that lists its task as pending."""
    if job.array_task_id is None:
        return record.id == job.id and record.array_task_id is None
    if record.array_job_id != job.array_job_id:
        return False
    return record.array_task_id == job.array_task_id or has_task(record.pending_tasks, job.array_task_id)


class _Received:
    """The starts and ends of one submission that one waiter has received."""

    def __init__(self) -> None:
        self.is_new = True
        self.begun: set[JobStart] = set()
        self.ended: set[JobStart] = set()
        self.open: JobId | None = None
        """A job that had not ended, or had an unreported end, at the last check."""


class EndRequest:
    """One request for the ends of submissions. Each end is reported once.

    With `begun`, starts are reported too. The caller must call `close` when it is done.
    """

    def __init__(self, watch: EndWaiters, *, begun: bool = False) -> None:
        self._watch = watch
        self._reports_starts = begun
        self._waiter = Waiter()
        self._waits: dict[JobId, _Received] = {}

    def __len__(self) -> int:
        """Return the number of submissions that are still waited for."""
        return len(self._waits)

    def add(self, numbers: Iterable[int]) -> None:
        """Wait for these submissions too."""
        for number in map(JobId, numbers):
            if number not in self._waits:
                self._waits[number] = _Received()
                self._watch.join(self._waiter, number)
                self._waiter.mark_changed(number, number)

    def close(self) -> None:
        """Stop waiting for all submissions."""
        for number in list(self._waits):
            self._leave(number)

    async def changes(self) -> AsyncIterator[list[SubmissionChanges]]:
        """Yield without end: first the ends that have already happened, then changes.

        Each list contains the result of one check.
        """
        while True:
            await self._waiter.changed.wait()
            if found := await self.poll():
                yield found

    async def poll(self) -> list[SubmissionChanges]:
        """Return the changes that can be reported now."""
        found = [await self._poll(number, jobs) for number, jobs in self._waiter.take().items()]
        return [each for each in found if each.begun or each.ended or each.done]

    async def _poll(self, number: JobId, changed: Iterable[JobId]) -> SubmissionChanges:
        wait = self._waits.get(number)
        if wait is None:
            return SubmissionChanges(number)
        state = self._watch.state
        stored: list[Job] = []
        if wait.is_new:
            stored = await self._stored(number, wait)
            changed = [job.id for job in state.named(number)]
        jobs = [state.jobs[job_id] for job_id in changed if job_id in state.jobs]
        ended = await self._committed(number, [job for job in jobs if job.is_finished])
        ended = [*stored, *(job for job in ended if (job.id, job.restarts) not in wait.ended)]
        wait.ended.update((job.id, job.restarts) for job in ended)
        wait.is_new = False
        if not self._is_open(number, wait):
            missed = await self._stored(number, wait)
            wait.ended.update((job.id, job.restarts) for job in missed)
            self._leave(number)
            return SubmissionChanges(number, ended=[*ended, *missed], done=True, unknown=not wait.ended)
        return SubmissionChanges(number, begun=self._started(jobs, wait), ended=ended)

    async def _stored(self, number: JobId, wait: _Received) -> list[Job]:
        """Return unreported ends of jobs that are in the store and not in memory."""
        found = await self._watch.store.named(number)
        known = self._watch.state.jobs
        return [
            job
            for job in found
            if job.is_finished and job.id not in known and (job.id, job.restarts) not in wait.ended
        ]

    async def _committed(self, number: JobId, jobs: list[Job]) -> list[Job]:
        """Return the jobs of `jobs` that are on disk.

        The other jobs have changed in the meantime and are marked for another check.
        """
        if not jobs:
            return []
        await self._watch.commits.wait()
        known = self._watch.state.jobs
        for job in jobs:
            if job.id in known and known[job.id] is not job:
                self._waiter.mark_changed(number, job.id)
        return [job for job in jobs if known.get(job.id) is job]

    def _is_open(self, number: JobId, wait: _Received) -> bool:
        """Return whether a job of the submission still runs or waits, or has an end that was not reported
        yet.
        """
        state = self._watch.state

        def is_open(job: Job) -> bool:
            return not job.is_finished or (job.id, job.restarts) not in wait.ended

        last = state.jobs.get(wait.open) if wait.open is not None else None
        if last is not None and is_open(last):
            return True
        wait.open = next((job.id for job in state.named(number) if is_open(job)), None)
        return wait.open is not None

    def _started(self, jobs: Iterable[Job], wait: _Received) -> list[Job]:
        if not self._reports_starts:
            return []
        found = [
            job for job in jobs if job.state is JobState.RUNNING and (job.id, job.restarts) not in wait.begun
        ]
        wait.begun.update((job.id, job.restarts) for job in found)
        return found

    def _leave(self, number: JobId) -> None:
        del self._waits[number]
        self._watch.leave(self._waiter, number)
