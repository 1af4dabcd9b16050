"""Effects, which run after the commit of an event, and the outcome of an event. They are plain data."""

from __future__ import annotations

import msgspec

from warpdeck.model import Job, JobId, NodeName
from warpdeck.model.created_by_nonce import CreatedObject
from warpdeck.model.step import Step

from .step_events import StepEffect


class LaunchShare(msgspec.Struct, frozen=True, kw_only=True):
    """Send the job's launch to this node. Repeating it is harmless."""

    node: NodeName
    job_id: JobId


class KillShare(msgspec.Struct, frozen=True, kw_only=True):
    """End a launch on this node or, with `signal`, only send that signal."""

    node: NodeName
    job_id: JobId
    restarts: int
    cause: str = "cancelled"
    signal: int = 0
    target: str = "all"
    """The processes that get the signal: all of them, the batch shell, or the programs that the shell runs.
    """
    at_once: bool = False
    grace_s: float | None = None
    """Seconds between TERM and KILL. None means the site's setting."""
    saves: bool = False
    """Whether the job may save its work during the grace time, before it is ended."""


class RevokeLaunches(msgspec.Struct, frozen=True, kw_only=True):
    """Ask the node to return prefetched launches (job id, restarts) that have not started."""

    node: NodeName
    launches: tuple[tuple[JobId, int], ...]


class LimitShare(msgspec.Struct, frozen=True, kw_only=True):
    """Send the job's present time limit to the node."""

    node: NodeName
    job_id: JobId
    restarts: int


class ForgetShare(msgspec.Struct, frozen=True, kw_only=True):
    """The end of this launch is durable. The node may drop its record once the output has been collected."""

    node: NodeName
    job_id: JobId
    restarts: int


class CollectOutput(msgspec.Struct, frozen=True, kw_only=True):
    """Collect the launch's output to the submit host, because it is not stored where the user expects it."""

    node: NodeName
    job_id: JobId
    restarts: int


class RequestHealth(msgspec.Struct, frozen=True, kw_only=True):
    """Ask the node for a health report, and send the node the site's settings for health checks."""

    node: NodeName


class SetSampling(msgspec.Struct, frozen=True, kw_only=True):
    """Set the interval in seconds at which the node sends samples."""

    node: NodeName
    interval_s: float


class ShowNotice(msgspec.Struct, frozen=True, kw_only=True):
    """Show a line of text to the users of this launch on the node."""

    node: NodeName
    job_id: JobId
    restarts: int
    text: str


class DropNode(msgspec.Struct, frozen=True, kw_only=True):
    """The node was removed: send the pending messages, then stop its agent and close the link."""

    node: NodeName


Effect = (
    LaunchShare
    | KillShare
    | RevokeLaunches
    | LimitShare
    | ForgetShare
    | CollectOutput
    | RequestHealth
    | SetSampling
    | ShowNotice
    | DropNode
    | StepEffect
)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one event: the effects to run after the commit, and the answer to the caller."""

    effects: tuple[Effect, ...] = ()
    job: Job | None = None
    step: Step | None = None
    created: CreatedObject | None = None
    """The object that this request, or an earlier request with the same id, created. A job among them may no
    longer be in memory.
    """
    notes: tuple[str, ...] = ()
    """Notes to the user about the completed action."""
    labels: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    """The code of each error: warpdeck.base.errors.UserError.code."""
    refused: tuple[str, ...] = ()
    """The job reference of each error, as the user wrote it."""
    parts: dict[str, dict[str, str]] = {}
    """Results of arrays for which the command did not apply to all tasks.

    Maps the array to its task ranges and the error code of each, "" for tasks that succeeded.
    """
    replan: bool = True
