"""Records of jobs of any age, in pages ordered by id. They come from memory and from the store.

The selection follows Slurm's rules (sacct(1), --state and --starttime). Without states it selects jobs that
could have run in the time window. With states it selects jobs that were in one of them at any time in the
window.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Any

from warpdeck.base.chunking import TESTS_A_TURN, in_slices
from warpdeck.base.errors import UserError
from warpdeck.controller.launch.whole_request import with_stored_parts
from warpdeck.controller.presenters.job_columns import JOB_FIELDS, row_maker
from warpdeck.controller.presenters.step_records import step_records
from warpdeck.controller.state.state import State
from warpdeck.engines.shared.selection import named_by, tests_of
from warpdeck.model import Job, JobId, JobState, state_named
from warpdeck.model.step import Step
from warpdeck.notation.values.job_ids import parse_job_id
from warpdeck.ports.caller import Principal, may_read
from warpdeck.ports.engine import RecordPage
from warpdeck.ports.store import Store
from warpdeck.protocol import requests as ask

from .visibility import Visibility

PAGE_JOBS = 500
"""Number of jobs in one page. Each may have some dozens of steps, and the size of a frame is limited."""
PAGE_SCRIPT_CHARACTERS = 1024 * 1024
"""Maximum length of all scripts in one page. A character may take four bytes or more in a frame."""
RECORDS_A_TURN = 10
"""Number of records built without yielding to the event loop. One with all fields takes half a millisecond."""
MAX_IDS = 10_000
"""Maximum number of jobs that one request may name, because each id is looked up separately."""
NOT_ELIGIBLE = frozenset({"Dependency", "BeginTime", "JobArrayTaskLimit", "DependencyNeverSatisfied"})
"""Pending reasons that depend only on the job itself. A job with one of them is not eligible."""


class HistoryWindow:
    """Filters of a request for records. Raises UserError for an invalid state or id."""

    def __init__(self, message: ask.Records) -> None:
        if len(message.ids) > MAX_IDS:
            raise UserError(f"{len(message.ids):,} jobs in one request", f"request at most {MAX_IDS:,}")
        self.ids = [parse_job_id(word) for word in message.ids]
        self._is_named = named_by(message.ids)
        self.states = frozenset(state_named(word) for word in message.states)
        self.since = message.since
        self.until = math.inf if message.until is None else message.until
        self.whenever = message.since <= 0
        """Whether no start time was given. Then a state matches if the job is in it now or was ever in it."""
        self._tests = tests_of(message)

    def has(self, state: State, job: Job) -> bool:
        """Return whether the job passes the filters."""
        if self.ids and not self._is_named(job):
            return False
        if not all(test(job) for test in self._tests):
            return False
        end = math.inf if job.end_at_unix is None else job.end_at_unix
        if self.states:
            return any(self._was(state, job, each, end) for each in self.states)
        if self.whenever and math.isinf(self.until):
            return True
        began = job.eligible_at_unix <= self.until and end >= self.since
        if self.ids:
            return began  # A job that is named by id need not be eligible.
        if job.start_at_unix is None and _was_always_held(job):
            return False
        return began and (job.state is not JobState.PENDING or _is_eligible(state, job))

    def _was(self, state: State, job: Job, wanted: JobState, end: float) -> bool:
        """Return whether the job was in that state at any time in the window."""
        start = job.start_at_unix
        if wanted is JobState.PENDING:
            if job.state is JobState.PENDING and not self.whenever and not _is_eligible(state, job):
                return False
            began = math.inf if job.state is JobState.PENDING else end if start is None else start
            return job.eligible_at_unix <= self.until and began > self.since
        if wanted is JobState.RUNNING:
            runs = job.is_finished or job.state is not JobState.SUSPENDED
            return runs and start is not None and start <= self.until and end >= self.since
        if job.state is not wanted:
            return False
        return not job.is_finished or self.since <= end <= self.until


def _is_eligible(state: State, job: Job) -> bool:
    """Return whether a pending job has no reason of its own that keeps it from starting."""
    why = state.planned.pending_reasons.get(job.id)
    return not _was_always_held(job) and (why is None or why.code not in NOT_ELIGIBLE)


def _was_always_held(job: Job) -> bool:
    """Return whether the job was held from the start.

    A job held only when it was requeued was eligible before.
    """
    return job.held and not job.restarts


@dataclass(frozen=True)
class RecordSearch:
    """Finds the records of jobs in memory and in the store."""

    state: State
    store: Store

    async def pages(
        self, message: ask.Records, *, who: Principal, seen: Visibility, now: float
    ) -> AsyncGenerator[RecordPage, None]:
        """Yield the rows of the records page by page. Raises UserError."""
        show = seen.job_rows(row_maker(self.state, message.fields or JOB_FIELDS, now=now))
        async for found, is_last in self.jobs(message):
            jobs = [job for job in found if seen.sees(job)] if seen.hides_jobs else found
            rows: list[dict[str, Any]] = await in_slices(jobs, show, rows=RECORDS_A_TURN)
            if message.steps:
                await self._add_steps(jobs, rows)
            if message.scripts:
                async for page in self._with_scripts(jobs, rows, who):
                    yield page._replace(is_last=page.is_last and is_last)
            else:
                yield RecordPage(rows, is_last=is_last)

    async def jobs(self, message: ask.Records) -> AsyncIterator[tuple[list[Job], bool]]:
        """Yield the selected jobs in non-empty pages, each with whether it is certainly the last one.

        Raises UserError.
        """
        state, store, window = self.state, self.store, HistoryWindow(message)
        numbers = set(
            await in_slices(
                list(state.jobs.values()),
                lambda some: [job.id for job in some if window.has(state, job)],
                rows=TESTS_A_TURN,
            )
        )
        if message.ended:
            numbers.update(await self._stored(message, window))
        if message.runs:
            numbers.update(await self._with_runs(message, window))
        ordered = array("q", sorted(numbers))
        del numbers
        for at in range(0, len(ordered), PAGE_JOBS):
            some = [JobId(number) for number in ordered[at : at + PAGE_JOBS]]
            found = {
                job.id: job for job in await store.jobs([each for each in some if each not in state.jobs])
            }
            found.update({each: state.jobs[each] for each in some if each in state.jobs})
            starts = await store.runs_of(some) if message.runs else []
            jobs = sorted((*starts, *found.values()), key=lambda job: (job.id, job.restarts))
            if wanted := [job for job in jobs if window.has(state, job)]:
                yield wanted, at + PAGE_JOBS >= len(ordered)

    async def _with_runs(self, message: ask.Records, window: HistoryWindow) -> list[JobId]:
        """Return the jobs with an earlier start that may match, whether or not the job itself matches."""
        if window.ids:
            return [job.id for number, _ in window.ids for job in self.state.named(JobId(number))]
        return await self.store.run_ids(
            users=_whose(message), since_unix=window.since, until_unix=window.until
        )

    async def _stored(self, message: ask.Records, window: HistoryWindow) -> list[JobId]:
        """Return the finished jobs that may match and are not in memory."""
        store = self.store
        if window.ids:
            named = [job for number, _ in window.ids for job in await store.named(JobId(number))]
            found = [job.id for job in named if job.is_finished]
        else:
            found = await store.ended_ids(
                users=_whose(message), since_unix=window.since, until_unix=window.until
            )
        return [number for number in found if number not in self.state.jobs]

    async def _with_scripts(
        self, jobs: list[Job], rows: list[dict[str, Any]], who: Principal
    ) -> AsyncIterator[RecordPage]:
        """Yield the rows with their scripts, in pages that fit into a frame."""
        page: list[dict[str, Any]] = []
        size = 0
        for job, row in zip(jobs, rows, strict=True):
            readable = may_read(who, job)
            script = (await with_stored_parts(job, self.store)).request.script if readable else ""
            if page and size + len(script) > PAGE_SCRIPT_CHARACTERS:
                yield RecordPage(page, is_last=False)
                page, size = [], 0
            page.append(row | {"script": script})
            size += len(script)
        yield RecordPage(page, is_last=True)

    async def _add_steps(self, jobs: list[Job], rows: list[dict[str, Any]]) -> None:
        steps: dict[JobId, list[Step]] = {}
        for step in await self.store.steps_of([job.id for job in jobs]):
            steps.setdefault(step.job_id, []).append(step)
        for job, row in zip(jobs, rows, strict=True):
            row["steps"] = step_records(self.state, job, steps.get(job.id, []))


def _whose(message: ask.Records) -> list[str]:
    """Return the user names to filter by in the store. The list is empty if a user is given by uid.

    The store only knows user names.
    """
    users = sorted(name for name in message.users if not name.isdecimal())
    return users if len(users) == len(message.users) else []
