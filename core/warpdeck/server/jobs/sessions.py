"""Handles `srun --pty` outside of any allocation: a job with a terminal that keeps running without a client.

The arguments are srun's, with its environment and grammar. A step is made instead if the request is
impossible for a job with a single process: several tasks, a container, or srun's prolog and epilog around a
task.
"""

from __future__ import annotations

import shlex
from typing import Any

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.client.blocking_client import STEPS
from warpdeck.client.submission import Draft, has_several_tasks
from warpdeck.model import Request
from warpdeck.notation.options.given_options import GivenOption
from warpdeck.notation.request.job_request import build_request
from warpdeck.notation.step.srun_line import read_srun, srun_options
from warpdeck.notation.step.step_options import SrunOptions
from warpdeck.protocol import requests as ask
from warpdeck.protocol.nonces import mark_of
from warpdeck.server.connection import Connection

from .allocations import launch_source

OF_STEPS = frozenset(
    {"container", "hosts", "immediate", "mpi", "programs", "relative", "task_epilog", "task_prolog"}
)
"""Fields of a step that a job with a single process cannot have."""


async def open_session(connection: Connection, message: ask.Session) -> dict[str, Any]:
    """Submit a job with a terminal and return its id and notes. Raises UserError."""
    controller = connection.server.controller
    plugins = controller.config.submission.plugin_options
    line = read_srun(message.words, launch_source(connection, message), plugins=plugins)
    asked = srun_options(line, message.env, files={})
    if not _is_session(connection, asked):
        raise UserError("the session is a step", "use srun", code=STEPS)
    options = [*asked.job_options, GivenOption("export", "NONE", "srun")]
    fields, notes = build_request(options, message.env)
    if has_several_tasks(fields):
        raise UserError("several tasks are a step", "write: srun", code=STEPS)
    fields |= {
        "argv": asked.ask["argv"],
        "env": asked.ask["env"],
        "pty": {"rows": message.rows, "cols": message.cols},
        "requeue": False,
        "submit_line": shlex.join(["srun", *message.words]),
    }
    fields.setdefault("name", asked.ask["name"])
    draft = Draft(fields, notes, cwd=message.cwd, environ=message.env)
    try:
        request = msgspec.convert(draft.request, Request, strict=False)
    except msgspec.ValidationError as error:
        raise UserError(f"invalid session: {error}", "see `srun --help`") from error
    event = await connection.server.submitter.event(connection.who, [request], mark_of(message))
    made = (await controller.apply(event)).created
    assert made is not None
    return {"job_id": made.job_id, "notes": [*notes, *made.notes]}


def _is_session(connection: Connection, asked: SrunOptions) -> bool:
    if asked.answer or asked.needed_file or asked.job or connection.client.process is not None:
        return False
    return bool(asked.ask.get("pty")) and not asked.ask.keys() & OF_STEPS
