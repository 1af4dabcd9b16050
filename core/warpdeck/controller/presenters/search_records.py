"""Search records of finished jobs, with the same strings as the rows of the jobs, and queries over these
records.

`page` and `costs` define the results that every store must return. The SQLite store computes the results in
SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.model import Job, JobId
from warpdeck.model.finished_jobs import (
    FINISHED_ORDERS,
    Cost,
    EndedJob,
    FinishedQuery,
    GroupCost,
    cost_of,
    end_text,
)
from warpdeck.notation.filters.job_filter import holds
from warpdeck.ports.store import FinishedPage

from .job_columns import RECORD_COLUMNS
from .reasons import never_started
from .usage_rows import usage_row


def ended_job(job: Job) -> EndedJob:
    """Return the search record of a finished job. The job must have its request."""
    assert job.end_at_unix is not None
    use = usage_row(job) if job.shares else None
    start = job.start_at_unix
    _, unstarted = never_started(job)
    return EndedJob(
        **{name: value(job) for name, value in _AS_IN_ROWS.items()},
        reason=unstarted
        or end_text(
            state=job.state.value,
            exit_code=str(job.exit) if job.exit else "",
            cause=job.exit.cause if job.exit else "",
        ),
        ran_s=0.0 if start is None else max(0.0, job.end_at_unix - start),
        gpu_util_pct=use.gpu_util_pct if use else None,
        gpu_idle_pct=use.gpu_idle_pct if use else None,
    )


_AS_IN_ROWS = {name: RECORD_COLUMNS[name] for name in EndedJob.__struct_fields__ if name in RECORD_COLUMNS}
_KEYS: dict[str, Callable[[EndedJob], Any]] = {
    "end": lambda job: job.end,
    "job": lambda job: job.array_job_id,
    "state": lambda job: job.state_short,
    "name": lambda job: job.name.lower(),
    "user": lambda job: job.user,
    "account": lambda job: job.account,
    "partition": lambda job: job.partition,
    "qos": lambda job: job.qos,
    "nodes": lambda job: job.nodes,
    "cpus": lambda job: job.cpus,
    "gpus": lambda job: job.gpus,
    "mem": lambda job: job.mem_bytes,
    "time": lambda job: job.ran_s,
    "submit": lambda job: job.submit,
    "where": lambda job: job.node_list.lower(),
}


def unknown_order(order: str) -> UserError:
    """Return the error for an unknown sort order."""
    return UserError(
        f"finished jobs cannot be sorted by {order!r}", f"choose one of {', '.join(FINISHED_ORDERS)}"
    )


def no_longer_finished(job: int) -> UserError:
    """Return the error for a page next to a job that is no longer finished because it was requeued."""
    return UserError(f"job {job} is no longer in the history", "search again", code="moved")


def page(jobs: Iterable[EndedJob], query: FinishedQuery, *, counted: bool, now: float) -> FinishedPage:
    """Return the ids of one page. Raises UserError."""
    if query.order not in _KEYS:
        raise unknown_order(query.order)
    key = _KEYS[query.order]
    chosen = _chosen(jobs, query, now=now)
    ordered = sorted(((key(job), job.id) for job in chosen), reverse=query.descending != query.backwards)
    first = query.offset
    if query.beside is not None:
        numbers = [number for _, number in ordered]
        if query.beside not in numbers:
            raise no_longer_finished(query.beside)
        first += numbers.index(query.beside) + 1
    ids = [JobId(number) for _, number in ordered[first : first + query.limit]]
    return FinishedPage(
        ids=tuple(ids[::-1] if query.backwards else ids), total=len(chosen) if counted else None
    )


def costs(jobs: Iterable[EndedJob], query: FinishedQuery, *, now: float) -> list[GroupCost]:
    """Return the cost of the jobs by user, account, partition, state and reason. Raises UserError."""
    found: dict[tuple[str, str, str, str, str], Cost] = {}
    for job in _chosen(jobs, query, now=now):
        group = (job.user, job.account, job.partition, job.state, job.reason)
        cost = cost_of(
            state=job.state,
            ran_s=job.ran_s,
            cpus=job.cpus,
            gpus=job.gpus,
            util_pct=job.gpu_util_pct,
            idle_pct=job.gpu_idle_pct,
        )
        found[group] = found.get(group, Cost()).plus(cost)
    return [
        GroupCost(user=user, account=account, partition=partition, state=state, reason=reason, cost=cost)
        for (user, account, partition, state, reason), cost in found.items()
    ]


def _chosen(jobs: Iterable[EndedJob], query: FinishedQuery, *, now: float) -> list[EndedJob]:
    test = holds(query.clauses, now=now if query.until is None else query.until)
    return [
        job
        for job in jobs
        if query.user in (None, job.user) and (query.until is None or job.end <= query.until) and test(job)
    ]
