"""The decisions of a scheduling pass, as data. The reducer applies them and checks each of them again."""

from __future__ import annotations

import msgspec

from warpdeck.model import Allocation, JobId, NodeName, PendingReason, PreemptedClaim


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """Start this job now. `task` is the array task, or None for a job that is no array.

    `time_limit_s` is the limit that the job gets: the requested one, a default, or one shortened with
    --time-min. None means no limit.
    """

    job_id: JobId
    allocation: Allocation
    task: int | None = None
    time_limit_s: int | None = None
    partition: str = ""
    reservation: str = ""
    """The reservation in which the job starts: the one it requested, or a magnetic one."""


class Reserve(msgspec.Struct, frozen=True, kw_only=True):
    """A reservation for a blocked job: it gets these nodes at this time, and no other job may delay it."""

    job_id: JobId
    at_unix: float
    nodes: tuple[NodeName, ...]


class Preempt(msgspec.Struct, frozen=True, kw_only=True):
    """Preempt a running job for another. `mode` is requeue, suspend or cancel, after a warning and `grace_s`
    seconds.
    """

    job_id: JobId
    for_job_id: JobId
    mode: str
    grace_s: int
    sentence: str
    """The reason for the choice, for the journals of both jobs."""
    keeps_gpus: bool = True
    """True if the job keeps its GPUs while suspended."""
    preempted_claim: PreemptedClaim | None = None
    """The nodes on which the other job will run, including nodes that no job has to leave."""
    component_claims: tuple[tuple[JobId, PreemptedClaim], ...] = ()
    """The nodes for each other component, if the preempting job is the leader of a heterogeneous job."""


class Resume(msgspec.Struct, frozen=True, kw_only=True):
    """Resume a suspended job, because the job for which it was suspended has ended."""

    job_id: JobId


class EndDecision(msgspec.Struct, frozen=True, kw_only=True):
    """End a pending job that can never start. `state` is CANCELLED or DEADLINE; `code` is the reason code."""

    job_id: JobId
    state: str
    code: str
    sentence: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a pass.

    Every pending job of the view is in `starts`, `ends` or `pending_reasons`; an array may be in two of them.
    """

    starts: tuple[Start, ...] = ()
    reserves: tuple[Reserve, ...] = ()
    preempts: tuple[Preempt, ...] = ()
    resumes: tuple[Resume, ...] = ()
    ends: tuple[EndDecision, ...] = ()
    pending_reasons: dict[JobId, PendingReason] = {}
    priorities: dict[JobId, int] = {}
    """The computed priority of each pending job; jobs with a higher number go first."""
    more: bool = False
    """True if the pass stopped at a bound, so that another pass should follow."""
