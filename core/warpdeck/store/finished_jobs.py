"""Search records of finished jobs in SQL: one narrow row per job, the search queries, and the cost of groups
of jobs.

A page is found along the index of its sort order by the key of the job next to it (`beside`). The thousandth
page therefore costs as much as the first one. Only a jump into the middle counts rows. A sort order without
an index reads every row that matches the clauses and keeps one page of them. Names and nodes are stored in
lower case, because searches use lower case.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.controller.presenters.search_records import ended_job, no_longer_finished, unknown_order
from warpdeck.model import Job, JobId
from warpdeck.model.finished_jobs import HOUR_S, NOT_FAILED, Clause, Cost, FinishedQuery, GroupCost
from warpdeck.notation.filters.job_filter import (
    NUMBER_FIELDS,
    OPERATORS,
    TIME_FIELDS,
    WORD,
    matching_states,
    number_of,
    padded_sweep,
    sweep_pattern,
)
from warpdeck.ports.store import FinishedPage

PUT = f"INSERT OR REPLACE INTO past VALUES ({','.join('?' * 22)})"
DROP = "DELETE FROM past WHERE id = ?"
BATCH = 1000
"""Maximum number of rows written at once. This bounds the memory when a million rows are filled in."""
_KEYS = {
    "end": "end_at",
    "job": "array_job_id",
    "state": "short",
    "name": "name",
    "user": "user",
    "account": "account",
    "partition": "partition",
    "qos": "qos",
    "nodes": "nodes",
    "cpus": "cpus",
    "gpus": "gpus",
    "mem": "mem_bytes",
    "time": "ran_s",
    "submit": "submit_at",
    "where": "node_list",
}
_TEXTS = {
    "id": "label",
    "name": "name",
    "user": "lower(user)",
    "node": "node_list",
    "part": "lower(partition)",
    "account": "lower(account)",
    "qos": "lower(qos)",
    "reason": "lower(reason)",
}
_TIMES = {"end": "end_at", "submit": "submit_at"}
_NUMBERS = {"gpu": "gpus", "cpu": "cpus", "nodes": "nodes"}
COSTS = f"""
COUNT(*), SUM(state NOT IN ({",".join(repr(state) for state in NOT_FAILED)})), SUM(ran_s * cpus), SUM(ran_s * gpus),
SUM(CASE WHEN util_pct IS NULL THEN 0.0 ELSE ran_s * gpus END), SUM(ran_s * gpus * COALESCE(util_pct, 0.0)) / 100,
SUM(CASE WHEN util_pct IS NULL THEN 0.0 ELSE ran_s * gpus * COALESCE(idle_pct, 0.0) END) / 100
"""
_KEPT_COSTS = "SUM(jobs), SUM(failed), SUM(cpu_s), SUM(gpu_s), SUM(measured_s), SUM(used_s), SUM(wasted_s)"
_KEPT_FIELDS = frozenset({"user", "part", "account", "qos", "reason", "state", "end"})
"""Fields of clauses about values that are kept of purged jobs."""


def write(db: sqlite3.Connection, jobs: Iterable[Job]) -> None:
    """Write the rows of finished jobs, and delete the rows of jobs that are in the queue again."""
    ended: list[tuple[Any, ...]] = []
    others: list[tuple[int]] = []
    for job in jobs:
        if job.is_finished and job.end_at_unix is not None:
            ended.append(_row(job))
        else:
            others.append((job.id,))
        if len(ended) >= BATCH:
            db.executemany(PUT, ended)
            ended.clear()
    db.executemany(PUT, ended)
    db.executemany(DROP, others)


def _row(job: Job) -> tuple[Any, ...]:
    kept = ended_job(job)
    return (
        kept.id,
        kept.label,
        kept.array_job_id,
        kept.name.lower(),
        kept.user,
        kept.account,
        kept.partition,
        kept.qos,
        kept.state,
        kept.state_short,
        kept.reason,
        kept.node_list.lower(),
        kept.nodes,
        kept.cpus,
        kept.gpus,
        kept.mem_bytes,
        kept.submit,
        kept.end,
        kept.ran_s,
        kept.gpu_util_pct,
        kept.gpu_idle_pct,
        padded_sweep(kept.sweep),
    )


def page(db: sqlite3.Connection, query: FinishedQuery, *, counted: bool) -> FinishedPage:
    """Return the ids of one page, and the total number of jobs if `counted` is true.

    Raises UserError for an unknown sort order.
    """
    where, values = _conditions(query)
    total = None
    if counted:
        total = db.execute(f"SELECT COUNT(*) FROM past WHERE {where}", values).fetchone()[0]
    key = _key(query.order)
    is_descending = query.descending != query.backwards
    if query.beside is not None:
        found = db.execute(f"SELECT {key} FROM past WHERE id = ?", (query.beside,)).fetchone()
        if found is None:
            raise no_longer_finished(query.beside)
        where += f" AND ({key}, id) {'<' if is_descending else '>'} (?, ?)"
        values += (found[0], query.beside)
    direction = "DESC" if is_descending else "ASC"
    rows = db.execute(
        f"SELECT id FROM past WHERE {where} ORDER BY {key} {direction}, id {direction} LIMIT ? OFFSET ?",
        (*values, query.limit, query.offset),
    )
    ids = [JobId(row[0]) for row in rows]
    return FinishedPage(ids=tuple(ids[::-1] if query.backwards else ids), total=total)


def costs(db: sqlite3.Connection, query: FinishedQuery) -> list[GroupCost]:
    """Return the cost of the jobs that match the query, by user, account, partition, state and reason.

    The page and the sort order of the query are ignored. Purged jobs are included, unless the query has conditions
    on values that are not kept of them (see `purge`). Their end is known to the day.
    """
    where, values = _conditions(query)
    names = "user, account, partition, state, reason"
    rows = db.execute(f"SELECT {names}, {COSTS} FROM past WHERE {where} GROUP BY {names}", values).fetchall()
    if all(clause.field in _KEPT_FIELDS for clause in query.clauses):
        rows += db.execute(
            f"SELECT {names}, {_KEPT_COSTS} FROM purged WHERE {where} GROUP BY {names}", values
        )
    return [
        GroupCost(
            user=row[0],
            account=row[1],
            partition=row[2],
            state=row[3],
            reason=row[4],
            cost=Cost(
                jobs=row[5],
                failed=row[6],
                cpu_hours=row[7] / HOUR_S,
                allocated=row[8] / HOUR_S,
                measured=row[9] / HOUR_S,
                used=row[10] / HOUR_S,
                wasted=row[11] / HOUR_S,
            ),
        )
        for row in rows
    ]


def _key(order: str) -> str:
    if order not in _KEYS:
        raise unknown_order(order)
    return _KEYS[order]


def _conditions(query: FinishedQuery) -> tuple[str, tuple[Any, ...]]:
    """Return all conditions of the query as SQL with their values."""
    found: list[tuple[str, Sequence[Any]]] = [("end_at <= ?", (_end_bound(query.until),))]
    if query.user is not None:
        found.append(("user = ?", (query.user,)))
    for clause in query.clauses:
        text, values = _condition(clause, now=time.time() if query.until is None else query.until)
        found.append((f"NOT ({text})" if clause.absent else text, values))
    return " AND ".join(text for text, _ in found), tuple(value for _, values in found for value in values)


def _end_bound(until: float | None) -> float:
    return sys.float_info.max if until is None else until


def _condition(clause: Clause, *, now: float) -> tuple[str, Sequence[Any]]:
    field, value = clause.field, clause.value
    if field in TIME_FIELDS and clause.sign in OPERATORS:
        return f"{_TIMES[field]} {clause.sign} ?", (now - number_of(clause),)
    if field in NUMBER_FIELDS and clause.sign in OPERATORS:
        return f"{_NUMBERS[field]} {clause.sign} ?", (number_of(clause),)
    if field == "state":
        return _of_states(clause)
    if field == "user" and clause.sign == "is":
        return "user = ?", (value,)
    if field == "sweep":
        return "instr(sweep, ?) > 0", (sweep_pattern(value),)
    if field in _TEXTS:
        return f"instr({_TEXTS[field]}, ?) > 0", (value,)
    if field != WORD:
        raise UserError(f"jobs cannot be searched by {field!r}", "see the help text of the filter")
    states, found = _of_states(clause)
    text_matches = " OR ".join(
        f"instr({column}, ?) > 0" for column in ("label", "name", "lower(user)", "node_list")
    )
    return f"({text_matches} OR instr(sweep, ?) > 0 OR {states})", (
        *(value, value, value, value),
        sweep_pattern(value),
        *found,
    )


def _of_states(clause: Clause) -> tuple[str, Sequence[Any]]:
    states = [state.value for state in matching_states(clause)]
    return f"state IN ({','.join('?' * len(states))})", states
