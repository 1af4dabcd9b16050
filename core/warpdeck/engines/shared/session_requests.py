"""The requests of jobs with one command: `warpdeck run`, and `srun --pty` outside of any allocation.

The client of a run sends its arguments unparsed. Parsing takes the client longer than a short job takes, and the parser is
already loaded here.

A session is a job with a terminal that keeps running without a client. The arguments are srun's, with its environment and
grammar. A step is made instead if the request is impossible for a job with a single process: several tasks, a container, or
srun's prolog and epilog around a task.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.base.passwd import existing_gid, existing_uid
from warpdeck.client.blocking_client import STEPS
from warpdeck.client.submission import Draft, draft_command, has_several_tasks
from warpdeck.model import Request
from warpdeck.notation.options.getopt import split_command
from warpdeck.notation.options.given_options import GivenOption, OptionSource
from warpdeck.notation.reading.components import LaunchLine
from warpdeck.notation.request.job_request import build_request
from warpdeck.notation.step.srun_line import srun_options
from warpdeck.notation.step.step_options import SrunOptions
from warpdeck.ports.caller import Caller
from warpdeck.protocol import requests as ask

OF_STEPS = frozenset(
    {"container", "hosts", "immediate", "mpi", "programs", "relative", "task_epilog", "task_prolog"}
)
"""Fields of a step that a job with a single process cannot have."""


def option_source(
    caller: Caller,
    message: ask.Srun | ask.Salloc | ask.Session,
    *,
    now: float,
    read_text: Callable[[str], str],
) -> OptionSource:
    """Return the surroundings of the client that its options may refer to."""
    return OptionSource(
        cwd=message.cwd,
        environ=message.env,
        now=now,
        is_root=caller.who.uid == 0,
        user_id=existing_uid,
        group_id=existing_gid,
        read_text=read_text,
    )


def run_request(message: ask.Run, *, now: float) -> tuple[Request, list[str]]:
    """Return the request that the arguments of a run describe, and notes for the user. Raises UserError."""
    options, command = split_command(list(message.words))
    if not command:
        raise UserError("no command given", "usage: warpdeck run [OPTIONS] COMMAND...")
    draft = draft_command(command, options, cwd=message.cwd, environ=message.env, now=now)
    if has_several_tasks(draft.request):
        raise UserError("several tasks are a step", "write: warpdeck srun", code=STEPS)
    try:
        return msgspec.convert(draft.request, Request, strict=False), draft.notes
    except msgspec.ValidationError as error:
        raise UserError(f"invalid job: {error}", "see `warpdeck run --help`") from error


def session_request(caller: Caller, message: ask.Session, line: LaunchLine) -> tuple[Request, list[str]]:
    """Return the request that the command line of a session describes, and notes for the user.

    Raises UserError, with the code STEPS if the client must ask for a step instead.
    """
    asked = srun_options(line, message.env, files={})
    if not _is_session(caller, asked):
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
        return msgspec.convert(draft.request, Request, strict=False), notes
    except msgspec.ValidationError as error:
        raise UserError(f"invalid session: {error}", "see `srun --help`") from error


def _is_session(caller: Caller, asked: SrunOptions) -> bool:
    if asked.answer or asked.needed_file or asked.job or caller.process is not None:
        return False
    return bool(asked.ask.get("pty")) and not asked.ask.keys() & OF_STEPS
