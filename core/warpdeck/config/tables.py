"""The tables of config.toml as types: every key with its form, its default and its meaning.

Names are Slurm's names where Slurm has the setting. A site without a file, or with an empty one, has these
defaults.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from warpdeck.model.reservation import Repeat

from .forms import Limit, Memory, Nodes, Time, TresCounts, TresPrices, TresWeights
from .node_tables import Containment, Gpus, Health, Hooks
from .table_types import (
    MAX_COUNT,
    Count,
    Names,
    Positive,
    PreemptMode,
    Private,
    Seconds,
    Table,
    WholeSeconds,
)


class Weights(Table, frozen=True, kw_only=True):
    """[scheduler.weights]: the weight of each factor of the priority (PriorityWeight*)."""

    age: Count = 0
    fairshare: Count = 0
    job_size: Count = 0
    partition: Count = 0
    qos: Count = 0
    tres: TresWeights = msgspec.field(default_factory=dict)


class Scheduler(Table, frozen=True, kw_only=True):
    """[scheduler]: settings of the planner. See warpdeck.policy.PlannerSettings."""

    weights: Weights = Weights()
    max_age: Time = 7 * 86_400
    """Waiting time after which the age factor reaches its maximum (PriorityMaxAge)."""
    favor_small: bool = False
    billing_weights: TresPrices = msgspec.field(default_factory=dict)
    """Price of each TRES for fair-share. If it is empty, a CPU costs 1."""
    backfill: Literal["none", "easy", "conservative"] = "easy"
    queue_order: Literal["submission", "response"] = "response"
    """Order of jobs with equal priority: by submission, or by response ratio.

    The response ratio is (waiting time + predicted run time) / predicted run time; the highest comes first.
    """
    overdue_share: Annotated[float, msgspec.Meta(ge=0, le=MAX_COUNT)] = 0.5
    """Fraction of the longest recent wait, for queue_order = "response".

    A job with an expected wait of this fraction is no longer passed by others.
    """
    overdue_reservations: Count = 2
    """Maximum number of reservations for jobs that have waited that long, for queue_order = "response".

    Only jobs that have waited at least as long as their predicted run time count.
    """
    wait_bound: Limit = None
    """A job that has waited longer goes before all others, with a reservation. Without a value there is no bound."""
    keep_reserved: bool = False
    """A job that has a reserved start never gets a later one because of jobs that come later, or of another order."""
    reservations: Count = 1
    reservation_holds: Literal["nodes", "start"] = "nodes"
    backfill_order: Literal["priority", "shortest"] = "shortest"
    default_time: Limit = None
    """Time limit of jobs that request none, in partitions without a default."""
    default_mem_per_cpu: Memory = 0
    """Memory per CPU of jobs that request no memory. With 0, the memory of these jobs is not counted."""
    default_partition: str = ""
    max_starts: Positive = 1000
    max_backfill_tests: Positive = 10_000
    max_forecasts: Count = 64
    preempt_by: Literal["off", "qos", "partition"] = "qos"
    preempt_mode: Literal["requeue", "suspend", "cancel"] = "requeue"
    preempt_grace_s: WholeSeconds = 30
    preempt_exempt_s: WholeSeconds = 0
    pause_grace_s: WholeSeconds = 120
    """Seconds in which a job that is paused may save its work, unless it asked for a time with --signal."""
    limit_grace_s: WholeSeconds = 300
    """Seconds beyond its time limit in which a job with --requeue=limit may wait for its next checkpoint."""
    hang_after_s: WholeSeconds = 180
    """Seconds without any progress after which a training job with a regular output is examined; 0: never."""
    suspend_keeps_gpus: bool = True
    reclaim: bool = True
    """Accounts may preempt jobs of others to get back resources of their quota."""
    kill_invalid_dependency: bool = True
    expedited_requeue: bool = False
    """Whether jobs with --requeue=expedite get the highest priority after their node failed."""
    enforce_limits: bool = True


class Fairshare(Table, frozen=True, kw_only=True):
    """[fairshare]: settings of fair-share."""

    half_life: Limit = 7 * 86_400
    """Time after which usage counts half as much (PriorityDecayHalfLife).

    With UNLIMITED, usage does not decay.
    """


class NodeTable(Table, frozen=True, kw_only=True):
    """[nodes."HOSTLIST"]: facts about nodes that the nodes cannot report.

    Several tables may describe the same node.
    """

    features: Names = ()
    switch: str | None = None
    weight: Count | None = None
    comment: str | None = None
    extra: str | None = None
    """Text for people and tools. It affects no decision."""


class Partition(Table, frozen=True, kw_only=True):
    """[partitions.NAME]: a partition."""

    nodes: Nodes = None
    state: Literal["UP", "DOWN", "DRAIN", "INACTIVE"] = "UP"
    max_time: Limit = None
    default_time: Limit = None
    max_nodes: Positive | None = None
    min_nodes: Count = 0
    priority_tier: Count = 1
    priority_job_factor: Count = 1
    allow_groups: Names | None = None
    """Unix groups. They are looked up at submission, and every few minutes for users with pending jobs."""
    allow_users: Names | None = None
    """Users that are allowed in addition to those groups."""
    allow_accounts: Names | None = None
    deny_accounts: Names = ()
    allow_qos: Names | None = None
    deny_qos: Names = ()
    qos: str = ""
    """QoS with limits that apply to the partition as a whole."""
    preempt_mode: PreemptMode = ""
    grace_s: WholeSeconds = 0
    exclusive: bool = False
    exclusive_user: bool = False
    """ExclusiveUser of Slurm: jobs of different users do not share a node."""


class LimitTable(Table, frozen=True, kw_only=True):
    """Limits of a QoS, an account or a user, as in warpdeck.policy.Limits. An absent key means no limit."""

    grp_tres: TresCounts = msgspec.field(default_factory=dict)
    grp_tres_mins: TresCounts = msgspec.field(default_factory=dict)
    grp_tres_run_mins: TresCounts = msgspec.field(default_factory=dict)
    grp_wall: Limit = None
    grp_jobs: Count | None = None
    grp_submit: Count | None = None
    max_tres_per_job: TresCounts = msgspec.field(default_factory=dict)
    max_tres_per_node: TresCounts = msgspec.field(default_factory=dict)
    max_tres_per_user: TresCounts = msgspec.field(default_factory=dict)
    max_tres_per_account: TresCounts = msgspec.field(default_factory=dict)
    max_tres_mins_per_job: TresCounts = msgspec.field(default_factory=dict)
    max_jobs_per_user: Count | None = None
    max_jobs_per_account: Count | None = None
    max_submit_per_user: Count | None = None
    max_submit_per_account: Count | None = None
    max_wall: Limit = None
    min_tres_per_job: TresCounts = msgspec.field(default_factory=dict)


class Qos(LimitTable, frozen=True, kw_only=True):
    """[qos.NAME]: a QoS."""

    priority: Count = 0
    preempts: Names = ()
    preempt_mode: PreemptMode = ""
    grace_s: WholeSeconds = 0
    preempt_exempt_s: WholeSeconds = 0
    usage_factor: Annotated[float, msgspec.Meta(ge=0, le=MAX_COUNT)] = 1.0
    overrides_partition: bool = False
    deny_on_limit: bool = False


class User(LimitTable, frozen=True, kw_only=True):
    """[accounts.NAME.users.USER]: a user's association with an account."""

    shares: Count = 1
    default: bool = False
    """Whether jobs of this user that name no account run under this account.

    The key is needed only if the user has several accounts.
    """
    qos: Names | None = None
    """QoS that this user's jobs may request. If the key is absent, the QoS of the account apply."""
    default_qos: str = ""


class Account(LimitTable, frozen=True, kw_only=True):
    """[accounts.NAME]: an account."""

    parent: str = ""
    description: str = ""
    organization: str = ""
    """Text for people: a description of the account, and its owner."""
    shares: Count = 1
    quota: TresCounts = msgspec.field(default_factory=dict)
    """Guaranteed resources. If the account needs them, jobs of other accounts are preempted for them."""
    qos: Names | None = None
    """QoS that jobs of the account may request.

    If the key is absent, the QoS of the parent account apply. If no account has a list, any QoS is allowed.
    """
    default_qos: str = ""
    coordinators: Names = ()
    """Users who change the users and limits below this account, and control its jobs, as well as those of all accounts
    below it.
    """
    users: dict[str, User] = msgspec.field(default_factory=dict)


class SiteUser(Table, frozen=True, kw_only=True):
    """[users.NAME]: a user's rights on the site."""

    admin_level: Literal["none", "operator", "administrator"] = "none"
    """Rights on the whole site, as Slurm's AdminLevel: none, operator or administrator.

    An operator changes accounts, reservations and jobs of all users. An administrator also changes nodes, partitions,
    QoS and admin levels. Neither can read the output of other users' jobs, or use their processes.
    """


class Access(Table, frozen=True, kw_only=True):
    """[access]: the visibility of other users' data."""

    private_data: tuple[Private, ...] = ()
    """Subjects that only operators and the users concerned see (PrivateData): accounts, events, jobs, nodes, partitions,
    reservations, usage, and users.
    """


class Reservation(Table, frozen=True, kw_only=True):
    """[reservations.NAME]: nodes reserved for users, accounts or maintenance.

    Times without a time zone are local.
    """

    nodes: Nodes = None
    start: datetime | None = None
    """Start time; if absent, the reservation is always in force."""
    end: datetime | None = None
    duration: Limit = None
    """Duration as an alternative to `end`. Without both the reservation does not end."""
    users: Names = ()
    accounts: Names = ()
    maintenance: bool = False
    repeat: Repeat = ""
    """Repetition at the same local time: hourly, daily, weekday (Monday to Friday), weekend or weekly."""
    flags: Names = ()
    """Slurm's reservation flags in scontrol's form.

    They are MAGNETIC, FLEX, ANY_NODES, OVERLAP, NO_HOLD_JOBS_AFTER_END; MAINT and flags such as DAILY are
    also accepted.
    """


class Interactive(Table, frozen=True, kw_only=True):
    """[interactive]: sessions on terminals."""

    idle_limit_s: WholeSeconds = 0
    """Seconds after which an idle session is ended; 0 disables this.

    Idle means no input, no output and no computation.
    """
    idle_warning_s: WholeSeconds = 300
    """Seconds before the end of an idle session at which a warning is shown in the terminal."""
    watch: Literal["owner", "account", "all"] = "owner"
    """Users who may watch a terminal, in addition to its owner and admins.

    "owner" allows no others, "account" the users of the job's account, and "all" every user.
    """


IdleAction = Literal["none", "watch", "warn", "pause", "cancel"]


class IdleGpuRule(Table, frozen=True, kw_only=True):
    """[idle_gpus.qos.NAME]: another rule for the jobs of a QoS. A key that is absent has the value of [idle_gpus]."""

    action: Literal["", "none", "watch", "warn", "pause", "cancel"] = ""
    """The action on a job of this QoS with idle GPUs."""
    after_s: WholeSeconds | None = None
    """Seconds of idle GPUs after which the user is warned."""
    grace_s: WholeSeconds | None = None
    """Seconds after the warning until the job is paused or canceled."""


class IdleGpus(Table, frozen=True, kw_only=True):
    """[idle_gpus]: jobs and sessions that hold GPUs and do not use them.

    The GPUs of a job are idle while all of them, on all of its nodes, are used by less than 5 %.
    """

    action: IdleAction = "none"
    """The action on a job with idle GPUs. "watch" notes in the history of the job what "cancel" would do, "warn" only warns its
    user, "pause" lets it save its work and puts it back in the queue, and "cancel" ends it.

    A job that cannot return to the queue, such as a session, is not paused, only warned.
    """
    after_s: WholeSeconds = 3600
    """Seconds of idle GPUs after which the user is warned in the output of the job."""
    grace_s: WholeSeconds = 1800
    """Seconds after the warning until the job is paused or canceled."""
    qos: dict[str, IdleGpuRule] = msgspec.field(default_factory=dict)

    def rule(self, qos: str) -> IdleGpus:
        """Return the rule for the jobs of a QoS."""
        own = self.qos.get(qos)
        if own is None:
            return self
        return IdleGpus(
            action=own.action or self.action,
            after_s=self.after_s if own.after_s is None else own.after_s,
            grace_s=self.grace_s if own.grace_s is None else own.grace_s,
        )


class Steps(Table, frozen=True, kw_only=True):
    """[steps]: steps that srun starts inside allocations."""

    mpi: Literal["none", "pmi2"] = "none"
    """PMI type for the ranks of MPI programs if srun has no --mpi option (MpiDefault)."""


class Submission(Table, frozen=True, kw_only=True):
    """[submission]: options of job scripts, and the code that jobs run."""

    sbatch_runs: Literal["folder", "snapshot"] = "folder"
    """Code that jobs of sbatch run: the submit folder as in Slurm, or a snapshot.

    With "snapshot", jobs run the code as it was at submission, as with `warpdeck submit`.
    """

    plugin_options: dict[str, Literal["required", "none", "optional"]] = msgspec.field(default_factory=dict)
    """Options of the site's former SPANK plug-ins, and whether each takes a value.

    They are accepted with a message that they have no effect.
    """


class Quotas(Table, frozen=True, kw_only=True):
    """[quotas]: limits on the jobs, requests and code snapshots of each user at the controller.

    They do not apply to admins. 0 means no limit.
    """

    max_jobs: Count = 10_000
    """Maximum number of a user's unfinished jobs (MaxJobCount). Waiting tasks of an array count as one job."""
    max_request_size: Memory = 1024**3
    """Maximum size of the scripts, arguments and environments of a user's unfinished jobs."""
    max_trees: Count = 1000
    """Maximum number of a user's code snapshots."""
    max_trees_size: Memory = 10 * 1024**3
    """Maximum size of a user's packed code snapshots. The oldest that no unfinished job needs are removed first."""
    keep_trees_s: Seconds = 30 * 86_400.0
    """Seconds for which a code snapshot is kept after its last use. Unfinished jobs keep theirs longer."""


class Mail(Table, frozen=True, kw_only=True):
    """[mail]: notifications that users requested with --mail-type.

    Without a program and a webhook nothing is sent.
    """

    program: str = ""
    """A sendmail program on the controller's machine (MailProg).

    It is called with `-i -- ADDRESS...` and gets the mail on its standard input.
    """
    webhook: str = ""
    """An HTTP address to which each mail is sent."""
    webhook_format: Literal["json", "slack", "ntfy"] = "json"
    """The form in which the webhook gets a mail.

    "json" sends all of its fields, "slack" a message for an incoming webhook of Slack or Mattermost, and "ntfy" a notification
    for a topic of ntfy, which is the last part of the address.
    """


class Retention(Table, frozen=True, kw_only=True):
    """[retention]: ended jobs that are deleted from the database.

    Their costs stay in the sums of the history, and charged usage does not change. Without a limit, all jobs are
    kept forever.
    """

    days: Count = 0
    """Days after its end at which a job is deleted (PurgeJobAfter); 0 sets no such limit."""
    jobs: Count = 0
    """Number of ended jobs that are kept; the oldest ones are deleted first. 0 sets no such limit."""
    archive: str = ""
    """Absolute path of a folder to which jobs are written before they are deleted (ArchiveJobs, ArchiveDir).

    Each month of ends gets a database file there. "" deletes jobs without an archive.
    """


class Config(Table, frozen=True, kw_only=True):
    """The complete config.toml."""

    grace_s: Seconds = 30.0
    """Seconds between TERM and KILL when a job is ended (KillWait)."""
    keep_finished_s: Seconds = 3600.0
    """Seconds for which finished jobs stay in the queue view. The history keeps them as [retention] says."""
    metrics_port: Count = 0
    """Port of http://metrics_address:metrics_port/metrics for Prometheus; 0 disables it."""
    metrics_address: str = "127.0.0.1"
    """Everyone who can connect to this address may read the metrics: users, jobs and usage."""
    scheduler: Scheduler = Scheduler()
    fairshare: Fairshare = Fairshare()
    gpus: Gpus = Gpus()
    containment: Containment = Containment()
    hooks: Hooks = Hooks()
    health: Health = Health()
    interactive: Interactive = Interactive()
    idle_gpus: IdleGpus = IdleGpus()
    submission: Submission = Submission()
    quotas: Quotas = Quotas()
    steps: Steps = Steps()
    mail: Mail = Mail()
    retention: Retention = Retention()
    licenses: dict[str, Count] = msgspec.field(default_factory=dict)
    nodes: dict[str, NodeTable] = msgspec.field(default_factory=dict)
    partitions: dict[str, Partition] = msgspec.field(default_factory=dict)
    qos: dict[str, Qos] = msgspec.field(default_factory=dict)
    accounts: dict[str, Account] = msgspec.field(default_factory=dict)
    users: dict[str, SiteUser] = msgspec.field(default_factory=dict)
    access: Access = Access()
    reservations: dict[str, Reservation] = msgspec.field(default_factory=dict)
