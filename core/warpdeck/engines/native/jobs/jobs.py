"""The jobs in the queue: their rows, their details and their forecasts."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any

import msgspec

from warpdeck.base.chunking import TESTS_A_TURN, LazyRows, Rows, in_slices
from warpdeck.controller.loop.end_waiters import EndWaiters
from warpdeck.controller.planning.forecast import Forecaster
from warpdeck.controller.presenters.job_columns import shower
from warpdeck.controller.presenters.job_detail import job_detail
from warpdeck.controller.presenters.step_rows import live_steps, step_rows
from warpdeck.controller.state.state import State
from warpdeck.model import Job, JobId, NodeName
from warpdeck.ports.caller import ClientIdentity, Principal
from warpdeck.ports.engine import DeltaPage
from warpdeck.ports.ports import Store
from warpdeck.protocol import requests as ask
from warpdeck.protocol.job_rows import JobDetail, JobRow, JobVariables, LiveStep
from warpdeck.protocol.site_rows import ForecastRow

from .job_lookup import JobLookup
from .resubmit import variables_of
from .selection import Selection
from .subscriptions import Changes, RowsOfEnds

MAX_ROWS = 100_000
"""Maximum number of jobs in one answer."""
MAX_EVENTS = 200
"""Maximum number of lines of history in the details of a job of an array."""


class NativeJobs:
    """The `EngineJobs` of the controller."""

    def __init__(
        self,
        state: State,
        store: Store,
        *,
        lookup: JobLookup,
        forecaster: Forecaster,
        changes: Changes,
        ends: EndWaiters,
        clock: Callable[[], float],
    ) -> None:
        self._state = state
        self._store = store
        self._lookup = lookup
        self._forecaster = forecaster
        self._changes = changes
        self._ends = ends
        self._clock = clock

    def owner(self, job_id: JobId, *, restarts: int, node: NodeName) -> Principal | None:
        job = self._state.jobs.get(job_id)
        if job is None or job.restarts != restarts or node not in [share.node for share in job.shares]:
            return None
        return Principal(user=job.user, uid=job.uid)

    async def rows(self, client: ClientIdentity, message: ask.Jobs) -> Rows[JobRow | dict[str, Any]]:
        show = shower(self._state, message.fields, now=self._clock())
        return LazyRows(await self._selected(message), show)

    async def detail(self, client: ClientIdentity, message: ask.JobInfo) -> JobDetail:
        job = await self._lookup.visible(client.who, message.job)
        journal = await self._store.journal(job.id)
        if job.id != job.array_job_id:
            journal = [*await self._store.journal(job.array_job_id), *journal][-MAX_EVENTS:]
        detail = job_detail(self._state, job, journal)
        return msgspec.structs.replace(detail, steps=step_rows(job, await self._store.steps(job.id)))

    async def environment(self, client: ClientIdentity, message: ask.JobEnvironment) -> JobVariables:
        return variables_of(await self._lookup.find(message.job), who=client.who)

    async def forecast(self, client: ClientIdentity, message: ask.Forecast) -> ForecastRow:
        return await self._forecaster.of_job(self._state, await self._lookup.find(message.job))

    async def steps(self, client: ClientIdentity, message: ask.Steps) -> Rows[LiveStep]:
        return live_steps(self._state, Selection(message))

    def changes(self, client: ClientIdentity, message: ask.Subscribe) -> AsyncGenerator[DeltaPage, None]:
        return self._changes.pages(message)

    def ends(self, client: ClientIdentity, message: ask.AwaitEnds) -> RowsOfEnds:
        return RowsOfEnds(self._ends, message, shower(self._state, message.fields, now=self._clock()))

    async def _selected(self, message: ask.Jobs) -> list[Job]:
        """Return the newest jobs that match the request, oldest first."""
        state, limit = self._state, min(message.limit, MAX_ROWS)
        wanted = Selection(message)
        if message.ids and not message.finished:
            found = {job.id: job for number in wanted.numbers for job in state.named(JobId(number))}
        else:
            found = dict(state.jobs)
        if message.finished:
            by_name = len(message.users) == 1 and not message.users[0].isdigit()
            only = message.users[0] if by_name else None
            for job in await self._store.finished_jobs(user=only, limit=limit):
                found.setdefault(job.id, job)
        ids = sorted(found)
        chosen = await in_slices(
            ids,
            lambda some: [found[job_id] for job_id in some if wanted.has(found[job_id])],
            rows=TESTS_A_TURN,
        )
        return chosen[-limit:]
