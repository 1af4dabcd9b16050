"""What a planning pass answers: data that the reducer applies, checking each decision again."""

from __future__ import annotations

import msgspec

from warpdeck.model import Allocation, JobId, NodeName, Room, Why


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """Start this job now. `task` is the array task, None for a plain job.

    `time_limit_s` is the limit it is given: as asked, a default, or shortened with --time-min; None is no limit.
    """

    job_id: JobId
    allocation: Allocation
    task: int | None = None
    time_limit_s: int | None = None
    partition: str = ""
    reservation: str = ""
    """In which it starts: the one it asked for, or one that draws it in."""


class Reserve(msgspec.Struct, frozen=True, kw_only=True):
    """A blocked job will get these nodes at that time; nothing may delay it."""

    job_id: JobId
    at_unix: float
    nodes: tuple[NodeName, ...]


class Preempt(msgspec.Struct, frozen=True, kw_only=True):
    """Push a running job aside for another. `mode`: requeue, suspend or cancel, after a warning and `grace_s`."""

    job_id: JobId
    for_job_id: JobId
    mode: str
    grace_s: int
    sentence: str
    """Why this one, in words: for the journal of both jobs."""
    keeps_gpus: bool = True
    """Suspended, it keeps its GPUs."""
    room: Room | None = None
    """Where the other job is going to run: all of its nodes, also those that nobody has to leave."""
    rooms_beside: tuple[tuple[JobId, Room], ...] = ()
    """The same of the other components, if it leads a heterogeneous job."""


class Resume(msgspec.Struct, frozen=True, kw_only=True):
    """A suspended job may go on: what it was pushed aside for has left."""

    job_id: JobId


class End(msgspec.Struct, frozen=True, kw_only=True):
    """A waiting job that can never start ends. `state`: CANCELLED or DEADLINE; `code` is the reason code."""

    job_id: JobId
    state: str
    code: str
    sentence: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a pass. Every pending job of the view is in `starts`, in `ends`, in `whys`, or (an array) in two of them."""

    starts: tuple[Start, ...] = ()
    reserves: tuple[Reserve, ...] = ()
    preempts: tuple[Preempt, ...] = ()
    resumes: tuple[Resume, ...] = ()
    ends: tuple[End, ...] = ()
    whys: dict[JobId, Why] = {}
    priorities: dict[JobId, int] = {}
    """The computed priority of each pending job, higher first."""
    more: bool = False
    """The pass stopped at a bound; run another."""
