"""What may happen to the state (events), and what is to be done after the commit (effects). Both are data."""

from __future__ import annotations

import msgspec

from warpdeck.model import Job, JobId, Node, NodeName, Request, Reservation, Snapshot
from warpdeck.model.annotations import Annotating
from warpdeck.model.change import JobChange
from warpdeck.model.created_by_nonce import Made, Mark
from warpdeck.model.step import Step
from warpdeck.policy import End, Preempt, Resume, Start
from warpdeck.ports.caller import Principal
from warpdeck_agent.wire import messages as wire

from .step_events import (
    ForgetStep,
    HolderLeft,
    HolderSeen,
    KillStep,
    LaunchStep,
    SpreadFence,
    StepAsked,
    StepEffect,
    StepEndAsked,
    StepEvent,
    StepReported,
)

__all__ = [
    "ForgetStep",
    "HolderLeft",
    "HolderSeen",
    "KillStep",
    "LaunchStep",
    "Principal",
    "SpreadFence",
    "StepAsked",
    "StepEndAsked",
    "StepReported",
]


# ---- events


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """A submission. `ended` are finished jobs that its dependencies name and that are not in memory any more.

    One whose `mark` its user has sent before makes nothing, and has the same outcome.
    """

    who: Principal
    request: Request
    components: tuple[Request, ...] = ()
    """Of a heterogeneous job: those after the first."""
    ended: tuple[Job, ...] = ()
    mark: Mark | None = None


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What a user asks of jobs, named as users name them. `ended` are finished ones that are not in memory any more."""

    who: Principal
    jobs: tuple[str, ...]
    ended: tuple[Job, ...] = ()


class Cancelled(Order, frozen=True, kw_only=True):
    """Ends jobs; with a `signal` number only sends it, to whom KillShare says. `waiting_only` refuses jobs that have begun."""

    signal: int = 0
    whom: str = "all"
    waiting_only: bool = False


class Held(Order, frozen=True, kw_only=True):
    """Waiting jobs must not start. `for_owner`: their owner may release them too, though an admin holds them."""

    for_owner: bool = False


class Released(Order, frozen=True, kw_only=True):
    """Held jobs may start."""


class Requeued(Order, frozen=True, kw_only=True):
    """Running and ended jobs wait again; with `hold` or `special_exit` until they are released."""

    hold: bool = False
    special_exit: bool = False
    unfinished_only: bool = False
    """Those that neither run nor are suspended stay as they are."""


class NotifyJob(Order, frozen=True, kw_only=True):
    """A line for the people who look at running jobs."""

    text: str


class Suspended(Order, frozen=True, kw_only=True):
    """Running jobs stop where they are. Only for admins."""


class Resumed(Order, frozen=True, kw_only=True):
    """Suspended jobs go on. Only for admins."""


class Updated(Order, frozen=True, kw_only=True):
    """Jobs that are to be other than they are."""

    change: JobChange


class CommentUpdated(msgspec.Struct, frozen=True, kw_only=True):
    """The records of these jobs are to say something else. `ended` as in Order."""

    who: Principal
    ids: tuple[JobId, ...]
    annotating: Annotating
    ended: tuple[Job, ...] = ()


class CodeRecorded(Order, frozen=True, kw_only=True):
    """The snapshot that the jobs wait for is there, or there is none, and the note says why."""

    snapshot: Snapshot | None = None
    note: str = ""


class Ahead(msgspec.Struct, frozen=True, kw_only=True):
    """Hand these tasks of an array to the node of a job that runs, each to begin in the place of the one before it."""

    job_id: JobId
    """The record of those that wait."""
    behind: JobId
    """The last in that place."""
    tasks: tuple[int, ...]


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """The planner's decisions. Each is checked again against the state as it is now."""

    starts: tuple[Start, ...] = ()
    aheads: tuple[Ahead, ...] = ()
    preempts: tuple[Preempt, ...] = ()
    resumes: tuple[Resume, ...] = ()
    ends: tuple[End, ...] = ()


class LaunchRevoked(msgspec.Struct, frozen=True, kw_only=True):
    """A node's word that these launches, (job id, restarts), were handed to it ahead of time, have not begun and will not."""

    name: NodeName
    launches: tuple[tuple[JobId, int], ...]


class NodeAdded(msgspec.Struct, frozen=True, kw_only=True):
    """`uid` and `mark` of the request for it, where it may come again."""

    node: Node
    uid: int = 0
    mark: Mark | None = None


class NodeDrained(msgspec.Struct, frozen=True, kw_only=True):
    """The node takes no new jobs, or only these of its GPUs do not."""

    name: NodeName
    reason: str
    gpus: tuple[int, ...] = ()


class NodeResumed(msgspec.Struct, frozen=True, kw_only=True):
    """The node takes jobs again, and all of its GPUs; or only these GPUs do."""

    name: NodeName
    gpus: tuple[int, ...] = ()


class HealthTold(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's word on its node's health. Came at `received_unix` by our clock."""

    name: NodeName
    health: wire.Health
    received_unix: float


class NodeRemoved(msgspec.Struct, frozen=True, kw_only=True):
    name: NodeName
    force: bool = False


class ReservationMade(msgspec.Struct, frozen=True, kw_only=True):
    """With `instead` the one of its name, which was made at run time, becomes this one. `uid` and `mark` of the request for it, where
    it may come again."""

    reservation: Reservation
    instead: bool = False
    uid: int = 0
    mark: Mark | None = None


class ReservationsTended(msgspec.Struct, frozen=True, kw_only=True):
    """Time has gone on, or jobs and nodes have changed: what follows from that for reservations (policy.tending) is done."""


class ReservationRemoved(msgspec.Struct, frozen=True, kw_only=True):
    name: str


class NodeUp(msgspec.Struct, frozen=True, kw_only=True):
    """An agent said Welcome: what the node has, and every job it holds."""

    name: NodeName
    welcome: wire.Welcome


class NodeLost(msgspec.Struct, frozen=True, kw_only=True):
    name: NodeName
    reason: str = ""


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's word on one launch."""

    name: NodeName
    report: wire.JobReport


class LaunchRefused(msgspec.Struct, frozen=True, kw_only=True):
    name: NodeName
    failed: wire.LaunchFailed


class NodeWarning(msgspec.Struct, frozen=True, kw_only=True):
    """An agent has something to say of a launch that its people should know."""

    name: NodeName
    remark: wire.Remark


class JournalNote(msgspec.Struct, frozen=True, kw_only=True):
    """Something for the job's history that changes nothing else."""

    job_id: JobId
    text: str


class MessagesRead(msgspec.Struct, frozen=True, kw_only=True):
    """Changes nothing: whoever has put it in learns that what came before it was dealt with."""


SiteEvent = (
    NodeAdded
    | NodeDrained
    | NodeResumed
    | HealthTold
    | NodeRemoved
    | ReservationMade
    | ReservationRemoved
    | ReservationsTended
    | NodeUp
    | NodeLost
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
    | JournalNote
    | MessagesRead
    | StepEvent
)


# ---- effects


class LaunchShare(msgspec.Struct, frozen=True, kw_only=True):
    """Send the job's launch to this node. Repeating it is harmless."""

    node: NodeName
    job_id: JobId


class KillShare(msgspec.Struct, frozen=True, kw_only=True):
    """End (or, with `signal`, only signal) a launch on this node."""

    node: NodeName
    job_id: JobId
    restarts: int
    cause: str = "cancelled"
    signal: int = 0
    whom: str = "all"
    """For whom the signal is: all, the batch shell, or the programs that it runs."""
    at_once: bool = False
    grace_s: float | None = None
    """Between TERM and KILL; None is the site's setting."""


class TakeBack(msgspec.Struct, frozen=True, kw_only=True):
    """Ask the node for launches, (job id, restarts), that were handed to it ahead of time and may not have begun."""

    node: NodeName
    launches: tuple[tuple[JobId, int], ...]


class LimitShare(msgspec.Struct, frozen=True, kw_only=True):
    """Tell the node the time limit that the job has now."""

    node: NodeName
    job_id: JobId
    restarts: int


class ForgetShare(msgspec.Struct, frozen=True, kw_only=True):
    """The end of this launch is durable; the node may drop its record once the output was brought here."""

    node: NodeName
    job_id: JobId
    restarts: int


class CollectOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The launch's output does not lie where the user sees it: bring it to the submit host."""

    node: NodeName
    job_id: JobId
    restarts: int


class AskHealth(msgspec.Struct, frozen=True, kw_only=True):
    """Ask the node how it is, and tell it how it is to be watched."""

    node: NodeName


class SetSampling(msgspec.Struct, frozen=True, kw_only=True):
    """Tell the node how often its samples are wanted."""

    node: NodeName
    interval_s: float


class TellJob(msgspec.Struct, frozen=True, kw_only=True):
    """Show a line to the people who look at this launch on the node."""

    node: NodeName
    job_id: JobId
    restarts: int
    text: str


class DropNode(msgspec.Struct, frozen=True, kw_only=True):
    """The node was removed: after what was owed to it, its agent ends and the link with it."""

    node: NodeName


Effect = (
    LaunchShare
    | KillShare
    | TakeBack
    | LimitShare
    | ForgetShare
    | CollectOutput
    | AskHealth
    | SetSampling
    | TellJob
    | DropNode
    | StepEffect
)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What reducing one event came to: effects for after the commit, and the answer for whoever asked."""

    effects: tuple[Effect, ...] = ()
    job: Job | None = None
    step: Step | None = None
    made: Made | None = None
    """What a submission's request was answered before, or is now. Its job may have left the memory."""
    notes: tuple[str, ...] = ()
    """What is to be said of what was done."""
    labels: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    """Of the errors: warpdeck.base.errors.UserError.code."""
    refused: tuple[str, ...] = ()
    """What each error is about, as it was named."""
    parts: dict[str, dict[str, str]] = {}
    """Of each array to which it was not done as a whole: its tasks, and the code of why not, "" of those to which it was."""
    replan: bool = True
