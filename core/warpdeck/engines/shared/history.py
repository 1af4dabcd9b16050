"""The history of jobs and their measurements."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.controller.presenters.job_columns import job_row
from warpdeck.controller.state.state import State
from warpdeck.model import Job
from warpdeck.model.finished_jobs import FinishedQuery
from warpdeck.ports.caller import Caller
from warpdeck.ports.engine import RecordPage
from warpdeck.ports.store import JournalEntry, Store
from warpdeck.protocol import requests as ask
from warpdeck.protocol import results
from warpdeck.protocol.job_rows import EventRow, PastJobs, UsageCurves

from .job_lookup import JobLookup
from .job_records import RecordSearch


class CurveSource(Protocol):
    """Reads the usage of jobs and nodes over time."""

    async def curves(self, message: ask.Curves) -> UsageCurves: ...


@dataclass(frozen=True, kw_only=True)
class StateHistory:
    """The `EngineHistory` over the jobs of a `State` and of the store."""

    state: State
    store: Store
    search: RecordSearch
    curve_reader: CurveSource
    lookup: JobLookup
    clock: Callable[[], float]

    def records(self, caller: Caller, message: ask.Records) -> AsyncGenerator[RecordPage, None]:
        return self.search.pages(
            message, who=caller.who, seen=self.lookup.visibility(caller.who), now=self.clock()
        )

    async def past(self, caller: Caller, message: ask.Past) -> PastJobs:
        """Recently finished jobs are in memory, the others only in the store."""
        state, store = self.state, self.store
        query = self._query(caller, message.query)
        page = await store.search_finished(query, counted=message.counted)
        missing = [each for each in page.ids if each not in state.jobs]
        found = {job.id: job for job in await store.jobs(missing)}
        jobs = [state.jobs.get(each) or found.get(each) for each in page.ids]
        seen = self.lookup.visibility(caller.who)
        rows = [job_row(state, job) for job in jobs if job is not None and seen.sees(job)]
        return PastJobs(jobs=rows, total=page.total)

    async def costs(self, caller: Caller, message: ask.PastCosts) -> results.CostGroups:
        return results.CostGroups(groups=await self.store.finished_costs(self._query(caller, message.query)))

    def _query(self, caller: Caller, query: FinishedQuery) -> FinishedQuery:
        """Return the query for the jobs that the caller sees. If jobs are private, coordinators find only their own."""
        user = self.lookup.visibility(caller.who).past_user(query.user)
        return msgspec.structs.replace(query, user=user)

    async def events(self, caller: Caller, message: ask.Events) -> results.EventList:
        entries = await self.store.last_entries(message.limit)
        missing = {each.job_id for each in entries} - self.state.jobs.keys()
        stored = {job.id: job for job in await self.store.jobs(sorted(missing))}
        seen = self.lookup.visibility(caller.who)
        if seen.hides_jobs:
            known = {
                each.job_id: self.state.jobs.get(each.job_id) or stored.get(each.job_id) for each in entries
            }
            entries = [each for each in entries if (job := known[each.job_id]) is not None and seen.sees(job)]
        return results.EventList(
            events=[
                EventRow(
                    at=each.at_unix,
                    job=each.job_id,
                    label=_label(self.state.jobs.get(each.job_id) or stored.get(each.job_id), each),
                    text=each.text,
                )
                for each in entries
            ]
        )

    async def curves(self, caller: Caller, message: ask.Curves) -> UsageCurves:
        if bool(message.job) == bool(message.node):
            raise UserError("metrics need either a job or a node", "give one of them")
        if message.job:
            await self.lookup.seen(caller.who, message.job.partition(".")[0])
        else:
            self.lookup.visibility(caller.who).require("nodes")
        return await self.curve_reader.curves(message)


def _label(job: Job | None, entry: JournalEntry) -> str:
    """Return the label of an event's job, as the queue shows the job.

    The first record of an array stands for all of its pending tasks, until it becomes its last task. Its earlier
    events have the number of the array.
    """
    if job is None:
        return str(entry.job_id)
    starts = job.start_at_unix if job.start_at_unix is not None else job.end_at_unix
    is_first = job.array_task_id is not None and job.array_job_id == job.id
    if job.pending_tasks or (is_first and (starts is None or entry.at_unix < starts)):
        return str(job.id)
    return job.label()
