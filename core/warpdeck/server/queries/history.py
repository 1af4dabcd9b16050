"""Records of jobs of any age, by id, in pages: those in memory and those that only the store has.

Which of them somebody asks for is Slurm's rule (sacct(1), --state and --starttime): without states what might have run in the
window, with some what was in one of them at any moment of it.
"""

from __future__ import annotations

import contextlib
import math
from array import array
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.controller.loop.controller import Controller
from warpdeck.controller.presenters.job_columns import shower
from warpdeck.controller.presenters.step_records import step_records
from warpdeck.controller.state.state import State
from warpdeck.model import Job, JobId, JobState, state_named
from warpdeck.model.step import Step
from warpdeck.notation.values.job_ids import parse_job_id
from warpdeck.ports.caller import may_touch
from warpdeck.protocol import requests as ask
from warpdeck.protocol.job_rows import JobFacts, JobRow
from warpdeck.server.chunking import TESTS_A_TURN, in_slices
from warpdeck.server.connection import Connection
from warpdeck.server.selection import named_by, tests_of

PAGE_JOBS = 500
"""Jobs of one page: each may bring some dozens of steps, and a frame has a limit."""
MAX_IDS = 10_000
"""Jobs that one request may name: each number is looked up by itself."""
NOT_ELIGIBLE = frozenset({"Dependency", "BeginTime", "JobArrayTaskLimit", "DependencyNeverSatisfied"})
"""Reasons of a waiting job that are its own: as long as one of them holds, it is not eligible."""
ALL_FIELDS = tuple(dict.fromkeys((*JobRow.__struct_fields__, *JobFacts.__struct_fields__)))


class HistoryWindow:
    """Which jobs of those that the names let through. Raises UserError for a state or an id that cannot be."""

    def __init__(self, message: ask.Records) -> None:
        if len(message.ids) > MAX_IDS:
            raise UserError(f"{len(message.ids):,} jobs are named at once", f"name {MAX_IDS:,} at most")
        self.ids = [parse_job_id(word) for word in message.ids]
        self._is_named = named_by(message.ids)
        self.states = frozenset(state_named(word) for word in message.states)
        self.since = message.since
        self.until = math.inf if message.until is None else message.until
        self.whenever = message.since <= 0
        """No moment was named: a state is one that it is in now, or was ever."""
        self._tests = tests_of(message)

    def has(self, state: State, job: Job) -> bool:
        """Whether the job is wanted."""
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
            return began  # who is named need not be eligible
        if job.start_at_unix is None and _was_always_held(job):
            return False
        return began and (job.state is not JobState.PENDING or _is_eligible(state, job))

    def _was(self, state: State, job: Job, wanted: JobState, end: float) -> bool:
        """Whether the job was in that state at any moment of the window."""
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
    """Whether nothing of its own keeps a waiting job from starting."""
    why = state.planned.whys.get(job.id)
    return not _was_always_held(job) and (why is None or why.code not in NOT_ELIGIBLE)


def _was_always_held(job: Job) -> bool:
    """What was held only when it was put back had been eligible before."""
    return job.held and not job.restarts


async def answer(connection: Connection, message: ask.Records) -> dict[str, Any]:
    """Sends each page as soon as it is made; the last is the answer. Neither a long history nor a page of it is kept meanwhile."""
    async with contextlib.aclosing(_pages(connection, message)) as pages:
        while True:
            async with connection.page():
                try:
                    rows, is_last = await anext(pages)
                except StopAsyncIteration:
                    rows, is_last = [], True
                if is_last:
                    return {"jobs": rows}
                connection.send({"t": "rows", "id": message.id, "part": {"jobs": rows}})


async def _pages(
    connection: Connection, message: ask.Records
) -> AsyncGenerator[tuple[list[dict[str, Any]], bool], None]:
    """The rows of each page, and whether it is certainly the last."""
    controller = connection.server.controller
    show = shower(controller.state, message.fields or ALL_FIELDS, now=controller.clock())
    async for jobs, is_last in jobs_of(controller, message):
        rows: list[dict[str, Any]] = show(jobs)
        if message.steps:
            await _add_steps(controller, jobs, rows)
        if message.scripts:
            for job, row in zip(jobs, rows, strict=True):
                row["script"] = job.request.script if may_touch(connection.who, job) else ""
        yield rows, is_last


async def jobs_of(controller: Controller, message: ask.Records) -> AsyncIterator[tuple[list[Job], bool]]:
    """The jobs that are meant, in pages, none of them empty, each with whether it is certainly the last. Raises UserError."""
    state, store, window = controller.state, controller.store, HistoryWindow(message)
    numbers = set(
        await in_slices(
            list(state.jobs.values()),
            lambda some: [job.id for job in some if window.has(state, job)],
            rows=TESTS_A_TURN,
        )
    )
    if message.ended:
        numbers.update(await _stored(controller, message, window))
    if message.runs:
        numbers.update(await _with_runs(controller, message, window))
    ordered = array(
        "q", sorted(numbers)
    )  # kept until the client has read nearly all: a tenth of a set's memory
    del numbers
    for at in range(0, len(ordered), PAGE_JOBS):
        some = [JobId(number) for number in ordered[at : at + PAGE_JOBS]]
        found = {job.id: job for job in await store.jobs([each for each in some if each not in state.jobs])}
        found.update({each: state.jobs[each] for each in some if each in state.jobs})
        starts = await store.runs_of(some) if message.runs else []
        jobs = sorted((*starts, *found.values()), key=lambda job: (job.id, job.restarts))
        if wanted := [job for job in jobs if window.has(state, job)]:
            yield wanted, at + PAGE_JOBS >= len(ordered)


async def _with_runs(controller: Controller, message: ask.Records, window: HistoryWindow) -> list[JobId]:
    """Jobs of which an earlier start may be meant, whether or not the job is itself."""
    if window.ids:
        named = [job for number, _ in window.ids for job in controller.state.named(JobId(number))]
        return [job.id for job in named]
    return await controller.store.run_ids(
        users=_whose(message), since_unix=window.since, until_unix=window.until
    )


def _whose(message: ask.Records) -> list[str]:
    """The users by name; none where one is named by number, for the store knows names alone."""
    users = sorted(name for name in message.users if not name.isdecimal())
    return users if len(users) == len(message.users) else []


async def _stored(controller: Controller, message: ask.Records, window: HistoryWindow) -> list[JobId]:
    """The ended jobs that may be meant, and are not in memory."""
    store = controller.store
    if window.ids:
        named = [job for number, _ in window.ids for job in await store.named(JobId(number))]
        found = [job.id for job in named if job.is_finished]
    else:
        found = await store.ended_ids(users=_whose(message), since_unix=window.since, until_unix=window.until)
    return [number for number in found if number not in controller.state.jobs]


async def _add_steps(controller: Controller, jobs: list[Job], rows: list[dict[str, Any]]) -> None:
    steps: dict[JobId, list[Step]] = {}
    for step in await controller.store.steps_of([job.id for job in jobs]):
        steps.setdefault(step.job_id, []).append(step)
    for job, row in zip(jobs, rows, strict=True):
        row["steps"] = step_records(controller.state, job, steps.get(job.id, []))
