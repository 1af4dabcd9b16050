"""The rows that describe jobs in answers.

They are the format of every `--json` and of the TUI's tables. Rows about nodes are in node_rows.

Times are Unix seconds, sizes are bytes. None means unknown or not applicable.
"""

from __future__ import annotations

import msgspec

from warpdeck.model.finished_jobs import end_text

from .usage_text import gpu_name


class WhyRow(msgspec.Struct, frozen=True, kw_only=True):
    """Pending reason of a job: Slurm's reason code, a sentence, and the expected start."""

    code: str = ""
    sentence: str = ""
    expected_start: float | None = None
    rough: bool = False
    """Whether the start was estimated from the rate at which earlier work completes.

    Otherwise it was planned job by job.
    """


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """Resource usage of a job or step. None means not measured. Energy is that of the GPUs."""

    cpu_seconds: float = 0.0
    system_s: float = 0.0
    """The part of the CPU seconds that the kernel used for it."""
    peak_mem_bytes: int = 0
    """Peak memory in bytes on the node where it was highest."""
    gpu_util_pct: float | None = None
    """Mean GPU utilization over all GPUs and the whole run time."""
    gpu_idle_pct: float | None = None
    """Percentage of the run time in which a GPU was below 5 % utilization."""
    gpu_mem_peak_bytes: int | None = None
    energy_j: float | None = None
    gpu_source: str = ""
    """Origin of the values about GPUs: agent, sampler, sstat, sacct or jobstats; "" if there are none."""


class JobRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One line of the queue.

    The pending tasks of an array are one row with `tasks_pending` > 1. Its running tasks have rows of their
    own.
    """

    id: int
    label: str
    array_job_id: int
    array_task_id: int | None = None
    tasks_pending: int = 0
    name: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    state: str = "PENDING"
    state_short: str = "PD"
    why: WhyRow | None = None
    priority: int | None = None
    """Priority of a pending job at the last scheduling pass."""
    nodes: int = 1
    node_list: str = ""
    """Hostlist of the allocation ("gpu[01-02]"), or "" while the job is pending."""
    cpus: int = 1
    gpus: int = 0
    gpu_type: str = ""
    mem_bytes: int = 0
    time_limit_s: int | None = None
    submit: float = 0.0
    start: float | None = None
    end: float | None = None
    exit_code: str = ""
    """Exit status as "code:signal", once the job has ended."""
    exit_cause: str = ""
    used: UsageRow | None = None
    """Usage of a finished job."""
    restarts: int = 0
    held: bool = False
    interactive: bool = False
    idle_since: float | None = None
    """Time since which an interactive job has had neither a user nor any activity."""
    gpu_util_pct: int | None = None
    """Mean utilization of its GPUs at the last reading."""
    gpu_mem_bytes: int | None = None
    tree: str = ""
    """Tree id of the snapshot."""
    sweep: str = ""
    """Parameters of a sweep's task, such as "lr=0.1 seed=3".

    The pending tasks of a sweep have all of its values, such as "lr=0.1,0.01 seed=1..5".
    """
    comment: str = ""

    @property
    def reason(self) -> str:
        """How the job ended ("exit 1", "signal 9 (oom)"), or why it never started; "" before the end.

        It names no node.
        """
        if self.end is None:
            return ""
        if self.why is not None:
            return self.why.sentence or self.why.code
        return end_text(state=self.state, exit_code=self.exit_code, cause=self.exit_cause)


class PastJobs(msgspec.Struct, frozen=True, kw_only=True):
    """A page of finished jobs. `total` is the number of all jobs that match, if it was requested."""

    jobs: list[JobRow]
    total: int | None = None


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of a job that Slurm's commands print in addition to its row.

    A client never gets all of them. The `fields` of a Jobs request select from this class and from JobRow.
    Fields that were not requested are "" or None.
    """

    uid: int
    priority_told: int | None
    """Priority as Slurm shows it, where only a held or suspended job has 0.

    A pending job has the priority of the queue, a started job the priority with which it started.
    """
    command: str
    """Path of the script, or the command that was to be run; "" if the script has no path."""
    work_dir: str
    stdout: str
    stderr: str
    submit_host: str
    submit_line: str
    batch: bool
    batch_host: str
    eligible: float | None
    """Time since which the job could have started; None while it is held or has unmet dependencies."""
    begin: float | None
    deadline: float | None
    expected_start: float | None
    """Expected start of a pending job."""
    ends: float | None
    """Latest time at which a running job ends, or the time at which a finished job ended (Unix seconds)."""
    leaves: float | None
    """End of the grace time of a job that was preempted."""
    suspended_at: float | None
    suspended_s: float
    stopped_at: float | None
    """Time at which the job was last suspended, or last resumed."""
    before_stop_s: float
    """Seconds that the job had run when it was last suspended."""
    special_exit: bool
    """Whether the job waits after it was requeued with State=SpecialExit."""
    used_s: float
    """Seconds that the job has run until now, without the time in which it was suspended."""
    dependency: str
    """Dependencies that are not met yet, each followed by (unfulfilled) or (failed)."""
    reason: str
    """Slurm's reason code for a pending or failed job, or "None"."""
    features: str
    req_nodes: str
    exc_nodes: str
    sched_nodes: str
    """Nodes on which the job should start, as far as the last scheduling pass knows."""
    reservation: str
    licenses: str
    nice: int
    requeue: bool
    limit_s: int | None
    """Time limit under which the job runs, or that it would get in the first partition it requests."""
    time_min_s: int | None
    nodes_min: int
    nodes_told: int
    """Allocated nodes.

    For a pending job it is an estimate of the number that it will get (controller.presenters.node_counts).
    """
    nodes_max: int
    tasks: int
    tasks_per_node: int
    cpus_per_task: int
    cpus_per_gpu: int | None
    mem_per_node_bytes: int | None
    mem_per_cpu_bytes: int | None
    """Memory per CPU as requested, or the site's default."""
    mem_per_gpu_bytes: int | None
    oversubscribe: str
    contiguous: bool
    prefer: str
    ended_by_uid: int | None
    """Uid of the user who canceled it."""
    tres_asked: dict[str, int]
    """Requested TRES; mem in MiB."""
    tres: dict[str, int]
    """Allocated TRES, or else the requested ones; mem in MiB."""
    tres_per_job: str
    tres_per_node: str
    tres_per_task: str
    shares: list[dict[str, object]]
    """For each node: name, cpus, mem_bytes and gpus (indices by type)."""
    max_switches: int | None
    switches_wait_s: int | None
    cpus_per_node_min: int
    tmp_disk_bytes: int
    """Temporary disk space that each node must have."""
    mail_types: tuple[str, ...]
    mail_user: str
    """Recipient of mails; "" means the job's user."""
    tasks_text: str
    """For an array its pending tasks and %LIMIT ("3-20%2"), or the task's number."""
    tasks_folded: bool
    """Whether these tasks are the array's pending tasks, which have never started.

    They are printed in brackets.
    """
    throttle: int
    """Maximum number of concurrently running tasks of its array; 0 means no limit."""
    recorded_comment: str
    """Comment in the job's accounting record. The field `comment` is the queue's."""
    admin_comment: str
    system_comment: str
    derived_exit: int | None
    """Derived exit code in the format of wait(2) if a user has set it.

    Otherwise it follows from the steps.
    """
    container: str
    het_job_id: int
    """First id of the heterogeneous job to which this component belongs; 0 for any other job."""
    het_job_offset: int
    het_job_id_set: str


class CurveRow(msgspec.Struct, frozen=True, kw_only=True):
    """Means over equal steps from `begin` on.

    `columns` maps each of model.CURVE_COLUMNS to its points; None is unknown.
    """

    node: str
    begin: float
    step_s: float
    columns: dict[str, tuple[float | None, ...]] = {}
    gpu: int | None = None
    uuid: str = ""


class NodeUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Resource usage of a running job or step on one node."""

    node: str
    cpu_seconds: float
    peak_mem_bytes: int


class UsageCurves(msgspec.Struct, frozen=True, kw_only=True):
    """Resource usage of a job or node over time. `errors` has a message for each node that did not answer."""

    curves: list[CurveRow] = []
    used: UsageRow | None = None
    parts: list[NodeUsage] = []
    """Usage on each node while the job or step runs."""
    errors: list[str] = []


class GpuUse(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU of a job. `index` is -1 if only the number of the job's GPUs is known."""

    node: str
    index: int
    uuid: str
    util_pct: int | None = None
    mem_used_bytes: int | None = None
    mem_bytes: int = 0
    share_pct: int = 100
    isolation: str = ""
    """Isolation as in GpuRow. It is meaningful only if the job has a share of the GPU."""
    source: str = ""
    """Origin of the reading, as in UsageRow; "" without a reading."""

    @property
    def name(self) -> str:
        """Node and index, such as "n1:3" or "n1:?"."""
        return gpu_name(self.node, self.index)


class JobEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a job's history."""

    at: float
    text: str


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a job. `job` is the job's id, and `label` is the job as squeue prints it."""

    at: float
    job: int
    text: str
    label: str = ""


class StepRow(msgspec.Struct, kw_only=True):
    """A step of a job. `id` is 12.0, 12.batch or 12.extern; `used` is set once the step has ended."""

    id: str
    name: str
    state: str
    start: float
    end: float | None = None
    exit_code: str = ""
    tasks: int = 1
    nodes: int = 1
    node_list: str = ""
    cpus: int = 0
    gpus: int = 0
    used: UsageRow | None = None
    message: str = ""


class LiveStep(msgspec.Struct, frozen=True, kw_only=True):
    """A running step, with the fields of its job that squeue prints."""

    row: StepRow
    job_id: int
    array_job_id: int
    array_task_id: int | None = None
    user: str = ""
    uid: int = 0
    partition: str = ""


class JobDetail(msgspec.Struct, frozen=True, kw_only=True):
    """All details of a job, except its environment, which may hold secrets."""

    row: JobRow
    script: str = ""
    argv: list[str] = []
    submit_line: str = ""
    submit_dir: str = ""
    work_dir: str = ""
    """Working directory on the job's first node."""
    stdout: str = ""
    stderr: str = ""
    gpus: list[GpuUse] = []
    first_reading_in_s: int | None = None
    """Seconds until the first readings of its GPUs, if their measurement has just begun."""
    dependency: str = ""
    snapshot: dict[str, object] | None = None
    """model.Snapshot as JSON, plus the `uid` of the job's user, who owns the snapshot store."""
    recording: bool = False
    """Whether the snapshot is still being taken."""
    message: str = ""
    notice: str = ""
    """The latest warning about its node or GPUs that the job was sent."""
    predicted_s: float | None = None
    """Run time in seconds that was predicted at submission."""
    prediction_error_s: float | None = None
    """Predicted minus actual run time, once the job has ended."""
    requeues_at_limit: bool = False
    """Whether it returns to the queue at its time limit if it has checkpointed since its start."""
    events: list[JobEvent] = []
    steps: list[StepRow] = []


class JobVariables(msgspec.Struct, frozen=True, kw_only=True):
    """The environment with which a job was submitted."""

    variables: dict[str, str] = {}


class ForwardRow(msgspec.Struct, frozen=True, kw_only=True):
    """A port of a job's node that a client forwards to its own loopback.

    `connections` is the number of open ones.
    """

    number: int
    job: str
    user: str
    node: str
    port: int
    local_port: int
    host: str = ""
    purpose: str = ""
    page: str = "/"
    """Part of its URL after the host, with the values of its query masked: "/lab?token=…"."""
    since: float = 0.0
    connections: int = 0
