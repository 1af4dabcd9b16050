"""The jobs ahead of a waiting job, from the copy of the queue. The function is pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from warpdeck.controller.state.state import State
from warpdeck.model import Job, JobId, count_tasks
from warpdeck.protocol.site_rows import AheadRow

LEADERS = 3
"""Number of jobs that are named."""
NOT_IN_LINE = ("JobHeld", "Dependency", "BeginTime", "Reservation", "JobArrayTaskLimit")
"""Beginnings of the reasons of jobs that take nothing from other jobs now."""


def jobs_ahead(state: State, job: Job) -> tuple[int, list[AheadRow]]:
    """Return the number of waiting jobs and tasks ahead in the same partitions, and the first of them.

    Slurm considers jobs by priority, and those of equal priority by id. Its backfill may start later ones earlier.
    """
    ahead = sorted(_ahead(state, job), key=lambda each: _place(state, each))
    count = sum(count_tasks(each.pending_tasks) if each.pending_tasks else 1 for each in ahead)
    return count, [AheadRow(label=each.label(), user=each.user) for each in islice(ahead, LEADERS)]


def is_in_line(state: State, job: Job) -> bool:
    """Return whether a waiting job would start if its resources became free."""
    reason = state.planned.pending_reasons.get(job.id)
    return not job.held and not (reason is not None and reason.code.startswith(NOT_IN_LINE))


def _ahead(state: State, job: Job) -> Iterator[Job]:
    if not is_in_line(state, job):
        return
    partitions, place = _partitions(job), _place(state, job)
    others: Iterable[JobId] = state.index.pending
    for other in (state.jobs[job_id] for job_id in others):
        if other.id == job.id or _place(state, other) > place:
            continue
        if not partitions.isdisjoint(_partitions(other)) and is_in_line(state, other):
            yield other


def _place(state: State, job: Job) -> tuple[int, int]:
    return -state.planned.priorities.get(job.id, 0), job.id


def _partitions(job: Job) -> frozenset[str]:
    return frozenset(job.request.partition.split(","))
