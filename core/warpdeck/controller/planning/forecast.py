"""Forecasts for a pending job, or for a request that has not been submitted.

The policy runs on an immutable view in a separate thread, because on a large cluster one answer takes as long
as a planning pass and the main loop must not wait for it. There is only one thread. Requests are therefore
answered one after another, and all of them together use at most one core. This also holds if a client stops
waiting.

A request is tested by a dry run: it is submitted like any other request, in a transaction that is rolled back
at once. It is therefore refused for the same reasons, and with the same messages, as a real submission.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.controller.events.events import Submitted
from warpdeck.controller.presenters.priority_rows import priority_rows
from warpdeck.controller.presenters.reasons import NEVER_STARTED, reason_row
from warpdeck.controller.reducers.submitting import submit
from warpdeck.controller.state.admission import NEVER_STARTS
from warpdeck.controller.state.planner_view import build_view
from warpdeck.controller.state.state import State, replace
from warpdeck.controller.state.transaction import Transaction
from warpdeck.model import Job, JobId, JobState
from warpdeck.notation.values.hostlist import collapse
from warpdeck.policy import (
    ESTIMATED_CODES,
    Estimate,
    PlannerSettings,
    PlannerView,
    StartEstimates,
    dry_run,
    estimate_starts,
    priorities,
)
from warpdeck.protocol.site_rows import AheadRow, ForecastRow, PriorityRow

T = TypeVar("T")
ESTIMATE_S = 15.0
"""Seconds between estimates of the starts of jobs far back in the queue."""
LOOK_S = 1.0
"""Seconds between checks whether a pending job has no start time from a pass."""
ESTIMATE_PAUSE = 100.0
"""Pause after an estimate, as a multiple of the time that the estimate took. Estimates therefore use at most
one percent of a core.
"""
MAX_RESENT = 2000
"""Maximum number of rows that are sent again after one estimate. The jobs with the earliest starts come
first.
"""
FEW_JOBS = 2000
"""Maximum number of pending jobs, and of nodes, for which an estimate takes only some ten milliseconds."""


class Forecaster:
    """Answers forecast requests one after another. `clock` returns Unix seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = asyncio.Lock()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="forecast")

    async def of_job(self, state: State, job: Job) -> ForecastRow:
        """Return the forecast for an existing job."""
        async with self._lock:
            job = state.jobs.get(job.id, job)
            if job.state is not JobState.PENDING:
                return _of_started(job)
            now = self._clock()
            view = build_view(state, now=now)
            # A component of a heterogeneous job starts together with its leader.
            requested = job.array_job_id if job.has_leader else job.id
            return await self._ask(view, now, state.site.settings, requested, label=job.label())

    async def of_request(self, state: State, event: Submitted) -> ForecastRow:
        """Return the forecast for a request, as if it were submitted now.

        A refusal is returned as a forecast too.
        """
        async with self._lock:
            now = self._clock()
            try:
                view, job_id = view_with_request(state, event, now=now)
            except UserError as error:
                return ForecastRow(
                    verdict="never",
                    code=error.code,
                    sentence=error.message.removeprefix(NEVER_STARTS),
                    hint=error.hint,
                    details=error.details,
                )
            return await self._ask(view, now, state.site.settings, job_id, label="")

    async def priorities(self, state: State, *, job_ids: Collection[JobId] | None) -> list[PriorityRow]:
        """Return the priority rows of the pending jobs, highest first. If `job_ids` is None, return all."""
        async with self._lock:
            now = self._clock()
            view, settings = build_view(state, now=now), state.site.settings
            return await self._in_thread(partial(priority_rows, view, now, settings, job_ids=job_ids))

    async def _ask(
        self, view: PlannerView, now: float, settings: PlannerSettings, job_id: JobId, *, label: str
    ) -> ForecastRow:
        return await self._in_thread(partial(forecast_row, view, now, settings, job_id, label=label))

    async def estimate(self, state: State) -> StartEstimates:
        """Return the estimated starts of all jobs that wait for resources.

        If there are few jobs and nodes, the work is done in the event loop, because it takes only
        milliseconds.
        """
        now, settings = self._clock(), state.site.settings
        view = build_view(state, now=now)
        besides = frozenset(
            job_id
            for job_id, reason in state.planned.pending_reasons.items()
            if reason.code not in ESTIMATED_CODES
        )
        work = partial(
            estimate_starts, view, now, settings, priorities=state.planned.priorities, besides=besides
        )
        if len(view.pending) <= FEW_JOBS and len(view.nodes) <= FEW_JOBS:
            return work()
        async with self._lock:
            return await self._in_thread(work)

    async def keep_estimates_current(
        self, state: State, *, planned: asyncio.Event, notify: Callable[[list[JobId]], None]
    ) -> None:
        """Keep the start estimates up to date for the jobs without a start time from the passes.

        An estimate for more jobs takes longer, and is made less often.
        """
        loop = asyncio.get_running_loop()
        while True:
            await planned.wait()
            planned.clear()
            pause_s = LOOK_S
            if any(
                reason.code in ESTIMATED_CODES and reason.expected_start_unix is None
                for reason in state.planned.pending_reasons.values()
            ):
                begun = loop.time()
                before, state.planned.start_estimates = (
                    state.planned.start_estimates,
                    await self.estimate(state),
                )
                pause_s = max(ESTIMATE_S, (loop.time() - begun) * ESTIMATE_PAUSE)
                notify(state.planned.start_estimates.changed_since(before, self._clock())[:MAX_RESENT])
            await asyncio.sleep(pause_s)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def forecast_row(
    view: PlannerView, now: float, settings: PlannerSettings, job_id: JobId, *, label: str
) -> ForecastRow:
    """Return the forecast for a job in the view's queue. This takes at least as long as a planning pass."""
    estimate = dry_run(view, now, settings, job_id)
    row = _row(view, estimate, job_id, label=label)
    if estimate.reason is None or row.verdict != "later" or row.expected_start is not None:
        return row
    if estimate.reason.code not in ESTIMATED_CODES:
        return msgspec.structs.replace(row, untold=_unknown_start_reason(estimate.reason.code))
    ranks = priorities(view, now, settings)
    at_unix = estimate_starts(view, now, settings, priorities=ranks).start_of(job_id)
    if at_unix is None:
        return msgspec.structs.replace(row, untold="it waits for jobs without a time limit")
    return msgspec.structs.replace(row, expected_start=at_unix, rough=True)


def _unknown_start_reason(code: str) -> str:
    """Explain why no start time can be given for a job with this pending reason."""
    if code.startswith("JobHeld"):
        return "it is held"
    if code.startswith("Dependency"):
        return "it waits for other jobs to end"
    if code == "JobArrayTaskLimit":
        return "it waits for tasks of its own array to end"
    if code.startswith(("QOS", "Assoc", "Max", "Licenses")):
        return "it waits for other jobs under the same limit"
    if code.startswith(("Partition", "Reservation")):
        return "an admin must change the partition or reservation first"
    return "it is unknown when its nodes will accept jobs again"


def view_with_request(state: State, event: Submitted, *, now: float) -> tuple[PlannerView, JobId]:
    """Return a view with the request in the queue, and the id of the request's job. The state is unchanged
    afterwards.

    A job that was submitted with a hold is released in the view. Raises UserError.
    """
    txn = Transaction(state, now)
    try:
        job = submit(txn, event).job
        assert job is not None
        for each in state.array_members(job.id):
            if each.held:
                txn.put_job(replace(each, held=False))
        return build_view(state, now=now), job.id
    finally:
        txn.rollback()


def _of_started(job: Job) -> ForecastRow:
    """Return the forecast of a job that is not pending.

    If the job ended without a start, the forecast contains the reason.
    """
    reason = reason_row(job, None)
    is_told = job.state in (JobState.CONFIGURING, JobState.RUNNING)
    return ForecastRow(
        job=job.label(),
        state=job.state.value,
        code=reason.code if reason else "",
        sentence=reason.sentence if reason else job.notice if is_told else "",
    )


def _row(view: PlannerView, estimate: Estimate, job_id: JobId, *, label: str) -> ForecastRow:
    requested = next(job for job in view.pending if job.id == job_id)
    if estimate.starts_now:
        return ForecastRow(
            verdict="now",
            job=label,
            id=job_id,
            partition=estimate.partition,
            cpus=estimate.cpus,
            node_list=collapse(estimate.nodes),
            priority=estimate.priority,
        )
    reason = estimate.reason
    first_ahead = set(estimate.first_ahead)
    named = {job.id: AheadRow(label=job.name, user=job.user) for job in view.pending if job.id in first_ahead}
    code = reason.code if reason else "None"
    return ForecastRow(
        verdict="never" if code in NEVER_STARTED.values() else "later",
        job=label,
        id=job_id,
        partition=requested.partition,
        cpus=sum(
            each.resources.task_count() * each.resources.cpus_per_task
            for each in (requested, *requested.components)
        ),
        expected_start=reason.expected_start_unix if reason else None,
        code=code,
        sentence=reason.sentence if reason else "not yet considered by the scheduler",
        priority=estimate.priority,
        ahead=estimate.ahead,
        leaders=[named[job_id] for job_id in estimate.first_ahead],
        changes=list(estimate.changes),
    )
