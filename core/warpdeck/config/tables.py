"""The tables of config.toml as types: every key, its form, its default, and what it means.

Names are Slurm's where Slurm has them. A site without a file, or with an empty one, has these defaults.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from warpdeck.model.reservation import Repeat

from .forms import Limit, Memory, Nodes, Time, TresCounts, TresPrices, TresWeights

MAX_COUNT = 2**53
"""Beyond it floats do not count any more."""
MAX_SECONDS = 10**9
"""30 years: beyond it a number is a slip."""

Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=MAX_COUNT)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=MAX_SECONDS)]
CheckSeconds = Annotated[float, msgspec.Meta(ge=1, le=MAX_SECONDS)]
WholeSeconds = Annotated[int, msgspec.Meta(ge=0, le=MAX_SECONDS)]
Names = tuple[str, ...]
PreemptMode = Literal["", "off", "requeue", "suspend", "cancel"]
"""What is done to a job that is preempted; "" leaves it to the next wider setting."""


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all tables."""


class Weights(Table, frozen=True, kw_only=True):
    """[scheduler.weights]: how much each factor of the priority counts (PriorityWeight*)."""

    age: Count = 0
    fairshare: Count = 0
    job_size: Count = 0
    partition: Count = 0
    qos: Count = 0
    tres: TresWeights = {}


class Scheduler(Table, frozen=True, kw_only=True):
    """[scheduler]: how to plan. See warpdeck.policy.Settings."""

    weights: Weights = Weights()
    max_age: Time = 7 * 86_400
    """The age factor is full after this (PriorityMaxAge)."""
    favor_small: bool = False
    billing_weights: TresPrices = {}
    """What a TRES costs, for fairshare; empty: a CPU costs 1."""
    backfill: Literal["none", "easy", "conservative"] = "easy"
    queue_order: Literal["submission", "response"] = "response"
    """Among jobs of equal priority: who came first, or who waits longest for what the job is worth."""
    overdue_share: Annotated[float, msgspec.Meta(ge=0, le=MAX_COUNT)] = 0.5
    """With response: a job is passed no more when its wait is going to come to so much of the longest wait lately."""
    overdue_reservations: Count = 2
    """With response: how many have a reservation while so many have waited that long already."""
    reservations: Count = 1
    reservation_holds: Literal["nodes", "start"] = "nodes"
    backfill_order: Literal["priority", "shortest"] = "shortest"
    default_time: Limit = None
    """For jobs that ask for no limit, where their partition has none either."""
    default_mem_per_cpu: Memory = 0
    """For jobs that ask for no memory; 0: memory is not counted for them."""
    default_partition: str = ""
    max_starts: Positive = 1000
    max_backfill_tests: Positive = 10_000
    max_forecasts: Count = 64
    preempt_by: Literal["off", "qos", "partition"] = "qos"
    preempt_mode: Literal["requeue", "suspend", "cancel"] = "requeue"
    preempt_grace_s: WholeSeconds = 30
    preempt_exempt_s: WholeSeconds = 0
    suspend_keeps_gpus: bool = True
    reclaim: bool = True
    """Accounts take back, by preemption, what others hold of their quota."""
    kill_invalid_dependency: bool = True
    enforce_limits: bool = True


class Gpus(Table, frozen=True, kw_only=True):
    """[gpus]"""

    avoid_foreign_processes: bool = True
    """A GPU on which a process outside the queue holds memory is given to no job."""
    cuda_visible_devices: Literal["index", "uuid"] = "index"
    """How CUDA_VISIBLE_DEVICES names a job's GPUs: by index, as Slurm does and as the job's processes count them, or by uuid."""
    shards_per_gpu: Count = 0
    """--gres=shard:N asks for N of so many parts of a GPU; 0: there are no shards."""
    share_grace_s: Seconds = 10.0
    """A job that uses more than its part of a GPU's memory is warned, and ended after so long."""
    share_start_s: Seconds = 30.0
    """A job on a part of a GPU begins when the one before it there has its memory, or after so long; 0: at once."""


class Containment(Table, frozen=True, kw_only=True):
    """[containment]: what jobs are held to on their nodes, as far as a node can (cgroup.conf)."""

    memory: bool = True
    """To the memory that was asked for (ConstrainRAMSpace, ConstrainSwapSpace)."""
    cpus: bool = True
    """To as many CPUs as were asked for (ConstrainCores)."""
    devices: bool = True
    """To the GPUs that were given to them (ConstrainDevices)."""
    max_processes: Count = 16_384
    """Processes and threads that a job may have at once on a node; 0 is no limit. A fork bomb ends here."""
    unkillable_s: Annotated[float, msgspec.Meta(ge=1, le=MAX_SECONDS)] = 60.0
    """A process that lives so long after KILL hangs in the kernel: its node is drained (UnkillableStepTimeout)."""
    tmp_dir: str = ""
    """Where the TMPDIR of each job is made (TmpFS); "" is /tmp."""
    private_dirs: tuple[str, ...] = ()
    """Folders that each job has for itself until its end, where agents run as root (job_container.conf's Dirs)."""
    shared_dirs: tuple[str, ...] = ("/tmp/.X11-unix", "/tmp/nvidia-mps", "/tmp/nvidia-log")
    """What stays the node's below them: the sockets of X11 and of MPS."""


class Hooks(Table, frozen=True, kw_only=True):
    """[hooks]: the site's programs on the nodes, as root where the agent is root."""

    prolog: str = ""
    """Before a job's first process on a node. If it fails the node is drained, and the job waits again, held."""
    epilog: str = ""
    """After a job's last process on a node. If it fails the node is drained."""
    task_prolog: str = ""
    """As the user, in each task of a step before it (TaskProlog): what it prints as "export NAME=VALUE" is set for the task."""
    task_epilog: str = ""
    """As the user, behind each task of a step (TaskEpilog)."""
    timeout_s: Annotated[float, msgspec.Meta(ge=1, le=MAX_SECONDS)] = 60.0
    """One that takes longer is ended, and has failed (PrologEpilogTimeout)."""


class Health(Table, frozen=True, kw_only=True):
    """[health]: how nodes are watched, and what follows. Each check: warpdeck.model.CHECKS."""

    program: str = ""
    """The site's own check on every node (HealthCheckProgram): exit status not 0 drains, its first line is the reason."""
    interval_s: CheckSeconds = 60.0
    """Between two looks at disks, mounts and the program."""
    timeout_s: CheckSeconds = 30.0
    """A program that takes longer is ended, and has failed."""
    min_free: Memory = 256 * 2**20
    """A disk with less room is full; or with less than a hundredth of its size, if that is smaller."""
    max_clock_skew_s: Seconds = 10.0
    ignore: Names = ()
    """Checks that are told, and drain nothing."""
    ignore_xids: tuple[Count, ...] = (13, 31, 43, 45, 63, 68, 109)
    """Xids that a faulty program causes: told to the job, else any user could drain any GPU."""
    requeue_on: Names = ()
    """Checks that send the jobs on what they drain back into the queue, where the jobs allow it."""


class Fairshare(Table, frozen=True, kw_only=True):
    """[fairshare]"""

    half_life: Limit = 7 * 86_400
    """Use counts half as much after this (PriorityDecayHalfLife); UNLIMITED: it is never forgotten."""


class NodeTable(Table, frozen=True, kw_only=True):
    """[nodes."HOSTLIST"]: facts about nodes that they cannot tell themselves. Several tables may speak of a node."""

    features: Names = ()
    switch: str | None = None
    weight: Count | None = None
    comment: str | None = None
    extra: str | None = None
    """Words for people and tools, which decide nothing."""


class Partition(Table, frozen=True, kw_only=True):
    """[partitions.NAME]"""

    nodes: Nodes = None
    state: Literal["UP", "DOWN", "DRAIN", "INACTIVE"] = "UP"
    max_time: Limit = None
    default_time: Limit = None
    max_nodes: Positive | None = None
    min_nodes: Count = 0
    priority_tier: Count = 1
    priority_job_factor: Count = 1
    allow_groups: Names | None = None
    """Unix groups; looked up when a job is submitted, and every few minutes for whoever has one waiting."""
    allow_users: Names | None = None
    """Users beside those groups."""
    allow_accounts: Names | None = None
    deny_accounts: Names = ()
    allow_qos: Names | None = None
    deny_qos: Names = ()
    qos: str = ""
    """A QoS whose limits hold for the partition as a whole."""
    preempt_mode: PreemptMode = ""
    grace_s: WholeSeconds = 0
    exclusive: bool = False
    exclusive_user: bool = False
    """Slurm's ExclusiveUser."""


class LimitTable(Table, frozen=True, kw_only=True):
    """Limits of a QoS, an account or a user: those of warpdeck.policy.Limits. Absent: no limit."""

    grp_tres: TresCounts = {}
    grp_tres_mins: TresCounts = {}
    grp_tres_run_mins: TresCounts = {}
    grp_wall: Limit = None
    grp_jobs: Count | None = None
    grp_submit: Count | None = None
    max_tres_per_job: TresCounts = {}
    max_tres_per_node: TresCounts = {}
    max_tres_per_user: TresCounts = {}
    max_tres_per_account: TresCounts = {}
    max_tres_mins_per_job: TresCounts = {}
    max_jobs_per_user: Count | None = None
    max_jobs_per_account: Count | None = None
    max_submit_per_user: Count | None = None
    max_submit_per_account: Count | None = None
    max_wall: Limit = None
    min_tres_per_job: TresCounts = {}


class Qos(LimitTable, frozen=True, kw_only=True):
    """[qos.NAME]"""

    priority: Count = 0
    preempts: Names = ()
    preempt_mode: PreemptMode = ""
    grace_s: WholeSeconds = 0
    preempt_exempt_s: WholeSeconds = 0
    usage_factor: Annotated[float, msgspec.Meta(ge=0, le=MAX_COUNT)] = 1.0
    overrides_partition: bool = False
    deny_on_limit: bool = False


class User(LimitTable, frozen=True, kw_only=True):
    """[accounts.NAME.users.USER]: a user's place in an account."""

    shares: Count = 1
    default: bool = False
    """Jobs of this user that name no account run under this one. Needed only where a user has several."""
    qos: Names | None = None
    """QoS that this user's jobs may ask for; absent: those of the account."""
    default_qos: str = ""


class Account(LimitTable, frozen=True, kw_only=True):
    """[accounts.NAME]"""

    parent: str = ""
    description: str = ""
    organization: str = ""
    """For people: what it is, and whose."""
    shares: Count = 1
    quota: TresCounts = {}
    """Guaranteed: taken back from borrowers when the account wants it."""
    qos: Names | None = None
    """QoS its jobs may ask for; absent: those of the account above, any where none says so."""
    default_qos: str = ""
    users: dict[str, User] = {}


class Reservation(Table, frozen=True, kw_only=True):
    """[reservations.NAME]: nodes set aside for users or accounts, or for maintenance. Times without a zone are local."""

    nodes: Nodes = None
    start: datetime | None = None
    """Absent: always in force."""
    end: datetime | None = None
    duration: Limit = None
    """Instead of `end`; without both it does not end."""
    users: Names = ()
    accounts: Names = ()
    maintenance: bool = False
    repeat: Repeat = ""
    """It comes again at the same local time: hourly, daily, weekday (Monday to Friday), weekend, weekly."""
    flags: Names = ()
    """Slurm's, as scontrol takes them: MAGNETIC, FLEX, ANY_NODES, OVERLAP, NO_HOLD_JOBS_AFTER_END; MAINT and DAILY ..., too."""


class Interactive(Table, frozen=True, kw_only=True):
    """[interactive]: sessions on terminals."""

    idle_limit_s: WholeSeconds = 0
    """A session in which nobody types, nothing is shown and nothing computes for so long is ended; 0: none is."""
    idle_warning_s: WholeSeconds = 300
    """So long before that it is said in the terminal."""
    watch: Literal["owner", "account", "all"] = "owner"
    """Who may watch a terminal besides its owner and the admins: nobody, those of the job's account, everybody."""


class Steps(Table, frozen=True, kw_only=True):
    """[steps]: what srun starts inside allocations."""

    mpi: Literal["none", "pmi2"] = "none"
    """How the ranks of an MPI program find each other where srun is not told by --mpi (MpiDefault)."""


class Submission(Table, frozen=True, kw_only=True):
    """[submission]: what job scripts may say, and what of them runs."""

    sbatch_runs: Literal["folder", "snapshot"] = "folder"
    """What the jobs of sbatch run in: the submit folder, as in Slurm, or as those of `warpdeck submit` what the code was."""

    plugin_options: dict[str, Literal["required", "none", "optional"]] = {}
    """Options of the site's former SPANK plug-ins, and whether each has a value: accepted, and told to have no effect."""


class Mail(Table, frozen=True, kw_only=True):
    """[mail]: how jobs' owners are told of what they asked for with --mail-type. Without both, nobody is."""

    program: str = ""
    """A sendmail on the controller's machine: it gets `-i -- ADDRESS...`, and the mail on its standard input (MailProg)."""
    webhook: str = ""
    """An HTTP address that gets each mail as a JSON object."""


class Config(Table, frozen=True, kw_only=True):
    """config.toml."""

    grace_s: Seconds = 30.0
    """Between TERM and KILL when a job is ended (KillWait)."""
    keep_finished_s: Seconds = 3600.0
    """How long ended jobs stay in the queue view; the history keeps them for ever."""
    metrics_port: Count = 0
    """Prometheus gets http://metrics_address:metrics_port/metrics; 0: nobody does."""
    metrics_address: str = "127.0.0.1"
    """Whoever can connect there may read it: users, jobs, use."""
    scheduler: Scheduler = Scheduler()
    fairshare: Fairshare = Fairshare()
    gpus: Gpus = Gpus()
    containment: Containment = Containment()
    hooks: Hooks = Hooks()
    health: Health = Health()
    interactive: Interactive = Interactive()
    submission: Submission = Submission()
    steps: Steps = Steps()
    mail: Mail = Mail()
    licenses: dict[str, Count] = {}
    nodes: dict[str, NodeTable] = {}
    partitions: dict[str, Partition] = {}
    qos: dict[str, Qos] = {}
    accounts: dict[str, Account] = {}
    reservations: dict[str, Reservation] = {}
