"""Answers about policy: forecasts, priorities, shares, and the site's tables.

They are the format of `--json`.

Times are Unix seconds. None means unknown, without limit or without end.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from warpdeck.model.reservation import ReservationSpec


class QuotaRow(msgspec.Struct, frozen=True, kw_only=True):
    """The caller's use of the quotas, and their limits. A limit of 0 means no limit. Admins have no limits."""

    jobs: int
    """Number of unfinished jobs. The waiting tasks of an array count as one."""
    max_jobs: int
    request_bytes: int
    """Size of the scripts, arguments and environments of these jobs."""
    max_request_bytes: int
    trees: int
    """Number of code snapshots."""
    max_trees: int
    tree_bytes: int
    max_tree_bytes: int


class SiteGatewayRow(msgspec.Struct, frozen=True, kw_only=True):
    """The process that asks Slurm for the gateways of all users."""

    owner: str = ""
    """The name of its account."""
    requests_a_minute: float = 0.0
    """The number of its requests (RPCs) to slurmctld in the last minute, for all users together."""
    problem: str = ""
    """The reason why it is not asked now; "" if it is asked."""
    own: dict[str, str] = {}
    """Questions that each gateway asks Slurm itself, such as queue -> "PrivateData=jobs"."""


class RestRow(msgspec.Struct, frozen=True, kw_only=True):
    """The slurmrestd that the user's settings name as a source of the queue, the nodes and the partitions."""

    url: str = ""
    """Its address; "" if it may not have the token."""
    version: str = ""
    """The version of data_parser in which it has answered last; "" if it has not answered."""
    problem: str = ""
    """The reason why Slurm's commands are run instead, at least for a part; "" if there is none."""
    answers: list[str] = []
    """The parts for which it is asked: queue, nodes and partitions."""


class EngineRow(msgspec.Struct, frozen=True, kw_only=True):
    """The scheduler behind the API server, and the age of the data that it shows."""

    name: str = "warpdeck"
    """"warpdeck" for our own scheduler, "slurm" for a real Slurm."""
    version: str = ""
    cluster: str = ""
    read_at: float | None = None
    """Time at which Slurm last answered with its jobs. None means that the data is never old, or not read yet."""
    problem: str = ""
    """The error of the last attempt to read, with a next step; "" after a success."""
    requests_a_minute: float | None = None
    """The number of requests (RPCs) to slurmctld in a minute, at the present intervals."""
    site_gateway: SiteGatewayRow | None = None
    """The process of the site that asks Slurm for this gateway; None if there is none."""
    rest: RestRow | None = None
    """The slurmrestd that is asked for the queue and the nodes; None if the settings name none."""


class RecoveredRow(msgspec.Struct, frozen=True, kw_only=True):
    """A launch on a node that the database does not explain."""

    job: int
    label: str = ""
    user: str = ""
    """Owner of the job; "" if the node has no record of it."""
    name: str = ""
    node: str
    start: int = 0
    """Number of the job's start, counted from 0."""
    state: str
    """"running", "ended", or "forgotten": another controller has recorded its end."""
    exit: str = ""
    """Exit status of an ended one, such as 0:0."""
    output: str = ""
    """Path of its output."""
    action: str
    """"adopt", "discard", or "keep" if it can only be discarded."""
    reason: str = ""
    """Reason why it is kept."""


class AheadRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is planned before another one."""

    label: str
    user: str


class ForecastRow(msgspec.Struct, frozen=True, kw_only=True):
    """Expected start of a pending job, or of a request that was not submitted.

    `verdict` is now, later or never; it is "" if the job is not pending.
    """

    verdict: str = ""
    job: str = ""
    """Label of the job; "" for a request."""
    id: int = 0
    """Id of the job. For a request it is the id that it would get now."""
    partition: str = ""
    """Partition in which it starts, or the requested one."""
    cpus: int = 0
    """CPUs that it gets, or the minimum that it requests, including those of its components."""
    state: str = "PENDING"
    node_list: str = ""
    """Nodes on which it starts now."""
    expected_start: float | None = None
    """Expected start time; None if it cannot be predicted."""
    rough: bool = False
    """Whether the start was estimated from the rate at which earlier work completes.

    Otherwise it was planned job by job.
    """
    untold: str = ""
    """Reason why the start cannot be predicted."""
    code: str = ""
    sentence: str = ""
    """Reason why it does not start now."""
    hint: str = ""
    """Advice for a request that can never start."""
    details: dict[str, str] = {}
    """Values that belong to the reason code."""
    priority: int = 0
    ahead: int = 0
    """Number of pending jobs that are planned before it and may use the same nodes."""
    leaders: list[AheadRow] = []
    """The first of the pending jobs that are planned before it."""
    changes: list[str] = []
    """Changes that would start it now: the smallest one of each kind."""


class PriorityRow(msgspec.Struct, frozen=True, kw_only=True):
    """A line of sprio: the parts of a pending job's priority, each its weight times a factor of 0 to 1."""

    label: str
    number: int = 0
    """Id of the job, or of the whole array."""
    eligible: bool = True
    """Whether it waits only for its position in the queue."""
    user: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    priority: int = 0
    age_part: float = 0.0
    fairshare_part: float = 0.0
    job_size_part: float = 0.0
    partition_part: float = 0.0
    qos_part: float = 0.0
    tres_parts: dict[str, float] = {}
    nice: int = 0
    """Nice value, which is subtracted."""
    set_by_hand: bool = False
    """Whether an admin, or --priority, has set the priority instead of the sum."""


class ShareRow(msgspec.Struct, frozen=True, kw_only=True):
    """A line of sshare, in the order of the tree: an account (`user` is "") or a user in it.

    Usage is in billing-seconds.
    """

    account: str
    user: str = ""
    parent: str = ""
    depth: int = 0
    shares: int = 1
    norm_shares: float = 0.0
    """Shares divided by the sum of the shares of all accounts or users with the same parent."""
    usage: float = 0.0
    norm_usage: float = 0.0
    """Usage divided by the sum of the usage of all accounts or users with the same parent."""
    level_fs: float | None = None
    """norm_shares / norm_usage, or None without usage."""
    fairshare: float | None = None
    """A user's fair-share factor of the priority, from 0 to 1."""
    quota: dict[str, int] = {}
    """TRES that are guaranteed to an account."""
    limits: dict[str, dict[str, int] | int] = {}
    """Limits that are set here, by their names in policy.Limits.

    The values are TRES counts, numbers, and times in seconds.
    """
    holds: dict[str, dict[str, int] | int] = {}
    """The limits in force, by the same names.

    They include the limits per user and per job that are inherited from parent accounts.
    """
    default: bool = False
    """Whether this is the user's default account, for jobs that name none."""
    qos: list[str] | None = None
    """QoS that its jobs may request, set here or inherited; None means any."""
    default_qos: str = ""
    description: str = ""
    organization: str = ""
    coordinators: list[str] = []
    """The coordinators of an account and of the accounts above it."""


class UseRow(msgspec.Struct, frozen=True, kw_only=True):
    """Usage that counts against limits.

    It belongs to a QoS, to a user or account within a QoS, to an account with all accounts below it, or to a
    user in an account. `minutes` is the decayed past usage; "wall" counts the run time of jobs, independent
    of their resources. `run_minutes` is the usage that running jobs may still add.
    """

    qos: str = ""
    account: str = ""
    user: str = ""
    jobs: int = 0
    """Number of running jobs."""
    submitted: int = 0
    """Number of pending and running jobs; each task of an array counts."""
    tres: dict[str, int] = {}
    minutes: dict[str, float] = {}
    run_minutes: dict[str, float] = {}


class PartitionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A partition: the current state of its nodes, its limits, and who may use it (None means all users)."""

    name: str
    position: int = 0
    """Position in the configuration's order."""
    default: bool = False
    state: str = "UP"
    node_list: str = ""
    missing: str = ""
    """Nodes that the configuration names and that do not exist."""
    node_states: dict[str, int] = {}
    """Number of nodes by state, with sinfo's names of the states."""
    nodes: int = 0
    cpus: int = 0
    cpus_used: int = 0
    gpus: int = 0
    gpus_used: int = 0
    max_time_s: int | None = None
    default_time_s: int | None = None
    min_nodes: int = 0
    max_nodes: int | None = None
    priority_tier: int = 1
    priority_job_factor: int = 1
    preempt_mode: str = ""
    """Preemption mode; "" means the site's."""
    grace_s: int = 0
    qos: str = ""
    exclusive: bool = False
    exclusive_user: bool = False
    allow_groups: list[str] | None = None
    allow_users: list[str] | None = None
    allow_accounts: list[str] | None = None
    deny_accounts: list[str] = []
    allow_qos: list[str] | None = None
    deny_qos: list[str] = []


class DurationRow(msgspec.Struct, frozen=True, kw_only=True):
    """Count, total, maximum and last value of one kind of duration, in seconds."""

    count: int
    total_s: float
    most_s: float
    last_s: float


class LicenseRow(msgspec.Struct, frozen=True, kw_only=True):
    """A license of the site, with the numbers used by running jobs and reserved by current reservations."""

    name: str
    total: int
    used: int = 0
    reserved: int = 0


class ReservationRow(ReservationSpec, frozen=True, kw_only=True):
    """A reservation. `state` is future, active or over.

    If the reservation repeats, start and end are those of the current or next occurrence.
    """

    state: str
    node_list: str
    start: float | None = None
    end: float | None = None
    users: list[str] = msgspec.field(default_factory=list)
    accounts: list[str] = msgspec.field(default_factory=list)
    deny_users: list[str] = msgspec.field(default_factory=list)
    deny_accounts: list[str] = msgspec.field(default_factory=list)


class QosRow(msgspec.Struct, frozen=True, kw_only=True):
    """A QoS. `limits` has the names of config.toml: TRES -> count, numbers, and times in seconds."""

    name: str
    priority: int = 0
    preempts: list[str] = []
    preempt_mode: str = ""
    grace_s: int = 0
    usage_factor: float = 1.0
    limits: dict[str, dict[str, int] | int] = {}


class StandbyMode(StrEnum):
    """When a request is answered: after the standby has it on disk, too, or after the controller has it."""

    SYNC = "sync"
    ASYNC = "async"


class StandbyState(StrEnum):
    """The connection to the standby, and the state of its copy."""

    CONNECTING = "connecting"
    COPYING = "copying"
    """It gets a full copy of the database."""
    FOLLOWING = "following"
    LOST = "lost"


class StandbyRow(msgspec.Struct, frozen=True, kw_only=True):
    """The standby, and how far its copy is behind."""

    target: str
    host: str = ""
    home: str
    mode: str
    keys: bool = False
    """Whether the private keys for the nodes are copied, too."""
    state: str = StandbyState.CONNECTING
    waits: bool = False
    """Whether requests are answered only after the standby has them. In the mode sync this is false while the standby does
    not answer in time.
    """
    behind_batches: int = 0
    behind_s: float = 0.0
    """Age of the oldest batch that the standby lacks."""
    problem: str = ""
    """The reason why the standby does not follow, or "". """
    command: str = ""
    """The command that runs warpdeck on the standby."""


class AuditOutcome(StrEnum):
    """The outcome of a request."""

    DONE = "done"
    REFUSED = "refused"
    """The caller had no right to it."""
    FAILED = "failed"
    """It was not possible for another reason, and changed nothing."""
    UNCERTAIN = "uncertain"
    """The caller left before the answer, or a bug ended the request. It may have been carried out."""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request that changed something, or was refused."""

    number: int
    """Number of the entry. The numbers have no gaps, so that missing entries are noticed."""
    at: float
    """Time of the answer, in Unix seconds."""
    user: str
    uid: int
    origin: str = ""
    """Where the request came from: "pid 812 sbatch", "job 12 on gpu01", or "signal"."""
    request: str
    """Tag of the request, such as "cancel"; "connect" for a refused connection."""
    objects: list[str] = []
    details: dict[str, Any] = {}
    outcome: AuditOutcome
    reason: str = ""
    """Message of the refusal or of the failure."""
    code: str = ""
    omitted: int = 0
    """Number of refused requests of this user before this one that have no entries, because there were too many."""
