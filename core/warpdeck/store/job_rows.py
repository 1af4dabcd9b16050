"""Decode jobs from their rows.

Each job gets its request, and equal values of several jobs share one object.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from warpdeck.model import Job, Request, Resources

from .salvage import Salvage

MAX_REQUESTS = 100_000
"""Maximum number of decoded requests kept while jobs are read. Tasks of an array are adjacent and share one
request. A history of millions of jobs can have millions of requests.
"""
JOIN = """
SELECT jobs.id, jobs.data, requests.array_job_id, requests.data FROM jobs
JOIN requests ON requests.array_job_id = COALESCE(jobs.request_key, jobs.array_job_id)
"""
"""Selects jobs with their requests, in the columns that `each_job` expects."""
_SHARED_FIELDS = ("name", "script", "submit_dir", "env", "step_variables", "limits")
"""Fields that are mostly equal in consecutive requests from the same folder."""

NO_REQUEST = Request()
JOB = msgspec.msgpack.Decoder(Job)
_REQUEST = msgspec.msgpack.Decoder(Request)


def each_job(db: sqlite3.Connection, query: str, values: tuple[Any, ...], salvage: Salvage) -> Iterator[Job]:
    """Yield jobs with their requests, row by row.

    A hundred thousand rows fetched at once would take 130 MB in addition to the jobs.
    """
    requests: dict[int, Request] = {}
    resources: dict[Resources, Resources] = {}
    last_from: dict[str, Request] = {}
    for *job_key, data, key, request in db.execute(query, values):
        if key not in requests:
            if len(requests) >= MAX_REQUESTS:
                requests.clear()
                resources.clear()
                last_from.clear()
            made = salvage.decode(_REQUEST, request, "requests", (key,))
            if made is None:
                continue
            requests[key] = made
            # Equal resource requests share one object. A queue has few different ones, and the planner
            # compares them by identity.
            shared = resources.setdefault(made.resources, made.resources)
            msgspec.structs.force_setattr(made, "resources", shared)
            _share(made, last_from.get(made.submit_dir, NO_REQUEST))
            last_from[made.submit_dir] = made
        job = salvage.decode(JOB, data, "runs" if len(job_key) > 1 else "jobs", tuple(job_key))
        if job is not None:
            yield msgspec.structs.replace(job, request=requests[key], user=sys.intern(job.user))


def _share(made: Request, before: Request) -> None:
    """Share equal fields between consecutive requests, because one environment can take kilobytes."""
    for name in _SHARED_FIELDS:
        value, earlier = getattr(made, name), getattr(before, name)
        if value is not earlier and value == earlier:
            msgspec.structs.force_setattr(made, name, earlier)
