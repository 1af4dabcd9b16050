"""The jobs in the queue: their rows, their details and their forecasts."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from warpdeck.base.chunking import TESTS_A_TURN, LazyRows, Rows, in_slices
from warpdeck.controller.launch.whole_request import with_stored_parts, with_whole_request
from warpdeck.controller.loop.end_waiters import EndWaiters
from warpdeck.controller.presenters.job_columns import job_detail, row_maker
from warpdeck.controller.presenters.step_rows import live_steps, step_rows
from warpdeck.controller.state.state import State
from warpdeck.model import Job, JobId, NodeName
from warpdeck.ports.caller import Caller, Principal
from warpdeck.ports.engine import DeltaPage
from warpdeck.ports.store import JournalEntry, Store
from warpdeck.protocol import requests as ask
from warpdeck.protocol.job_rows import JobDetail, JobRow, JobVariables, LiveStep
from warpdeck.protocol.site_rows import ForecastRow

from .job_lookup import JobLookup
from .resubmit import check_owner, variables_of
from .selection import Selection
from .subscriptions import Changes, RowsOfEnds
from .visibility import Visibility

MAX_ROWS = 100_000
"""Maximum number of jobs in one answer."""
MAX_EVENTS = 200
"""Maximum number of lines of history in the details of a job of an array."""


class JobForecasts(Protocol):
    """Answers when a job is expected to start."""

    async def of_job(self, state: State, job: Job) -> ForecastRow: ...


@dataclass(frozen=True, kw_only=True)
class StateJobs:
    """The `EngineJobs` over the jobs of a `State` and of the store."""

    state: State
    store: Store
    lookup: JobLookup
    forecaster: JobForecasts
    change_feed: Changes
    end_waiters: EndWaiters
    clock: Callable[[], float]

    def owner(self, job_id: JobId, *, restarts: int, node: NodeName) -> Principal | None:
        job = self.state.jobs.get(job_id)
        if job is None or job.restarts != restarts or node not in [share.node for share in job.shares]:
            return None
        return Principal(user=job.user, uid=job.uid)

    async def rows(self, caller: Caller, message: ask.Jobs) -> Rows[JobRow | dict[str, Any]]:
        seen = self.lookup.visibility(caller.who)
        show = seen.job_rows(row_maker(self.state, message.fields, now=self.clock()))
        return LazyRows(await self._selected(message, seen), show)

    async def detail(self, caller: Caller, message: ask.JobInfo) -> JobDetail:
        job = await self.lookup.read(caller.who, message.job)
        journal = await self.store.journal(job.id)
        if job.id != job.array_job_id:
            journal = [*await self._array_journal(job.array_job_id), *journal][-MAX_EVENTS:]
        steps = step_rows(job, await self.store.steps(job.id))
        # The rows come from the job as it is in memory, because they may depend on its identity.
        request = (await with_stored_parts(job, self.store)).request
        return msgspec.structs.replace(
            job_detail(self.state, job, journal),
            script=request.script,
            argv=list(request.argv),
            submit_line=request.submit_line,
            steps=steps,
        )

    async def _array_journal(self, array_job_id: JobId) -> list[JournalEntry]:
        """Return the lines of all tasks of an array.

        Slurm gives the id of the array to the task that starts last. Its later lines are its own.
        """
        lines = await self.store.journal(array_job_id)
        last = self.state.jobs.get(array_job_id) or await self.store.job(array_job_id)
        if last is None or last.array_task_id is None or last.start_at_unix is None:
            return lines
        return [*lines[:1], *(line for line in lines[1:] if line.at_unix < last.start_at_unix)]

    async def environment(self, caller: Caller, message: ask.JobEnvironment) -> JobVariables:
        job = await self.lookup.seen(caller.who, message.job)
        check_owner(job, who=caller.who)
        return variables_of(await with_whole_request(job, self.store))

    async def forecast(self, caller: Caller, message: ask.Forecast) -> ForecastRow:
        job = await self.lookup.seen(caller.who, message.job)
        return self.lookup.visibility(caller.who).forecast(await self.forecaster.of_job(self.state, job))

    async def steps(self, caller: Caller, message: ask.Steps) -> Rows[LiveStep]:
        return live_steps(self.state, Selection(message, self.lookup.visibility(caller.who)))

    def changes(self, caller: Caller, message: ask.Subscribe) -> AsyncGenerator[DeltaPage, None]:
        return self.change_feed.pages(message, self.lookup.visibility(caller.who))

    def ends(self, caller: Caller, message: ask.AwaitEnds) -> RowsOfEnds:
        show = row_maker(self.state, message.fields, now=self.clock())
        shown = self.lookup.visibility(caller.who).job_rows(show)
        return RowsOfEnds(self.end_waiters, message, shown)

    async def _selected(self, message: ask.Jobs, seen: Visibility) -> list[Job]:
        """Return the newest jobs that match the request, oldest first."""
        state, limit = self.state, min(message.limit, MAX_ROWS)
        wanted = Selection(message, seen)
        if message.ids and not message.finished:
            found = {job.id: job for number in wanted.numbers for job in state.named(JobId(number))}
        else:
            found = dict(state.jobs)
        if message.finished:
            by_name = len(message.users) == 1 and not message.users[0].isdigit()
            only = message.users[0] if by_name else None
            for job in await self.store.finished_jobs(user=only, limit=limit):
                found.setdefault(job.id, job)
        ids = sorted(found)
        chosen = await in_slices(
            ids,
            lambda some: [found[job_id] for job_id in some if wanted.has(found[job_id])],
            rows=TESTS_A_TURN,
        )
        return chosen[-limit:]
