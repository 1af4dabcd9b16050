"""Results of requests, and messages that the controller pushes, as the asyncio client decodes them.

Each request names its result as the parameter of its base class RequestMessage. Rows are in the modules job_rows,
node_rows and site_rows.
"""

from __future__ import annotations

import msgspec

from warpdeck.model.finished_jobs import GroupCost

from .job_rows import EventRow, ForwardRow, JobRow
from .node_rows import NodeEventRow, NodeHealthRow, NodeRow, PastNodeRow
from .site_rows import (
    AuditEntry,
    DurationRow,
    EngineRow,
    LicenseRow,
    PartitionRow,
    PriorityRow,
    QosRow,
    QuotaRow,
    RecoveredRow,
    ReservationRow,
    ShareRow,
    StandbyRow,
    UseRow,
)


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Base class of all results. Requests without fields in their answer have it as their result."""


class Welcome(Result, frozen=True, kw_only=True):
    """The controller's greeting: its identity, and the user that it sees at our end of the connection."""

    controller: str = ""
    warpdeck: str = ""
    user: str = ""
    uid: int = -1
    admin: bool = False
    """Whether the user is an administrator, or root, or the controller's own user."""
    level: str = "none"
    """The user's AdminLevel: none, operator or administrator."""
    impossible: dict[str, str] = {}
    """Requests that the scheduler cannot perform: their tags, each with the reason."""


class ControllerStatus(Result, frozen=True, kw_only=True):
    """Status of the controller."""

    pid: int
    host: str = ""
    """Host name of the controller's machine."""
    home: str
    version: str
    uptime_s: float
    user: str
    jobs: dict[str, int]
    nodes: int
    log: str
    clients: int = 0
    unreadable: list[str] = []
    """Records that could not be read and were set aside, such as "job 12" or "node gpu1"."""
    engine: EngineRow = EngineRow()
    audit_problem: str = ""
    """Why entries of the audit log are missing, or "" if none is."""
    standby: StandbyRow | None = None
    """The machine with a copy of the database; None if there is none."""
    epoch: int = 0
    """Number of this start of the controller. Agents obey the highest one."""
    quota: QuotaRow | None = None
    """The caller's use of the quotas; None over Slurm."""
    fenced: bool = False
    """Whether the agents obey another controller. `engine.problem` says which one."""
    recovery: bool = False
    """Whether the database is older than launches on the nodes, so that no jobs start."""


class Recovery(Result, frozen=True, kw_only=True):
    """The launches that were, or would be, adopted or discarded, and the nodes that did not answer.

    `needed` tells whether unknown launches are left, so that no jobs start.
    """

    jobs: list[RecoveredRow]
    silent: dict[str, str] = {}
    needed: bool = False


class AuditList(Result, frozen=True, kw_only=True):
    """Entries of the audit log. `problem` tells why entries are missing, or is ""."""

    entries: list[AuditEntry]
    problem: str = ""


class StandbyInfo(Result, frozen=True, kw_only=True):
    """The standby, or None if there is none."""

    standby: StandbyRow | None = None


class TakenOver(Result, frozen=True, kw_only=True):
    """The epoch of a controller that has taken over its site, and the nodes that have not answered yet."""

    epoch: int
    nodes: int
    lost: list[str] = []


class SubmittedJob(Result, frozen=True, kw_only=True):
    """The job of a submission. `tasks` is the number of tasks of its array, `notes` are remarks for the user."""

    job_id: int
    label: str
    tasks: int
    notes: list[str] = []


class OpenedJob(Result, frozen=True, kw_only=True):
    """The job made for a command or a terminal. `notes` are remarks for the user."""

    job_id: int
    notes: list[str] = []


class StoredTree(Result, frozen=True, kw_only=True):
    """Whether the controller has a packed tree, and the tree's digest and size if it has."""

    have: bool
    sha256: str = ""
    size_bytes: int = 0


class Changed(Result, frozen=True, kw_only=True):
    """Result of a cancel, hold, release, requeue or update.

    `jobs` are the labels of the changed jobs, `errors` the reasons for the jobs that were refused.
    """

    jobs: list[str] = []
    errors: list[str] = []
    parts: dict[str, dict[str, str]] = {}
    """Arrays of which only some tasks were changed: the reason code of each range of tasks, "" for changed ones."""
    refused: list[str] = []
    codes: list[str] = []
    """The names of the refused jobs, and the code of each error."""


class Canceled(Changed, frozen=True, kw_only=True):
    """Result of a cancel."""


class JobList(Result, frozen=True, kw_only=True):
    """Jobs, oldest first."""

    jobs: list[JobRow]


class CostGroups(Result, frozen=True, kw_only=True):
    """Resource costs of finished jobs, in groups."""

    groups: list[GroupCost]


class EventList(Result, frozen=True, kw_only=True):
    """Recent events of jobs, the latest first."""

    events: list[EventRow]


class NodeList(Result, frozen=True, kw_only=True):
    """Nodes, in the order of their names."""

    nodes: list[NodeRow]


class PastNodes(Result, frozen=True, kw_only=True):
    """Nodes as they were at a time in the past."""

    nodes: list[PastNodeRow]


class Timeline(Result, frozen=True, kw_only=True):
    """Events of nodes in a range of time, the oldest first, and the use of the GPUs in equal parts of the range.

    A utilization of None means that nobody measured it. If there are too many events or jobs, some are left out.
    """

    since: float
    until: float
    gpus: int
    """Number of GPUs of the cluster, as it is now."""
    events: list[NodeEventRow] = []
    events_left_out: int = 0
    allocated: list[float] = []
    """Mean number of allocated GPUs in each part."""
    util_pct: list[float | None] = []
    """Mean utilization of the allocated GPUs in each part, as far as known from the means of the jobs."""
    is_partial: bool = False
    """Whether only some of the jobs were counted."""


class NodeHealth(Result, frozen=True, kw_only=True):
    """Results of the health checks of nodes."""

    nodes: list[NodeHealthRow]


class PartitionList(Result, frozen=True, kw_only=True):
    """The partitions. `configured` is false if config.toml has none and there is one with all nodes."""

    partitions: list[PartitionRow]
    configured: bool = False


class ReservationList(Result, frozen=True, kw_only=True):
    """The reservations of nodes."""

    reservations: list[ReservationRow]


class QosLevels(Result, frozen=True, kw_only=True):
    """The levels of quality of service."""

    qos: list[QosRow]


class PriorityList(Result, frozen=True, kw_only=True):
    """The pending jobs, highest priority first. `weights` is the maximum of each part of the priority."""

    jobs: list[PriorityRow]
    weights: dict[str, float] = {}
    queue_order: str = ""


class ShareTree(Result, frozen=True, kw_only=True):
    """The tree of accounts. If `half_life_s` is None, past usage does not decay."""

    shares: list[ShareRow]
    half_life_s: float | None = None
    admin_levels: dict[str, str] = {}
    """The users with an AdminLevel, and their levels."""
    is_partial: bool = False
    """Whether lines are left out that the caller may not see."""


class LimitUseList(Result, frozen=True, kw_only=True):
    """Usage that counts against limits, by association and QoS."""

    uses: list[UseRow]


class LicenseList(Result, frozen=True, kw_only=True):
    """The licenses of the site."""

    licenses: list[LicenseRow]


class SlurmParameters(Result, frozen=True, kw_only=True):
    """The configuration in force, expressed as parameters of slurm.conf."""

    settings: dict[str, str]


class PluginOptionList(Result, frozen=True, kw_only=True):
    """Options that job scripts may use in addition to Slurm's, each with required, none or optional."""

    options: dict[str, str]


class ConfigText(Result, frozen=True, kw_only=True):
    """The configuration in force as TOML, and the line of the file on which each key stood."""

    file: str
    text: str
    lines: list[tuple[list[str], int]]


class SchedulerDiagnosis(Result, frozen=True, kw_only=True):
    """Statistics of the scheduler since the time `since`, and its queue at the time `now` (Unix seconds)."""

    since: float
    jobs: dict[str, int]
    """Number of jobs that were submitted, started, completed, canceled, or that failed."""
    passes: DurationRow
    last_pass: float | None
    """Time of the last scheduling pass."""
    looked_at: int
    """Number of pending jobs that all passes have considered."""
    last_queue: int
    """Number of pending jobs at the last pass."""
    requests: dict[str, DurationRow]
    """Durations of the requests by kind."""
    users: dict[str, DurationRow]
    """Durations of the requests by user."""
    now: float
    waiting: int
    running: int


class Reloaded(Result, frozen=True, kw_only=True):
    """Changes that a new config.toml has made, as text, and warnings about likely mistakes in it."""

    changes: list[str] = []
    warnings: list[str] = []


class ForwardList(Result, frozen=True, kw_only=True):
    """Ports that clients forward now."""

    forwards: list[ForwardRow]


class ForwardedPage(Result, frozen=True, kw_only=True):
    """The part of a forward's URL after the host, with its token."""

    page: str


class LogOpened(Result, frozen=True, kw_only=True):
    """Properties of a log at the time when it was opened.

    `offset` is the position at which its data begins, `size_bytes` the file's size. The others are its path
    and node.
    """

    offset: int = 0
    size_bytes: int = 0
    path: str = ""
    node: str = ""


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """Pushed to a subscriber: new or changed rows, and the ids of removed ones.

    The deltas up to the first with `ready` carry all rows.
    """

    jobs: list[JobRow] = []
    gone_jobs: list[int] = []
    nodes: list[NodeRow] = []
    gone_nodes: list[str] = []
    ready: bool = False
    engine: EngineRow = EngineRow()


class Ends(msgspec.Struct, frozen=True, kw_only=True):
    """Pushed to a client that sent AwaitEnds: jobs that have started and jobs that have ended.

    `done` lists the submissions that have nothing left to wait for. `unknown` lists those of them that the
    controller does not know, or no longer knows. A row is sent once for each start of its job.
    """

    begun: list[JobRow] = []
    ended: list[JobRow] = []
    done: list[int] = []
    unknown: list[int] = []
