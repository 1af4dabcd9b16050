"""The job data that only its owner may use: its environment, and resubmitting the job as it was recorded.

A resubmitted job has the recorded script, options, environment and code. Values that were valid only at that
time are dropped: the begin time, the deadline, the dependencies and a hold. A task of an array is resubmitted
alone, with its own number.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.model import ArraySpec, Job, Request
from warpdeck.notation.request.new_values import with_values
from warpdeck.ports.caller import NOT_YOURS, Principal, owner_text, owns
from warpdeck.protocol.job_rows import JobVariables


def check_owner(job: Job, *, who: Principal) -> None:
    """Raise UserError if the caller may not see the job's environment."""
    if not owns(who, job):
        raise UserError(
            f"job {job.label()} belongs to {owner_text(who, job)}; only the owner can see its environment",
            "environment variables may contain secrets",
            code=NOT_YOURS,
        )


def variables_of(job: Job) -> JobVariables:
    """Return the environment of a job with its whole request."""
    return JobVariables(variables=dict(job.request.env))


def asked_again(job: Job, *, who: Principal, task: int | None, settings: Sequence[str] = ()) -> Request:
    """Return the request that resubmits a job.

    Raises UserError if the job is another user's, has no script, or has none of the parameters that are set.

    `task` selects one task of an array; None selects the whole array. `settings` are new values of parameters. The other
    components of a heterogeneous job have none.
    """
    request, label = job.request, job.label()
    if not owns(who, job):
        raise UserError(
            f"job {label} belongs to {owner_text(who, job)}; only the owner can submit it again",
            "submit its script as your own",
            code=NOT_YOURS,
        )
    if request.pty is not None or request.holder not in ("", "hetjob"):
        raise UserError(
            f"job {label} is an interactive session, not a batch script",
            "start a new one with `warpdeck run --pty`",
        )
    array = request.array
    if array is not None and task is not None:
        array = ArraySpec(ranges=((task, task, 1),))
    if settings and request.holder != "hetjob":
        request = with_values(request, settings, label=label)
    return msgspec.structs.replace(
        request,
        array=array,
        dependencies=None,
        begin_at_unix=None,
        deadline_unix=None,
        hold=False,
        in_place=request.in_place and request.snapshot is None,
    )
