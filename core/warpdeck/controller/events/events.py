"""Events, which change the state. They are plain data, and `reducers.reduce` applies them."""

from __future__ import annotations

import msgspec

from warpdeck.model import Job, JobId, Node, NodeName, Request, Reservation, Snapshot
from warpdeck.model.annotations import AnnotationsChange
from warpdeck.model.change import JobChange
from warpdeck.model.created_by_nonce import RequestId
from warpdeck.model.recovery import UnknownLaunch
from warpdeck.policy import EndDecision, Preempt, Resume, Start
from warpdeck.ports.caller import Principal
from warpdeck_agent.wire import messages as wire

from .step_events import (
    BroadcastFence,
    ForgetStep,
    HolderLeft,
    HolderSeen,
    KillStep,
    LaunchStep,
    StepEndRequested,
    StepEvent,
    StepReported,
    StepRequested,
)

__all__ = [
    "BroadcastFence",
    "ForgetStep",
    "HolderLeft",
    "HolderSeen",
    "KillStep",
    "LaunchStep",
    "Principal",
    "StepEndRequested",
    "StepReported",
    "StepRequested",
]


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """A submission of a job.

    If the user has already sent a submission with the same `request_id`, nothing is created, and the outcome
    is the outcome of that earlier submission. `ended` contains the finished jobs that the dependencies name
    and that are no longer in memory.
    """

    principal: Principal
    request: Request
    components: tuple[Request, ...] = ()
    """The components of a heterogeneous job after the first."""
    ended: tuple[Job, ...] = ()
    request_id: RequestId | None = None


class JobCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A user command on jobs, which are given as the user wrote them.

    `ended` are finished jobs among them that are no longer in memory.
    """

    principal: Principal
    jobs: tuple[str, ...]
    ended: tuple[Job, ...] = ()


class Cancelled(JobCommand, frozen=True, kw_only=True):
    """Cancel jobs.

    With a `signal` number, only send that signal to the processes that `target` selects (see `KillShare`).
    `waiting_only` refuses jobs that have started.
    """

    signal: int = 0
    target: str = "all"
    waiting_only: bool = False


class Held(JobCommand, frozen=True, kw_only=True):
    """Hold waiting jobs, which then do not start.

    With `for_owner`, the owner may also release a job that an administrator holds.
    """

    for_owner: bool = False


class Released(JobCommand, frozen=True, kw_only=True):
    """Release held jobs, which then may start."""


class Requeued(JobCommand, frozen=True, kw_only=True):
    """Requeue running and ended jobs.

    With `hold` or `special_exit`, they are held until they are released.
    """

    hold: bool = False
    special_exit: bool = False
    unfinished_only: bool = False
    """If set, jobs that are neither starting, running nor suspended stay as they are."""
    saves: bool = False
    """If set, the jobs are paused: only running jobs, which may save their work before they are ended."""
    saving_s: float | None = None
    """How long they may save their work, in seconds. None means the time of the job or of the site."""


class NotifyJob(JobCommand, frozen=True, kw_only=True):
    """Show a line of text to the users of running jobs."""

    text: str


class Suspended(JobCommand, frozen=True, kw_only=True):
    """Suspend running jobs. Only administrators may do this."""


class Resumed(JobCommand, frozen=True, kw_only=True):
    """Resume suspended jobs. Only administrators may do this."""


class Updated(JobCommand, frozen=True, kw_only=True):
    """Change existing jobs."""

    change: JobChange


class CommentUpdated(msgspec.Struct, frozen=True, kw_only=True):
    """Change the annotations (comments, derived exit code) of these jobs. `ended` has the same meaning as in
    `JobCommand`.
    """

    principal: Principal
    ids: tuple[JobId, ...]
    changes: AnnotationsChange
    ended: tuple[Job, ...] = ()


class CodeRecorded(JobCommand, frozen=True, kw_only=True):
    """Report that the snapshot for which the jobs wait has been stored. If there is no snapshot, `note` gives
    the reason.
    """

    snapshot: Snapshot | None = None
    note: str = ""


class Prefetch(msgspec.Struct, frozen=True, kw_only=True):
    """Prefetch tasks of an array to the node of a running job.

    Each task starts there when the previous one ends.
    """

    job_id: JobId
    """The record of the waiting tasks."""
    after: JobId
    """The last job that is running or prefetched in that allocation."""
    tasks: tuple[int, ...]


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """The planner's decisions. The reducer checks each decision again against the present state."""

    starts: tuple[Start, ...] = ()
    prefetches: tuple[Prefetch, ...] = ()
    preempts: tuple[Preempt, ...] = ()
    resumes: tuple[Resume, ...] = ()
    ends: tuple[EndDecision, ...] = ()


class LaunchRevoked(msgspec.Struct, frozen=True, kw_only=True):
    """A node reports that prefetched launches (job id, restarts) have not started and will not start."""

    name: NodeName
    launches: tuple[tuple[JobId, int], ...]


class NodeAdded(msgspec.Struct, frozen=True, kw_only=True):
    """A new node. `uid` and `request_id` identify the request if it may be repeated."""

    node: Node
    uid: int = 0
    request_id: RequestId | None = None


class NodeDrained(msgspec.Struct, frozen=True, kw_only=True):
    """Drain a node, or only the GPUs of the node in `gpus`."""

    name: NodeName
    reason: str
    gpus: tuple[int, ...] = ()
    user: str = ""


class NodeResumed(msgspec.Struct, frozen=True, kw_only=True):
    """Resume a node with all of its GPUs, or only the GPUs in `gpus`."""

    name: NodeName
    gpus: tuple[int, ...] = ()


class HealthReported(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's report on the health of the node. It arrived at `received_unix` on the controller's clock."""

    name: NodeName
    health: wire.Health
    received_unix: float


class NodeRemoved(msgspec.Struct, frozen=True, kw_only=True):
    name: NodeName
    force: bool = False


class ReservationMade(msgspec.Struct, frozen=True, kw_only=True):
    """Create a reservation.

    With `instead`, it replaces the reservation of the same name that a user created at run time. `uid` and
    `request_id` identify the request if it may be repeated.
    """

    reservation: Reservation
    instead: bool = False
    uid: int = 0
    request_id: RequestId | None = None


class ReservationsDue(msgspec.Struct, frozen=True, kw_only=True):
    """Apply the lifecycle of reservations after time has passed or jobs and nodes have changed.

    `policy.reservations.lifecycle` determines the actions.
    """


class ReservationRemoved(msgspec.Struct, frozen=True, kw_only=True):
    name: str


class NodeUp(msgspec.Struct, frozen=True, kw_only=True):
    """An agent sent Welcome, which lists the node's hardware and every job that it holds."""

    name: NodeName
    welcome: wire.Welcome


class NodeLost(msgspec.Struct, frozen=True, kw_only=True):
    name: NodeName
    reason: str = ""


class Fenced(msgspec.Struct, frozen=True, kw_only=True):
    """An agent obeys another start of this controller, which this site has made."""

    holder: wire.ControllerStart


class FoundLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """An unknown launch, its last report, the number of its last step, and its job as its record describes it."""

    launch: UnknownLaunch
    report: wire.JobReport | None = None
    last_step: int = -1
    job: Job | None = None


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """A person has decided to adopt these unknown launches, or to discard them."""

    launches: tuple[FoundLaunch, ...]
    discard: bool = False


class ClaimEnded(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes had the time CLAIM_S to answer since this start. The others are not waited for any more."""

    start: wire.ControllerStart


class StartBegun(msgspec.Struct, frozen=True, kw_only=True):
    """A person has decided that this controller takes over, with this start."""

    start: wire.ControllerStart


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's report on one launch."""

    name: NodeName
    report: wire.JobReport


class LaunchRefused(msgspec.Struct, frozen=True, kw_only=True):
    name: NodeName
    failed: wire.LaunchFailed


class NodeWarning(msgspec.Struct, frozen=True, kw_only=True):
    """A warning of an agent about a launch, for the users of the job."""

    name: NodeName
    message: wire.Remark


HANG = "makes no progress: "
"""Begins each sentence about a job that hangs, by which its notice is recognized."""


class HangJudged(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict about a job that makes no progress; "" if no node suspects the job any more."""

    job_id: JobId
    restarts: int
    sentence: str


class JournalNote(msgspec.Struct, frozen=True, kw_only=True):
    """A line for the job's history that changes nothing else."""

    job_id: JobId
    text: str


class MessagesRead(msgspec.Struct, frozen=True, kw_only=True):
    """An event without any change. When it is processed, all earlier events have been processed as well."""


SiteEvent = (
    NodeAdded
    | NodeDrained
    | NodeResumed
    | HealthReported
    | NodeRemoved
    | ReservationMade
    | ReservationRemoved
    | ReservationsDue
    | NodeUp
    | NodeLost
    | Fenced
    | StartBegun
    | ClaimEnded
    | Recovered
)
Event = (
    Submitted
    | Cancelled
    | Held
    | Released
    | Requeued
    | Suspended
    | Resumed
    | Updated
    | CommentUpdated
    | CodeRecorded
    | NotifyJob
    | Planned
    | SiteEvent
    | Reported
    | LaunchRevoked
    | LaunchRefused
    | NodeWarning
    | HangJudged
    | JournalNote
    | MessagesRead
    | StepEvent
)
