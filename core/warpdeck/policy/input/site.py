"""The site's tables as the planner sees them: partitions, QoS, accounts, users, reservations and their limits.

A TRES (trackable resource) is named as in Slurm: cpu, mem (MiB), node, billing, gres/gpu, gres/gpu:TYPE, license/NAME.
"""

from __future__ import annotations

import math

import msgspec

from warpdeck.model import NodeName
from warpdeck.model.reservation import Repeat, Replacement, ReservedPart

Tres = dict[str, int]
"""TRES name -> count. A TRES that is absent is not limited, or not used."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a QoS or an association, in Slurm's terms; None and absent TRES: no limit.

    grp_*: all running (or submitted) jobs under it together; max_*_per_user, _per_account, _per_job: each of them.
    grp_wall and tres_mins count what was used (decayed) plus what running jobs may still use, tres_run_mins only the latter.
    """

    grp_tres: Tres = {}
    grp_tres_mins: Tres = {}
    grp_tres_run_mins: Tres = {}
    grp_wall_s: int | None = None
    grp_jobs: int | None = None
    grp_submit: int | None = None
    max_tres_per_job: Tres = {}
    max_tres_per_node: Tres = {}
    max_tres_per_user: Tres = {}
    max_tres_per_account: Tres = {}
    max_tres_mins_per_job: Tres = {}
    max_jobs_per_user: int | None = None
    max_jobs_per_account: int | None = None
    max_submit_per_user: int | None = None
    max_submit_per_account: int | None = None
    max_wall_s: int | None = None
    min_tres_per_job: Tres = {}


class PartitionView(msgspec.Struct, frozen=True, kw_only=True):
    """A partition: its nodes (None: all), who may use it, and its limits in seconds (None: no limit).

    `state`: UP; DOWN takes submissions and starts nothing; DRAIN takes none and lets the queue run; INACTIVE neither.
    allow_* None admits everybody. `preempt_mode`: off, requeue, suspend or cancel, for jobs of lower tiers that are in the way.
    """

    name: str
    nodes: frozenset[NodeName] | None = None
    state: str = "UP"
    max_time_s: int | None = None
    default_time_s: int | None = None
    max_nodes: int | None = None
    min_nodes: int = 0
    priority_tier: int = 1
    priority_job_factor: int = 1
    allow_users: frozenset[str] | None = None
    allow_accounts: frozenset[str] | None = None
    deny_accounts: frozenset[str] = frozenset()
    allow_qos: frozenset[str] | None = None
    deny_qos: frozenset[str] = frozenset()
    qos: str = ""
    """A QoS whose limits hold for the partition as a whole."""
    preempt_mode: str = ""
    """What is done to jobs of this partition when they are preempted: "" is the site's setting."""
    grace_s: int = 0
    exclusive: bool = False
    exclusive_user: bool = False
    """Its jobs share their nodes with jobs of the same user alone."""


class QosView(msgspec.Struct, frozen=True, kw_only=True):
    """A quality of service. `preempts` names the QoS whose running jobs it may push aside, `preempt_mode` how its own are."""

    name: str
    priority: int = 0
    limits: Limits = Limits()
    preempts: frozenset[str] = frozenset()
    preempt_mode: str = ""
    grace_s: int = 0
    preempt_exempt_s: int = 0
    """A running job is not preempted before it ran so long."""
    usage_factor: float = 1.0
    overrides_partition: bool = False
    """Its limits go before those of the partition (Slurm's OverPartQOS and PartitionTimeLimit flags)."""
    deny_on_limit: bool = False
    usage: dict[str, float] = {}
    """Decayed TRES-seconds used under it."""


class AccountView(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the account tree. `usage` is its own and its children's decayed use.

    `quota` is guaranteed: within it jobs may reclaim what others borrow; beyond it the account borrows what is idle.
    """

    name: str
    parent: str = ""
    shares: int = 1
    limits: Limits = Limits()
    quota: Tres = {}
    usage: float = 0.0
    """Billing-seconds, decayed, with the half-life of the site."""
    tres_usage: dict[str, float] = {}
    """Decayed TRES-seconds."""
    qos: frozenset[str] | None = None
    """QoS its jobs may ask for; None: any."""


class UserView(msgspec.Struct, frozen=True, kw_only=True):
    """A user's association with an account: shares and limits of this user in it."""

    user: str
    account: str
    shares: int = 1
    limits: Limits = Limits()
    usage: float = 0.0
    tres_usage: dict[str, float] = {}
    qos: frozenset[str] | None = None
    """QoS that the user's jobs may ask for there; None: any."""


class ReservationView(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that are set aside from `start_unix` to `end_unix` (inf: for good) for these users or accounts.

    `maintenance`: for them to try the nodes, or for nobody; where reservations overlap it goes before the others. What is not
    explained here is as in model.Reservation.
    """

    name: str
    nodes: frozenset[NodeName]
    start_unix: float
    end_unix: float
    users: frozenset[str] = frozenset()
    accounts: frozenset[str] = frozenset()
    deny_users: frozenset[str] = frozenset()
    deny_accounts: frozenset[str] = frozenset()
    maintenance: bool = False
    overlap: bool = False
    """It was meant to overlap with others."""
    repeat: Repeat = ""
    """How it comes again; a View has its next occurrences as reservations of their own."""
    magnetic: bool = False
    flex: bool = False
    any_nodes: bool = False
    hold_jobs_after: bool = True
    float_s: int | None = None
    purge_after_s: int | None = None
    idle_since_unix: float | None = None
    node_count: int = 0
    partition: str = ""
    replace: Replacement = ""
    static: bool = False
    groups: tuple[str, ...] = ()
    features: str = ""
    licenses: tuple[tuple[str, int], ...] = ()
    first_cores: bool = False
    burst_buffer: str = ""
    watts: int = 0
    max_start_delay_s: int = 0
    parts: tuple[ReservedPart, ...] = ()
    """In place of whole nodes."""
    accounts_below: frozenset[str] = frozenset()
    """The children of its accounts, and theirs: for it an account stands for all under it."""
    deny_below: frozenset[str] = frozenset()

    def admits(self, user: str, account: str) -> bool:
        """Whether this user's jobs under this account may use it: as in Slurm both must do."""
        if self.float_s is not None or not (
            self.users or self.accounts or self.deny_users or self.deny_accounts
        ):
            return False
        return (
            (not self.users or user in self.users)
            and (not self.accounts or account in self.accounts or account in self.accounts_below)
            and user not in self.deny_users
            and account not in self.deny_accounts
            and account not in self.deny_below
        )

    @property
    def is_everywhere(self) -> bool:
        """Whether its jobs may use other nodes too."""
        return self.flex or self.any_nodes

    @property
    def is_of_parts(self) -> bool:
        """Whether its jobs have parts of its nodes, and nothing else."""
        return bool(self.parts) and not self.is_everywhere

    def closes_unix(self) -> float:
        """Past which its jobs do not run; inf where they may."""
        return math.inf if self.flex else self.end_unix
