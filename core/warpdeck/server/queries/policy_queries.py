"""Answers requests about policy: forecasts, priorities, shares, and the site's tables.

Answers are rows of siterows.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from warpdeck.base.errors import UserError
from warpdeck.controller.presenters import limit_use, priority_rows, site_tables, slurm_settings
from warpdeck.controller.presenters.job_columns import job_row
from warpdeck.controller.state.reservations import reservations
from warpdeck.model import JobId, JobState
from warpdeck.protocol import requests as ask
from warpdeck.protocol.job_rows import EventRow

if TYPE_CHECKING:
    from warpdeck.controller.loop.controller import Controller

Question = (
    ask.Priorities
    | ask.Shares
    | ask.LimitUse
    | ask.Partitions
    | ask.Reservations
    | ask.QosList
    | ask.Licenses
    | ask.Settings
    | ask.PluginOptions
    | ask.Past
    | ask.PastCosts
    | ask.Events
)


async def answer(controller: Controller, question: Question, named: Collection[JobId]) -> dict[str, Any]:
    """Return the answer. `named` are the jobs that the request names. Raises UserError."""
    controller.rules.update_usage()
    state = controller.state
    match question:
        case ask.Priorities():
            return await _priorities(controller, named if question.ids else None)
        case ask.Shares():
            rows = priority_rows.share_rows(state.site)
            return {"shares": rows, "half_life_s": state.site.half_life_s}
        case ask.LimitUse():
            return {"uses": limit_use.use_rows(state, controller.clock())}
        case ask.Past():
            return await _past(controller, question)
        case ask.PastCosts():
            return {"groups": await controller.store.finished_costs(question.query)}
        case ask.Events():
            return {"events": await _events(controller, limit=question.limit)}
        case _:
            return _site_table(controller, question)


def _site_table(controller: Controller, question: Question) -> dict[str, Any]:
    """Return one of the site's tables."""
    state, config = controller.state, controller.config
    match question:
        case ask.Partitions():
            table = site_tables.partition_rows(state, config)
            return {"partitions": table, "configured": bool(config.partitions)}
        case ask.Reservations():
            now = controller.clock()
            return {"reservations": site_tables.reservation_rows(reservations(state, now), now)}
        case ask.QosList():
            return {"qos": site_tables.qos_rows(config)}
        case ask.PluginOptions():
            return {"options": config.submission.plugin_options}
        case ask.Licenses():
            now = controller.clock()
            return {"licenses": site_tables.license_rows(state, reservations(state, now), now)}
        case ask.Settings():
            return {"settings": slurm_settings.settings(state, config)}
        case _:
            raise AssertionError(question)


async def _events(controller: Controller, *, limit: int) -> list[EventRow]:
    """Return the latest events.

    A task of an array is labeled as squeue prints it. The array's number labels the array's first record,
    which also represents its pending tasks. Tasks that ended long ago are labeled with their own id.
    """
    jobs = controller.state.jobs

    def label(job_id: JobId) -> str:
        job = jobs.get(job_id)
        return job.label() if job is not None and job.array_job_id != job_id else str(job_id)

    entries = await controller.store.last_entries(limit)
    return [
        EventRow(at=each.at_unix, job=each.job_id, label=label(each.job_id), text=each.text)
        for each in entries
    ]


async def _past(controller: Controller, question: ask.Past) -> dict[str, Any]:
    """Return a page of finished jobs. Recently finished jobs are in memory, the others only in the store."""
    state, store = controller.state, controller.store
    page = await store.search_finished(question.query, counted=question.counted)
    found = {job.id: job for job in await store.jobs([each for each in page.ids if each not in state.jobs])}
    jobs = [state.jobs.get(each) or found.get(each) for each in page.ids]
    return {"jobs": [job_row(state, job) for job in jobs if job is not None], "total": page.total}


def diagnose(controller: Controller, *, reset: bool, admin: bool) -> dict[str, Any]:
    """Return the scheduler's statistics and the current numbers of pending and running jobs.

    Raises UserError.
    """
    if reset:
        if not admin:
            raise UserError(
                "only root and the controller's user may do this",
                "ask an administrator",
                code="not_admin",
            )
        controller.statistics.reset(controller.clock())
    state = controller.state
    return controller.statistics.as_dict() | {
        "now": controller.clock(),
        "waiting": len(state.index.pending),
        "running": len(state.index.active),
    }


async def _priorities(controller: Controller, wanted: Collection[JobId] | None) -> dict[str, Any]:
    state = controller.state
    for job_id in wanted or ():
        job = state.jobs.get(job_id)
        if job is None or job.state is not JobState.PENDING:
            what = job.state.value if job else "not in the queue"
            raise UserError(
                f"job {job.label() if job else job_id} is not waiting: {what}",
                "only waiting jobs have a priority",
            )
    rows = await controller.forecaster.priorities(state, job_ids=wanted)
    settings = state.site.settings
    ties = "promised" if settings.backfill == "conservative" else settings.queue_order
    return {"jobs": rows, "weights": priority_rows.weights_by_part(settings.weights), "queue_order": ties}
