"""What the controller answers about policy: a forecast, priorities, shares, and the site's tables. The shapes of `--json`.

Times are unix seconds; None is unknown, without limit or without end.
"""

from __future__ import annotations

import msgspec

from warpdeck.model.reservation import ReservedPart


class AheadRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is planned before another."""

    label: str
    user: str


class ForecastRow(msgspec.Struct, frozen=True, kw_only=True):
    """When a job that waits, or a request that was not made, starts. `verdict`: now, later, never; "" if it does not wait."""

    verdict: str = ""
    job: str = ""
    """Its label; "" for a request."""
    id: int = 0
    """Its number; of a request the one that it would get now."""
    partition: str = ""
    """That it starts in, or asks for."""
    cpus: int = 0
    """That it gets, or asks for at least; with those of its components."""
    state: str = "PENDING"
    node_list: str = ""
    """Where it starts now."""
    expected_start: float | None = None
    """None: it cannot be told."""
    rough: bool = False
    """Estimated from the pace at which the work ahead of it is done; else worked out job by job."""
    untold: str = ""
    """Why it cannot be told."""
    code: str = ""
    sentence: str = ""
    """Why not now."""
    hint: str = ""
    """What to do about a request that can never start."""
    details: dict[str, str] = {}
    """The data of its code."""
    priority: int = 0
    ahead: int = 0
    """Waiting jobs that are planned before it, for nodes that it may use too."""
    leaders: list[AheadRow] = []
    """The first of them."""
    changes: list[str] = []
    """What would start it now, the least change of each kind."""


class PriorityRow(msgspec.Struct, frozen=True, kw_only=True):
    """A line of sprio: the parts of a waiting job's priority, each its weight times a factor of 0 to 1."""

    label: str
    number: int = 0
    """The job's, of an array that of all of it."""
    eligible: bool = True
    """It waits for nothing but its turn."""
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
    """Taken off."""
    set_by_hand: bool = False
    """An admin, or --priority, has put a number in place of the sum."""


class ShareRow(msgspec.Struct, frozen=True, kw_only=True):
    """A line of sshare, in the order of the tree: an account (`user` "") or a user in it. Usage is in billing-seconds."""

    account: str
    user: str = ""
    parent: str = ""
    depth: int = 0
    shares: int = 1
    norm_shares: float = 0.0
    """Part of the siblings' shares."""
    usage: float = 0.0
    norm_usage: float = 0.0
    """Part of the siblings' usage."""
    level_fs: float | None = None
    """norm_shares / norm_usage; None without usage."""
    fairshare: float | None = None
    """Of a user: the factor of the priority, over 0 to 1."""
    quota: dict[str, int] = {}
    """Of an account: TRES that are guaranteed to it."""
    limits: dict[str, dict[str, int] | int] = {}
    """Those that are set, by their names in policy.Limits: TRES -> count, numbers, and times in seconds."""
    holds: dict[str, dict[str, int] | int] = {}
    """The same with what it has from the accounts above: limits of each user and of each job."""
    default: bool = False
    """Of a user: jobs that name no account run under this one."""
    qos: list[str] | None = None
    """QoS that its jobs may ask for, its own or those of above; None: any."""
    default_qos: str = ""
    description: str = ""
    organization: str = ""


class UseRow(msgspec.Struct, frozen=True, kw_only=True):
    """What counts against limits under a QoS, a user or an account in it, an account (with all below it), or a user in an account.

    `minutes` were used, decayed, with "wall" for the time that jobs ran, whatever they held; `run_minutes` may running jobs still use.
    """

    qos: str = ""
    account: str = ""
    user: str = ""
    jobs: int = 0
    """That run."""
    submitted: int = 0
    """That wait or run; tasks of an array one by one."""
    tres: dict[str, int] = {}
    minutes: dict[str, float] = {}
    run_minutes: dict[str, float] = {}


class PartitionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A partition: its nodes as they are now, its limits, and who may use it (None: everybody)."""

    name: str
    position: int = 0
    """In the configuration's order."""
    default: bool = False
    state: str = "UP"
    node_list: str = ""
    missing: str = ""
    """Nodes that the configuration names and that are not there."""
    node_states: dict[str, int] = {}
    """State in sinfo's words -> nodes."""
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
    """"": the site's."""
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


class LicenseRow(msgspec.Struct, frozen=True, kw_only=True):
    """A license of the site, how many of it running jobs have, and how many reservations of now."""

    name: str
    total: int
    used: int = 0
    reserved: int = 0


class ReservationRow(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes set aside. `state`: future, active, over."""

    name: str
    state: str
    node_list: str
    start: float | None = None
    end: float | None = None
    users: list[str] = []
    accounts: list[str] = []
    maintenance: bool = False
    overlap: bool = False
    repeat: str = ""
    """How it comes again; start and end are of the present or next time."""
    deny_users: list[str] = []
    deny_accounts: list[str] = []
    magnetic: bool = False
    flex: bool = False
    any_nodes: bool = False
    hold_jobs_after: bool = True
    float_s: int | None = None
    purge_after_s: int | None = None
    node_count: int = 0
    partition: str = ""
    replace: str = ""
    static: bool = False
    groups: list[str] = []
    features: str = ""
    licenses: list[tuple[str, int]] = []
    first_cores: bool = False
    burst_buffer: str = ""
    watts: int = 0
    max_start_delay_s: int = 0
    parts: list[ReservedPart] = []
    """These are as in model.Reservation."""


class QosRow(msgspec.Struct, frozen=True, kw_only=True):
    """A QoS. `limits` by their names in config.toml: TRES -> count, numbers, and times in seconds."""

    name: str
    priority: int = 0
    preempts: list[str] = []
    preempt_mode: str = ""
    grace_s: int = 0
    usage_factor: float = 1.0
    limits: dict[str, dict[str, int] | int] = {}
