"""What the controller shows of jobs: the shape of every `--json` and of the TUI's tables. Of nodes: noderows.

Times are unix seconds, sizes bytes; None is unknown or not applicable.
"""

from __future__ import annotations

import msgspec

from warpdeck.model.past import end_in_words


class WhyRow(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job waits: Slurm's reason code, a sentence, the expected start."""

    code: str = ""
    sentence: str = ""
    expected_start: float | None = None
    rough: bool = False
    """Estimated from the pace at which the work ahead of it is done; else worked out job by job."""


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """What a job or a step has used; None was not measured. Energy is the GPUs'."""

    cpu_seconds: float = 0.0
    system_s: float = 0.0
    """Of the CPU seconds, those that the kernel spent for it."""
    peak_mem_bytes: int = 0
    """The largest of any node."""
    gpu_util_pct: float | None = None
    """Mean over its GPUs and its time."""
    gpu_idle_pct: float | None = None
    """The share of the time in which a GPU was below 5 %."""
    gpu_mem_peak_bytes: int | None = None
    energy_j: float | None = None


class JobRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One line of the queue. A folded array is one row with `tasks_pending` > 1; its running tasks are rows of their own."""

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
    """Of a waiting job, at the last pass."""
    nodes: int = 1
    node_list: str = ""
    """Hostlist of the allocation ("gpu[01-02]"), "" while it waits."""
    cpus: int = 1
    gpus: int = 0
    gpu_type: str = ""
    mem_bytes: int = 0
    time_limit_s: int | None = None
    submit: float = 0.0
    start: float | None = None
    end: float | None = None
    exit_code: str = ""
    """"code:signal" once it ended."""
    exit_cause: str = ""
    used: UsageRow | None = None
    """Of a job that has ended."""
    restarts: int = 0
    held: bool = False
    interactive: bool = False
    idle_since: float | None = None
    """Of an interactive job that nobody and nothing uses."""
    gpu_util_pct: int | None = None
    """Mean over its GPUs at the last reading."""
    gpu_mem_bytes: int | None = None
    tree: str = ""
    """The snapshot's tree id."""
    sweep: str = ""
    """What a task of a sweep has: "lr=0.1 seed=3"; what waits of one has all: "lr=0.1,0.01 seed=1..5"."""
    comment: str = ""

    @property
    def reason(self) -> str:
        """How it ended, without where: "exit 1", "signal 9 (oom)", or why it never started; "" before the end."""
        if self.end is None:
            return ""
        if self.why is not None:
            return self.why.sentence or self.why.code
        return end_in_words(state=self.state, exit_code=self.exit_code, cause=self.exit_cause)


class PastJobs(msgspec.Struct, frozen=True, kw_only=True):
    """A page of ended jobs; `total`: of how many, where that was asked."""

    jobs: list[JobRow]
    total: int | None = None


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What Slurm's commands print of a job beyond its row. Nobody gets one whole: `fields` of a request for jobs names
    what is wanted, of this and of JobRow. "" and None are "not asked"."""

    uid: int
    priority_told: int | None
    """As Slurm tells it: that of the queue, 0 of what is held, and of what has started that with which it did."""
    command: str
    """The script as a path, or what was to be run; "" where the script came from elsewhere."""
    work_dir: str
    stdout: str
    stderr: str
    submit_host: str
    submit_line: str
    batch: bool
    batch_host: str
    eligible: float | None
    """Since when it could have started; None while it is held or depends on others."""
    begin: float | None
    deadline: float | None
    expected_start: float | None
    """Of a job that waits."""
    ends: float | None
    """When it will have ended at the latest, or has."""
    leaves: float | None
    """It was told to leave for another job: when its grace time ends."""
    suspended_at: float | None
    suspended_s: float
    stopped_at: float | None
    """When it was last suspended, or went on after that."""
    before_stop_s: float
    """How long it had run when it was last suspended."""
    special_exit: bool
    """It waits, requeued with State=SpecialExit."""
    used_s: float
    """How long it has run until now, less the time that it was suspended."""
    dependency: str
    """What it still depends on, each with (unfulfilled) or (failed) behind it."""
    reason: str
    """Slurm's reason code: why it waits, or why it failed; None."""
    features: str
    req_nodes: str
    exc_nodes: str
    sched_nodes: str
    """Where it should start, as far as the last pass knows."""
    reservation: str
    licenses: str
    nice: int
    requeue: bool
    limit_s: int | None
    """The time limit that it runs under, or that it would get where it goes first."""
    time_min_s: int | None
    nodes_min: int
    nodes_told: int
    """Those that it has, or of a job that waits a guess at how many it gets (controller.nodecounts)."""
    nodes_max: int
    tasks: int
    tasks_per_node: int
    cpus_per_task: int
    cpus_per_gpu: int | None
    mem_per_node_bytes: int | None
    mem_per_cpu_bytes: int | None
    """As asked, or the site's default."""
    mem_per_gpu_bytes: int | None
    oversubscribe: str
    contiguous: bool
    prefer: str
    ended_by_uid: int | None
    """Who cancelled it."""
    tres_asked: dict[str, int]
    """mem in MiB."""
    tres: dict[str, int]
    """Allocated, or else asked; mem in MiB."""
    tres_per_job: str
    tres_per_node: str
    tres_per_task: str
    shares: list[dict[str, object]]
    """Of each node: name, cpus, mem_bytes, gpus (indices by type)."""
    max_switches: int | None
    switches_wait_s: int | None
    cpus_per_node_min: int
    tmp_disk_bytes: int
    """That each node must have."""
    mail_types: tuple[str, ...]
    mail_user: str
    """"" is the job's user."""
    tasks_text: str
    """Of an array: its waiting tasks and %LIMIT, "3-20%2", or the task's number."""
    tasks_folded: bool
    """Whether these are what waits of it, and never began: told in brackets."""
    throttle: int
    """How many tasks of its array may run at once; 0: any."""
    recorded_comment: str
    """As the record has it: `comment` is the queue's."""
    admin_comment: str
    system_comment: str
    derived_exit: int | None
    """As wait(2) gives it, where somebody has said it; else it follows from the steps."""
    container: str
    het_job_id: int
    """Of a component of a heterogeneous job: the first of its ids; 0 for another job."""
    het_job_offset: int
    het_job_id_set: str


class CurveRow(msgspec.Struct, frozen=True, kw_only=True):
    """Means over equal steps from `begin` on. `columns`: model.CURVE_COLUMNS -> points; None is unknown."""

    node: str
    begin: float
    step_s: float
    columns: dict[str, tuple[float | None, ...]] = {}
    gpu: int | None = None
    uuid: str = ""


class Curves(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured of a job or a node over time. `errors`: which nodes did not answer, in words."""

    curves: list[CurveRow] = []
    used: UsageRow | None = None
    errors: list[str] = []


class GpuUse(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU of a job."""

    node: str
    index: int
    uuid: str
    util_pct: int | None = None
    mem_used_bytes: int | None = None
    mem_bytes: int = 0
    share_pct: int = 100
    isolation: str = ""
    """As GpuRow's; says something only of a part."""


class JobEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a job's history."""

    at: float
    text: str


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """A line of what happened: of which job, by its id, and as squeue prints it."""

    at: float
    job: int
    text: str
    label: str = ""


class StepRow(msgspec.Struct, kw_only=True):
    """A step of a job: `id` as 12.0, 12.batch or 12.extern. `used` once it has ended."""

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
    """A step that runs, with what squeue tells of its job."""

    row: StepRow
    job_id: int
    array_job_id: int
    array_task_id: int | None = None
    user: str = ""
    uid: int = 0
    partition: str = ""


class JobDetail(msgspec.Struct, frozen=True, kw_only=True):
    """All there is to say of a job. `env` is not in it: it may hold secrets."""

    row: JobRow
    script: str = ""
    argv: list[str] = []
    submit_line: str = ""
    submit_dir: str = ""
    work_dir: str = ""
    """Where it runs or ran, on its first node."""
    stdout: str = ""
    stderr: str = ""
    gpus: list[GpuUse] = []
    dependency: str = ""
    snapshot: dict[str, object] | None = None
    """model.Snapshot as JSON, with the `uid` of the job's user, whose store it is in."""
    recording: bool = False
    """Whether the snapshot is still being taken."""
    message: str = ""
    notice: str = ""
    """The last trouble with its node or GPUs that it was told of."""
    predicted_s: float | None = None
    """How long it was likely to run when it was submitted."""
    prediction_error_s: float | None = None
    """Predicted less true, once it has ended."""
    events: list[JobEvent] = []
    steps: list[StepRow] = []


class JobVariables(msgspec.Struct, frozen=True, kw_only=True):
    """The environment that a job was submitted with."""

    variables: dict[str, str] = {}


class ForwardRow(msgspec.Struct, frozen=True, kw_only=True):
    """A port of a job's node that a client forwards to its own loopback. `connections`: open now."""

    number: int
    job: str
    user: str
    node: str
    port: int
    local_port: int
    host: str = ""
    purpose: str = ""
    page: str = "/"
    """What of its URL follows the host; what it asks for is left out: "/lab?token=…"."""
    since: float = 0.0
    connections: int = 0
