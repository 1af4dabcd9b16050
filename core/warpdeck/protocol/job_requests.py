"""Requests that change jobs; part of the protocol."""

from __future__ import annotations

from typing import Annotated

import msgspec

from warpdeck.model import Snapshot
from warpdeck.model.annotations import AnnotationsChange
from warpdeck.model.change import JobChange

from .request_base import Creating, Name, OnJobs, Reference, RequestMessage
from .results import Result, SubmittedJob

MAX_SAVING_S = 3600
"""Longest time that a request may give a job to save its work, in seconds. Other jobs may wait for its GPUs."""
MAX_SETTINGS = 40
"""Largest number of parameters that one request sets. It is the number that `warpdeck runs` shows."""
MAX_ANNOTATED = 1000
"""Maximum number of records changed in one transaction, because other requests wait for it."""


class Cancel(OnJobs, frozen=True, kw_only=True, tag="cancel"):
    """Cancel jobs and job steps ("12.0").

    If `signal` names one (such as USR1), it is sent instead and the job is not ended. `whom` selects the
    recipients: the whole job, only the batch shell, or the programs that the shell runs. With `waiting_only`
    jobs and tasks that have started are refused and keep running. Besides `errors` the answer has their
    `codes`, and `refused` with the names of the refused jobs. If only one job is named, its refusal is this
    request's error.
    """

    signal: Name = ""
    whom: Annotated[str, msgspec.Meta(pattern=r"\A(all|batch|programs)\Z")] = "all"
    waiting_only: bool = False


class Hold(OnJobs, frozen=True, kw_only=True, tag="hold"):
    """Hold pending jobs so that they do not start.

    With `for_owner` the owner may release them, too, even if an admin holds them.
    """

    for_owner: bool = False


class Release(OnJobs, frozen=True, kw_only=True, tag="release"):
    """Release held jobs so that they may start."""


class Requeue(OnJobs, frozen=True, kw_only=True, tag="requeue"):
    """Requeue jobs. A running job is ended first; a finished one returns to PENDING.

    With `unfinished_only` a job is left alone unless it is running or suspended. With `hold` the job waits
    until it is released. `special_exit` holds it, too, and shows it in Slurm's state SPECIAL_EXIT.
    """

    hold: bool = False
    special_exit: bool = False
    unfinished_only: bool = False


class Pause(OnJobs, frozen=True, kw_only=True, tag="pause"):
    """Let running jobs save their work, end them, and return them to PENDING.

    A job gets its own signal (--signal), else TERM, and KILL when it has not exited after `saving_s` seconds. Without
    `saving_s`, the time is the one that the job named in --signal, or the site's. With `hold` it waits until it is
    released.
    """

    hold: bool = False
    saving_s: Annotated[int, msgspec.Meta(ge=0, le=MAX_SAVING_S)] | None = None


class Rerun(Creating[SubmittedJob], frozen=True, kw_only=True, tag="rerun"):
    """Submit one of the caller's jobs again as it was recorded. It is answered like Submit.

    `12_3` names a task of an array, `12` the whole array. `settings` are new values of parameters, written NAME=VALUE
    (notation.request.new_values).
    """

    job: Reference
    settings: Annotated[tuple[Reference, ...], msgspec.Meta(max_length=MAX_SETTINGS)] = ()


class Tell(OnJobs, frozen=True, kw_only=True, tag="tell"):
    """Show a line of text to the users who look at running jobs."""

    text: Reference


class Suspend(OnJobs, frozen=True, kw_only=True, tag="suspend"):
    """Suspend running jobs. Only the controller's own user and root may ask."""


class Resume(OnJobs, frozen=True, kw_only=True, tag="resume"):
    """Resume suspended jobs. Only the controller's own user and root may ask."""


class CodeRecorded(OnJobs, frozen=True, kw_only=True, tag="code_recorded"):
    """Record the code snapshot for which submitted jobs are waiting (Request.code_due_unix).

    The snapshot must be uploaded before. If there is none, `note` says why.
    """

    snapshot: Snapshot | None = None
    note: Reference = ""


class JobUpdate(OnJobs, frozen=True, kw_only=True, tag="job_update"):
    """Change the fields of jobs that `change` sets.

    See controller/reducers/updates for the rights that each field needs.
    """

    change: JobChange


class JobAnnotate(RequestMessage[Result], frozen=True, kw_only=True, tag="job_annotate"):
    """Change comments or derived exit codes in the records of jobs, which are named by number.

    Either all change or none.

    With `only_asks` only the caller's rights are checked. See controller/reducers/comment_update for the rules.
    """

    ids: Annotated[tuple[Annotated[int, msgspec.Meta(ge=1)], ...], msgspec.Meta(max_length=MAX_ANNOTATED)]
    annotating: AnnotationsChange
    only_asks: bool = False
