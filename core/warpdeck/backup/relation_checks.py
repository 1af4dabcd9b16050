"""Check SQLite's own structures, the references between tables, and the counters."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator

from .counters import read_counters
from .problem import IGNORED, NEXT_FREE, NOTHING, RECOVER, Problem

MAX_FAULTS = 100
"""Largest number of faults that SQLite reports. A damaged file has thousands."""
_ORPHANS = (
    ("runs", "job_id || ' ' || restarts", "job_id NOT IN (SELECT id FROM jobs)", "its job does not exist"),
    (
        "steps",
        "job_id || ' ' || restarts || ' ' || number",
        "job_id NOT IN (SELECT id FROM jobs)",
        "its job does not exist",
    ),
    (
        "curves",
        "job_id || ' ' || step || ' ' || node",
        "job_id NOT IN (SELECT id FROM jobs)",
        "its job does not exist",
    ),
    (
        "curves",
        "job_id || ' ' || step || ' ' || node",
        "step >= 0 AND job_id IN (SELECT id FROM jobs) AND NOT EXISTS "
        "(SELECT 1 FROM steps WHERE steps.job_id = curves.job_id AND steps.number = curves.step)",
        "its step does not exist",
    ),
    ("past", "id", "id NOT IN (SELECT id FROM jobs WHERE finished = 1)", "there is no finished job for it"),
    (
        "jobs",
        "id",
        "finished = 1 AND end_at IS NOT NULL AND id NOT IN (SELECT id FROM past)",
        "it is finished and missing in the table past, so the history does not show it",
    ),
    (
        "jobs",
        "id",
        "finished = 0 AND EXISTS (SELECT 1 FROM requests WHERE parts IS NOT NULL "
        "AND requests.array_job_id = COALESCE(jobs.request_key, jobs.array_job_id) "
        "AND parts NOT IN (SELECT sha256 FROM request_parts))",
        "its script and environment are missing, so it cannot start",
    ),
)
"""Table, its key, the condition of a wrong row, and the problem."""
_HIGHEST = """
SELECT MAX(id) FROM (SELECT MAX(id) AS id FROM jobs UNION ALL SELECT MAX(array_job_id) FROM requests UNION ALL
SELECT MAX(job_id) FROM runs UNION ALL SELECT MAX(id) FROM past
UNION ALL SELECT MAX(CAST(key AS INTEGER)) FROM set_aside WHERE source = 'jobs')
"""
_MADE_TWICE = """
SELECT uid, nonce FROM made WHERE (uid, nonce) IN (SELECT uid, nonce FROM made GROUP BY uid, nonce HAVING COUNT(*) > 1)
"""


def check_file(db: sqlite3.Connection) -> Iterator[Problem]:
    """Check the pages and indexes of the file, and foreign keys."""
    for (fault,) in db.execute(f"PRAGMA integrity_check({MAX_FAULTS})"):
        if fault != "ok":
            yield Problem(table="", key="", problem=f"SQLite reports: {fault}", salvage=RECOVER)
    for table, row, parent, _ in db.execute("PRAGMA foreign_key_check"):
        yield Problem(
            table=table, key=str(row), problem=f"it refers to a missing row of {parent}", salvage=NOTHING
        )


def check_relations(db: sqlite3.Connection) -> Iterator[Problem]:
    """Check that runs, steps, curves and search records belong to jobs."""
    for table, key, condition, problem in _ORPHANS:
        salvage = NOTHING if table == "jobs" else IGNORED
        for (found,) in db.execute(f"SELECT {key} FROM {table} WHERE {condition}"):
            yield Problem(table=table, key=str(found), problem=problem, salvage=salvage)


def check_parts(db: sqlite3.Connection) -> Iterator[Problem]:
    """Check the digests of the large parts of requests."""
    for uid, sha256, size, content in db.execute("SELECT uid, sha256, size, content FROM request_parts"):
        if (hashlib.sha256(content).hexdigest(), len(content)) != (sha256, size):
            yield Problem(
                table="request_parts",
                key=f"{uid} {sha256}",
                problem="the content does not have this digest and size",
                salvage=NOTHING,
            )


def check_counters(db: sqlite3.Connection) -> Iterator[Problem]:
    """Check that the counter of job ids is above all ids, and that no nonce occurs twice."""
    counters, highest = read_counters(db), db.execute(_HIGHEST).fetchone()[0] or 0
    if not counters.controller_id:
        yield Problem(
            table="meta",
            key="controller_id",
            problem="the controller has no id",
            salvage="the next start makes a new one, and the agents do not know it",
        )
    if counters.next_job_id <= highest:
        yield Problem(
            table="meta",
            key="next_job_id",
            problem=f"the next job id is {counters.next_job_id}, but job {highest} is known",
            salvage=NEXT_FREE,
        )
    for uid, nonce in db.execute(_MADE_TWICE):
        yield Problem(table="made", key=f"{uid} {nonce}", problem="the nonce occurs twice", salvage=NOTHING)
