"""Handles submissions: looks up the data that their event needs, and applies it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.controller.events.events import Submitted
from warpdeck.controller.launch.resubmission import nested_submission
from warpdeck.model import Request, Snapshot
from warpdeck.protocol import requests as ask
from warpdeck.protocol.site_rows import ForecastRow
from warpdeck.server.connection import Connection
from warpdeck.server.nonces import marked
from warpdeck.server.queries.job_lookup import components_of, find_job, finished_jobs

from .resubmit import asked_again


async def submit(connection: Connection, message: ask.Submit) -> dict[str, Any]:
    """Submit a job with all of its components. Raises UserError."""
    return await _submit(connection, message, *_nested(connection, message))


async def rerun(connection: Connection, message: ask.Rerun) -> dict[str, Any]:
    """Submit a job, or one task of an array, again as it was.

    All components of a heterogeneous job are submitted.
    """
    reference = message.job
    task = reference.partition("_")[2]
    number = int(task) if task.isdecimal() else None
    family = await components_of(connection, await find_job(connection, reference))
    who = connection.who
    return await _submit(connection, message, *(asked_again(each, who=who, task=number) for each in family))


async def dry_run(connection: Connection, message: ask.DryRun) -> ForecastRow:
    """Return the expected outcome of a submission now. Raises UserError."""
    controller = connection.server.controller
    asked = await submission(connection, *_nested(connection, message))
    return await controller.forecaster.of_request(controller.state, asked)


async def submission(connection: Connection, request: Request, *components: Request) -> Submitted:
    """Return the submission event together with the data that must be looked up for it.

    Raises UserError.
    """
    requests = (request, *components)
    for each in requests:
        _refuse_nul(each)
    asked = dict.fromkeys(each.dependencies for each in requests if each.dependencies)
    clauses = [clause for dependencies in asked for clause in dependencies.clauses]
    numbers = [clause.job_id for clause in clauses if clause.kind != "singleton"]
    ended = await finished_jobs(connection, numbers)
    await connection.server.controller.rules.learn_groups([connection.who.user])
    return Submitted(principal=connection.who, request=request, components=components, ended=ended)


def uploaded(connection: Connection, snapshot: Snapshot | None) -> Snapshot | None:
    """Return the snapshot with the facts of the tree that the caller has uploaded. Raises UserError."""
    return connection.server.trees.uploaded(connection.who.uid, snapshot) if snapshot else None


async def _submit(
    connection: Connection, message: ask.Submit | ask.Rerun, request: Request, *components: Request
) -> dict[str, Any]:
    own = [
        msgspec.structs.replace(each, snapshot=uploaded(connection, each.snapshot))
        for each in (request, *components)
    ]
    event = marked(await submission(connection, *own), message)
    made = (await connection.server.controller.apply(event)).created
    assert made is not None
    return {"job_id": made.job_id, "label": made.label, "tasks": made.tasks, "notes": [*made.notes]}


def _nested(connection: Connection, message: ask.Submit | ask.DryRun) -> Sequence[Request]:
    """Return the requests of all components.

    If a job's process submits, they are adapted to the submit host.
    """
    caller, requests = connection.caller, (message.request, *message.components)
    job = connection.server.controller.state.jobs.get(caller.job_id) if caller is not None else None
    if caller is None or job is None:
        return requests
    return [nested_submission(each, job, caller.node) for each in requests]


def _refuse_nul(request: Request) -> None:
    """Refuse a request with a NUL character, because no process can receive one. Raises UserError."""
    resources = request.resources
    words = (
        *(request.name, request.script, request.output, request.error, request.submit_dir, request.chdir),
        *(*request.script_args, *request.argv, *request.env, *request.env.values()),
        *(*resources.nodelist, *resources.exclude),
    )
    if any("\0" in word for word in words):
        raise UserError(
            "the request contains a NUL character", "remove it from the script, arguments and environment"
        )
