"""What only a job's own user gets of its submission: its variables, and the whole of it once more.

A job run again: the same submission, as it was recorded, is submitted once more.

Script, options, variables and code are those that the job had; what was a moment then (when to begin, the deadline, the jobs to wait
for, a hold) is over. A task of an array is run alone, with its own number.
"""

from __future__ import annotations

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.model import ArraySpec, Job, Request
from warpdeck.ports.caller import Principal, owns, whose
from warpdeck.protocol.job_rows import JobVariables


def variables_of(job: Job, *, who: Principal) -> JobVariables:
    """To its own user. Raises UserError for others."""
    if not owns(who, job):
        raise UserError(
            f"job {job.label()} is of {whose(who, job)}: its variables are shown to nobody else",
            "they may hold secrets",
        )
    return JobVariables(variables=dict(job.request.env))


def asked_again(job: Job, *, who: Principal, task: int | None) -> Request:
    """What to submit. `task`: of an array that one alone, None all. Raises UserError for what is not the user's, or no script."""
    request, label = job.request, job.label()
    if not owns(who, job):
        raise UserError(
            f"job {label} is of {whose(who, job)}: its variables are nobody else's to run with",
            "submit its script as your own",
        )
    if request.pty is not None or request.holder not in ("", "hetjob"):
        raise UserError(f"job {label} is a session, not a script", "open a new one: warpdeck run --pty")
    array = request.array
    if array is not None and task is not None:
        array = ArraySpec(ranges=((task, task, 1),))
    return msgspec.structs.replace(
        request,
        array=array,
        dependencies=None,
        begin_at_unix=None,
        deadline_unix=None,
        hold=False,
        in_place=request.in_place and request.snapshot is None,
    )
