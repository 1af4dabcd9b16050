"""What clients order of jobs; a part of protocol."""

from __future__ import annotations

from typing import Annotated

import msgspec

from warpdeck.model import Snapshot
from warpdeck.model.annotations import Annotating
from warpdeck.model.change import JobChange

from .request_base import Creating, Message, Name, OnJobs, Reference

MAX_ANNOTATED = 1000
"""Records of one transaction: others wait for it."""


class Cancel(OnJobs, frozen=True, kw_only=True, tag="cancel"):
    """`signal` (a name such as USR1) is sent instead of ending the job: to all of it, to the batch shell alone, or to the programs
    that it runs. Jobs and steps of jobs (12.0). `waiting_only`: jobs and tasks that have begun are refused and go on. Beside
    `errors` their `codes`, and `refused`: what could not be done to whom. If only one is named, what is wrong is this request's
    error."""

    signal: Name = ""
    whom: Annotated[str, msgspec.Meta(pattern=r"\A(all|batch|programs)\Z")] = "all"
    waiting_only: bool = False


class Hold(OnJobs, frozen=True, kw_only=True, tag="hold"):
    """Waiting jobs must not start. `for_owner`: their owner may release them too, though an admin holds them."""

    for_owner: bool = False


class Release(OnJobs, frozen=True, kw_only=True, tag="release"):
    """Held jobs may start."""


class Requeue(OnJobs, frozen=True, kw_only=True, tag="requeue"):
    """A running job is ended first; a finished one goes back to PENDING, but for
    `unfinished_only`, which leaves alone whatever neither runs nor is suspended. With `hold` it waits until it
    is released; with `special_exit` too, and tools see it apart from others (Slurm's state SPECIAL_EXIT)."""

    hold: bool = False
    special_exit: bool = False
    unfinished_only: bool = False


class Rerun(Creating, frozen=True, kw_only=True, tag="rerun"):
    """Submits a job of the caller's again, as it was recorded; answered like Submit. `12_3` is a task of an array, `12` all of it."""

    job: Reference


class Tell(OnJobs, frozen=True, kw_only=True, tag="tell"):
    """A line for the people who look at running jobs."""

    text: Reference


class Suspend(OnJobs, frozen=True, kw_only=True, tag="suspend"):
    """Running jobs stop where they are. Only for the controller's own user and root."""


class Resume(OnJobs, frozen=True, kw_only=True, tag="resume"):
    """Suspended jobs go on. Only for the controller's own user and root."""


class CodeRecorded(OnJobs, frozen=True, kw_only=True, tag="code_recorded"):
    """The snapshot that jobs were submitted to wait for (Request.code_due_unix), uploaded before; or none, and why."""

    snapshot: Snapshot | None = None
    note: Reference = ""


class JobUpdate(OnJobs, frozen=True, kw_only=True, tag="job_update"):
    """Makes jobs other than they are: `change` holds what is to be other. Who may change what: controller/updates."""

    change: JobChange


class JobAnnotate(Message, frozen=True, kw_only=True, tag="job_annotate"):
    """The records of jobs (by the number of each) are to say something else, of all or of none. `only_asks`: may they? Who may:
    controller/annotating."""

    ids: Annotated[tuple[Annotated[int, msgspec.Meta(ge=1)], ...], msgspec.Meta(max_length=MAX_ANNOTATED)]
    annotating: Annotating
    only_asks: bool = False
