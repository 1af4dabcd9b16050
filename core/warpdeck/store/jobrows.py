"""Jobs decoded from their rows: each with its request, and with what it shares with others as one object."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from warpdeck.model import Job, Request, Resources

from .salvage import Salvage

MOST_REQUESTS = 100_000
"""That a reading of jobs keeps decoded: tasks of an array stand together and share one; a past of millions has millions."""
_ALIKE = ("name", "script", "submit_dir", "env", "step_variables", "limits")
"""What requests that come from one folder one after the other mostly have in common."""

NO_REQUEST = Request()
JOB = msgspec.msgpack.Decoder(Job)
_REQUEST = msgspec.msgpack.Decoder(Request)


def each_job(db: sqlite3.Connection, query: str, values: tuple[Any, ...], salvage: Salvage) -> Iterator[Job]:
    """Jobs with their requests, row by row: a hundred thousand rows at once would take 130 MB beside the jobs."""
    requests: dict[int, Request] = {}
    resources: dict[Resources, Resources] = {}
    last_from: dict[str, Request] = {}
    for *job_key, data, key, request in db.execute(query, values):
        if key not in requests:
            if len(requests) >= MOST_REQUESTS:
                requests.clear()
                resources.clear()
                last_from.clear()
            made = salvage.decode(_REQUEST, request, "requests", (key,))
            if made is None:
                continue
            requests[key] = made
            # Who asks for the same shares one object: a queue has few kinds, and the planner looks at who they are.
            asked = resources.setdefault(made.resources, made.resources)
            msgspec.structs.force_setattr(made, "resources", asked)
            _share(made, last_from.get(made.submit_dir, NO_REQUEST))
            last_from[made.submit_dir] = made
        job = salvage.decode(JOB, data, "runs" if len(job_key) > 1 else "jobs", tuple(job_key))
        if job is not None:
            yield msgspec.structs.replace(job, request=requests[key], user=sys.intern(job.user))


def _share(made: Request, before: Request) -> None:
    """What a request that was just decoded has in common with one before is one object: an environment alone takes kilobytes."""
    for name in _ALIKE:
        value, like = getattr(made, name), getattr(before, name)
        if value is not like and value == like:
            msgspec.structs.force_setattr(made, name, like)
