"""Check that every row can be decoded, and that its columns agree with the data in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from warpdeck.model import Condition, Job, JobCurve, Node, Request, Reservation
from warpdeck.model.created_by_nonce import CreatedObject
from warpdeck.model.ranges import count_tasks, iter_tasks
from warpdeck.model.step import Step
from warpdeck.ports.store import UsageRecord
from warpdeck.store.salvage import KEYS, Salvage
from warpdeck.store.schema import WHOLE_JOB

from .problem import NOTHING, PLACEHOLDER, SET_ASIDE, SET_ASIDE_WITH_JOBS, Problem

Key = tuple[Any, ...]
_ROWS: dict[str, tuple[type[Any], Callable[[Any], Key]]] = {
    "requests": (Request, lambda request: ()),
    "nodes": (Node, lambda node: (node.name,)),
    "reservations": (Reservation, lambda each: (each.name,)),
    "usage": (UsageRecord, lambda row: row.key),
    "steps": (Step, lambda step: (step.job_id, step.restarts, step.number)),
    "curves": (
        JobCurve,
        lambda each: (each.job_id, WHOLE_JOB if each.step is None else each.step, each.node),
    ),
    "conditions": (Condition, lambda each: (each.node, each.at_unix)),
    "made": (CreatedObject, lambda each: (each.uid, each.request_id.nonce)),
}
"""Table -> the type of its data, and the key in the data. An empty key is not compared."""
_SALVAGE = {"requests": SET_ASIDE_WITH_JOBS, "nodes": PLACEHOLDER}
_REQUEST = msgspec.msgpack.Decoder(Request)
_JOB = msgspec.msgpack.Decoder(Job)
_JOBS = """
SELECT jobs.id, jobs.array_job_id, jobs.user, jobs.state, jobs.finished, jobs.submit_at, jobs.end_at, jobs.data,
COALESCE(jobs.request_key, jobs.array_job_id), requests.data FROM jobs
LEFT JOIN requests ON requests.array_job_id = COALESCE(jobs.request_key, jobs.array_job_id)
ORDER BY jobs.array_job_id, jobs.id
"""
_RUNS = """
SELECT runs.job_id, runs.restarts, runs.data, requests.data FROM runs
LEFT JOIN requests ON requests.array_job_id = COALESCE(runs.request_key, runs.array_job_id)
"""


def check_rows(db: sqlite3.Connection) -> Iterator[Problem]:
    """Check the rows of all tables except those of jobs."""
    for table, (kind, key_of) in _ROWS.items():
        decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(kind)
        columns = ", ".join(KEYS[table])
        for data, *key in db.execute(f"SELECT data, {columns} FROM {table}"):
            value, reason = _decode(decoder, data, table)
            if value is None:
                yield Problem(
                    table=table, key=_text(key), problem=reason, salvage=_SALVAGE.get(table, SET_ASIDE)
                )
            elif (known := key_of(value)) and tuple(known) != tuple(key):
                yield _differs(table, key, f"its data have the key {_text(known)}")


class JobCheck:
    """Checks the rows of jobs, and passes decoded jobs on: each submission, and each earlier start."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def check(
        self, on_submission: Callable[[Sequence[Job]], None], on_run: Callable[[Job], None]
    ) -> Iterator[Problem]:
        """Yield the problems of all jobs and earlier starts."""
        members: list[Job] = []
        is_complete = True
        for row in self._db.execute(_JOBS):
            job, problems = _check_job(row)
            yield from problems
            if members and row[1] != members[0].array_job_id:
                yield from _finish(members, is_complete, on_submission)
                members, is_complete = [], True
            if job is None:
                is_complete = False
            else:
                members.append(job)
        yield from _finish(members, is_complete, on_submission)
        for *key, data, request in self._db.execute(_RUNS):
            job, reason = _decode_job(data, request)
            if job is None:
                yield Problem(table="runs", key=_text(key), problem=reason, salvage=SET_ASIDE)
            elif (job.id, job.restarts) != tuple(key):
                yield _differs("runs", key, f"its data are of job {job.id}, start {job.restarts}")
            else:
                on_run(job)


def _finish(
    members: Sequence[Job], is_complete: bool, on_submission: Callable[[Sequence[Job]], None]
) -> Iterator[Problem]:
    """Check that the records of an array contain each task once, and pass the records on."""
    if not members:
        return
    array = members[0].request.array
    if array is not None and is_complete:
        tasks = sorted(task for job in members for task in _tasks(job))
        if tasks != sorted(iter_tasks(array.ranges)):
            yield Problem(
                table="jobs",
                key=str(members[0].array_job_id),
                problem=f"its records hold {len(tasks)} tasks of its array, not each of its {count_tasks(array.ranges)} tasks once",
                salvage=NOTHING,
            )
    on_submission(members)


def _tasks(job: Job) -> Iterator[int]:
    if job.array_task_id is not None:
        yield job.array_task_id
    else:
        yield from iter_tasks(job.pending_tasks)


def _check_job(row: Sequence[Any]) -> tuple[Job | None, list[Problem]]:
    key = row[:1]
    job, reason = _decode_job(row[7], row[9])
    if job is None:
        return None, [Problem(table="jobs", key=_text(key), problem=reason, salvage=SET_ASIDE)]
    columns = tuple(row[:7])
    known = (
        *(job.id, job.array_job_id, job.user, job.state.value),
        *(int(job.is_finished), job.submit_at_unix, job.end_at_unix),
    )
    problems = []
    if columns != known:
        names = ("id", "array_job_id", "user", "state", "finished", "submit_at", "end_at")
        wrong = [name for name, a, b in zip(names, columns, known, strict=True) if a != b]
        problems.append(_differs("jobs", key, f"the columns {', '.join(wrong)} differ from its data"))
    if job.is_finished and job.end_at_unix is None:
        problems.append(_differs("jobs", key, "it is finished and has no end"))
    return job, problems


def _decode_job(data: Any, request: Any) -> tuple[Job | None, str]:
    """Return the job with its request, or None and the reason."""
    if request is None:
        return None, "its request is missing"
    asked, reason = _decode(_REQUEST, request, "requests")
    if asked is None:
        return None, f"its request cannot be read: {reason}"
    job, reason = _decode(_JOB, data, "jobs")
    return (None, reason) if job is None else (msgspec.structs.replace(job, request=asked), "")


def _decode(decoder: msgspec.msgpack.Decoder[Any], data: Any, table: str) -> tuple[Any, str]:
    """Return the value, or None and the reason."""
    salvage = Salvage()
    value = salvage.decode(decoder, data, table, ())
    return value, next(iter(salvage.unreadable.values()), "")


def _differs(table: str, key: Sequence[Any], problem: str) -> Problem:
    return Problem(table=table, key=_text(key), problem=problem, salvage=NOTHING)


def _text(key: Sequence[Any]) -> str:
    return " ".join(map(str, key))
