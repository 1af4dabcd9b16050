"""The site's tables as the planner sees them: partitions, QoS, accounts, users, reservations and their
limits.

A TRES (trackable resource) is named as in Slurm: cpu, mem (MiB), node, billing, gres/gpu, gres/gpu:TYPE,
license/NAME.
"""

from __future__ import annotations

import math

import msgspec

from warpdeck.model import NodeName
from warpdeck.model.reservation import ReservationSpec

Tres = dict[str, int]
"""TRES name -> count. An absent TRES is not limited, or not used."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a QoS or an association, in Slurm's terms. None and an absent TRES mean no limit.

    grp_* limits apply to the sum over all running (or submitted) jobs. max_*_per_user, _per_account and
    _per_job apply to each user, account and job separately. grp_wall and tres_mins count past usage (decayed)
    plus the time that running jobs may still use. tres_run_mins counts only the time that running jobs may
    still use.
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
    """A partition: its nodes (None means all), the users that may use it, and its limits in seconds (None
    means no limit).

    `state` is UP, DOWN (accepts submissions but starts nothing), DRAIN (accepts no submissions but runs its
    queue) or INACTIVE (neither). An allow_* of None admits all. `preempt_mode` is off, requeue, suspend or
    cancel.
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
    """A QoS with limits that apply to the partition as a whole."""
    preempt_mode: str = ""
    """How jobs of this partition are preempted: off, requeue, suspend or cancel. "" uses the site's
    setting.
    """
    grace_s: int = 0
    exclusive: bool = False
    exclusive_user: bool = False
    """True if jobs of the partition share their nodes only with jobs of the same user."""


class QosView(msgspec.Struct, frozen=True, kw_only=True):
    """A quality of service.

    Its jobs may preempt running jobs of the QoS in `preempts`. `preempt_mode` is the way in which its own
    jobs are preempted.
    """

    name: str
    priority: int = 0
    limits: Limits = Limits()
    preempts: frozenset[str] = frozenset()
    preempt_mode: str = ""
    grace_s: int = 0
    preempt_exempt_s: int = 0
    """A running job cannot be preempted before it has run this many seconds."""
    usage_factor: float = 1.0
    overrides_partition: bool = False
    """True if the limits of the QoS override the limits of the partition (Slurm's flags OverPartQOS and
    PartitionTimeLimit).
    """
    deny_on_limit: bool = False
    usage: dict[str, float] = {}
    """TRES-seconds used under this QoS, decayed over time."""


class AccountView(msgspec.Struct, frozen=True, kw_only=True):
    """An account in the account tree. `usage` is the decayed usage of the account and its children.

    The `quota` is guaranteed: within the quota, jobs of the account may reclaim resources that other accounts
    borrow. Beyond the quota, the account borrows idle resources.
    """

    name: str
    parent: str = ""
    shares: int = 1
    limits: Limits = Limits()
    quota: Tres = {}
    usage: float = 0.0
    """Usage in billing-seconds, decayed with the site's half-life."""
    tres_usage: dict[str, float] = {}
    """Usage in TRES-seconds, decayed over time."""
    qos: frozenset[str] | None = None
    """QoS that jobs of the account may request; None means any."""


class UserView(msgspec.Struct, frozen=True, kw_only=True):
    """A user's association with an account: the shares and limits of this user in it."""

    user: str
    account: str
    shares: int = 1
    limits: Limits = Limits()
    usage: float = 0.0
    tres_usage: dict[str, float] = {}
    qos: frozenset[str] | None = None
    """QoS that the user's jobs may request in this account; None means any."""


class ReservationView(ReservationSpec, frozen=True, kw_only=True):
    """Nodes reserved from `start_unix` to `end_unix` (inf: forever) for these users or accounts.

    A `maintenance` reservation is for testing the nodes, or for no user. It has precedence over overlapping
    reservations. A view of the planner contains the next occurrences of a recurring reservation as separate
    reservations.
    """

    nodes: frozenset[NodeName]
    start_unix: float
    end_unix: float
    users: frozenset[str] = frozenset()
    accounts: frozenset[str] = frozenset()
    deny_users: frozenset[str] = frozenset()
    deny_accounts: frozenset[str] = frozenset()
    idle_since_unix: float | None = None
    accounts_below: frozenset[str] = frozenset()
    """All descendants of `accounts`. For a reservation, an account includes the accounts below it."""
    deny_below: frozenset[str] = frozenset()

    def admits(self, user: str, account: str) -> bool:
        """Return whether jobs of this user under this account may use the reservation. As in Slurm, both must
        be admitted.
        """
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
        """True if jobs in the reservation may use other nodes too."""
        return self.flex or self.any_nodes

    @property
    def is_of_parts(self) -> bool:
        """True if jobs in the reservation may use only parts of its nodes."""
        return bool(self.parts) and not self.is_everywhere

    def closes_unix(self) -> float:
        """Return the time after which jobs in the reservation cannot run; infinite if they may continue."""
        return math.inf if self.flex else self.end_unix
