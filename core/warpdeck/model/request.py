"""Requests: the options of one submission, shared by all tasks of an array. Sizes are in bytes, times in
seconds.

The field names are sbatch's long options. An absent value means that the option was not given. The
controller's validation fills in the defaults, so that `show` can distinguish the user's values from the
site's defaults. The types contain the limits. All data from clients is checked against them when it is
decoded, and not again later.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from .ids import JobId
from .ranges import Ranges, count_tasks

MAX_COUNT = 10_000_000
"""Maximum number of tasks, CPUs or GPUs in one request."""
MAX_NODES = 100_000
MAX_CLAUSES = 1000
"""Maximum number of jobs in one dependency list. All of them are examined in every scheduling pass."""
Count = Annotated[int, msgspec.Meta(ge=1, le=MAX_COUNT)]
CountOrNone = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]
NodeCount = Annotated[int, msgspec.Meta(ge=1, le=MAX_NODES)]
Bytes = Annotated[int, msgspec.Meta(ge=0, le=2**60)]
Seconds = Annotated[int, msgspec.Meta(ge=0, le=2**31)]
MAX_LIMIT_S = 2**31
Limit = Annotated[int, msgspec.Meta(ge=1, le=MAX_LIMIT_S)]
"""A time limit in seconds."""
UnixTime = Annotated[float, msgspec.Meta(ge=-(2**35), le=253_370_764_800)]
"""Unix seconds from the year 881 to the year 9999. No calendar function can print times outside of this
range, so a list with such a time could not be printed.
"""
Signed = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31)]
Signed64 = Annotated[int, msgspec.Meta(ge=-1, le=2**62)]
Word = Annotated[str, msgspec.Meta(max_length=1024)]
"""A name. The limit is short because names appear in every row of a list."""
Text = Annotated[str, msgspec.Meta(max_length=4096)]
"""A path or a remark."""
PtySide = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
"""Number of rows or columns of a terminal."""


class GpuRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Requested GPUs.

    At most one of the counts is set; if all are None, no GPU is requested. `type` is compared without case;
    "" matches any type.
    """

    per_node: CountOrNone | None = None
    total: CountOrNone | None = None
    per_task: CountOrNone | None = None
    type: Word = ""
    share_pct: Annotated[int, msgspec.Meta(ge=1, le=99)] | None = None
    """Percentage of one GPU and of its memory, requested instead of a count."""
    shards: CountOrNone | None = None
    """Number of shards, the parts into which the site divides a GPU. It is converted to `share_pct` at
    submission.
    """


class ArraySpec(msgspec.Struct, frozen=True, kw_only=True):
    """The value of `--array`.

    It holds inclusive ranges (first, last, step), ascending and disjoint, and the number of tasks that may
    run at once (0: any).
    """

    ranges: Ranges
    throttle: CountOrNone = 0

    def count(self) -> int:
        """Return the number of tasks."""
        return count_tasks(self.ranges)


MailTypes = Annotated[tuple[Word, ...], msgspec.Meta(max_length=16)]


class Dependency(msgspec.Struct, frozen=True, kw_only=True):
    """One clause of `--dependency`.

    `kind` is one of: after, afterany, afterok, afternotok, aftercorr, afterburstbuffer, singleton. `task`
    restricts the clause to one task of an array job. `delay_s` has an effect only for `after`, as in Slurm.
    """

    kind: Annotated[str, msgspec.Meta(pattern=r"\A(after(any|ok|notok|corr|burstbuffer)?|singleton)\Z")]
    job_id: Annotated[JobId, msgspec.Meta(ge=0, le=2**53)] = JobId(0)
    task: CountOrNone | None = None
    delay_s: Seconds = 0


class Dependencies(msgspec.Struct, frozen=True, kw_only=True):
    """All clauses of a dependency list. With `any_of` (the `?` separator) one of them is enough; otherwise
    all must hold.
    """

    clauses: Annotated[tuple[Dependency, ...], msgspec.Meta(min_length=1, max_length=MAX_CLAUSES)]
    any_of: bool = False


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The code that a job runs: a commit in the user's snapshot store, its tree, and the digest and size of
    the packed tree.

    `root` is the directory that was captured, and `subdir` the submit directory below it ("" is the root
    itself). `links` are the root's entries that git ignores (data, environments). They are linked into the
    checkout if the node sees the directory.
    """

    commit: str
    tree: str
    root: str
    subdir: str = ""
    sha256: str = ""
    size_bytes: int = 0
    links: tuple[str, ...] = ()
    head: str = ""
    dirty: bool = False
    store: str = ""


class StoredParts(msgspec.Struct, frozen=True, kw_only=True):
    """The key of the large parts of a request in the store, and their size in bytes.

    See `warpdeck.notation.request.large_parts`.
    """

    sha256: str
    size_bytes: int


class PtySize(msgspec.Struct, frozen=True, kw_only=True):
    """Size of a terminal in characters."""

    rows: PtySide = 24
    cols: PtySide = 80


class WarnSignal(msgspec.Struct, frozen=True, kw_only=True):
    """The value of `--signal=[B:]SIG[@S]`: a signal that is sent `before_s` seconds before the time limit.

    `batch_only` stands for "B:" and sends the signal only to the shell of the batch script.
    """

    number: Annotated[int, msgspec.Meta(ge=1, le=64)]
    before_s: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 60
    batch_only: bool = False


class ContainerMount(msgspec.Struct, frozen=True, kw_only=True):
    """A directory or file of the node that is mounted at a path in a container."""

    source: Text
    target: Text
    flags: Annotated[tuple[Word, ...], msgspec.Meta(max_length=8)] = ()


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """The --container-* options of pyxis. An empty `image` means the image of an earlier container called
    `name`.
    """

    image: Text = ""
    name: Annotated[str, msgspec.Meta(max_length=128)] = ""
    mounts: Annotated[tuple[ContainerMount, ...], msgspec.Meta(max_length=64)] = ()
    workdir: Text = ""
    env: Annotated[tuple[Word, ...], msgspec.Meta(max_length=1000)] = ()
    """Variables that keep the job's value even if the image sets another."""
    mount_home: bool = False
    remap_root: bool = False
    entrypoint: bool = False
    writable: bool = True


class NodeMinimum(msgspec.Struct, frozen=True, kw_only=True):
    """Hardware that each node must have at least, regardless of how much of it the job uses."""

    sockets: Count | None = None
    cores: Count | None = None
    """Minimum number of cores per socket."""
    threads: Count | None = None
    """Minimum number of threads per core."""
    tmp_disk_bytes: Bytes | None = None
    """Minimum size of the temporary disk, from --tmp."""


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a request that matters for placement."""

    nodes_min: NodeCount = 1
    nodes_max: NodeCount = 1
    nodes_open: bool = False
    """True if no number of nodes was requested. The job then gets as few nodes as can hold its tasks and
    GPUs, or more if that lets it start earlier. It cannot use more than `nodes_max` nodes.
    """
    tasks: Count | None = None
    tasks_per_node: Count | None = None
    tasks_per_gpu: Count | None = None
    """The requested value. The numbers of tasks and GPUs are derived from it."""
    cpus_per_task: Count = 1
    threads_per_core: Count | None = None
    """The number of threads that the job uses on each of its cores. The job also holds the other threads of
    these cores.
    """
    tasks_per_core: Count | None = None
    """Maximum number of the job's tasks that share one core."""
    core_threads: Count = 1
    """Number of threads per core on the nodes where the job can run. The controller sets it for requests that
    it affects.
    """
    cpus_per_node_min: Count | None = None
    """Minimum number of CPUs per node, from --mincpus."""
    overcommit: bool = False
    """True if the job gets CPUs for only one task on each node."""
    mem_per_node_bytes: Bytes | None = None
    """Memory per node; 0 means all memory of the node."""
    mem_per_cpu_bytes: Bytes | None = None
    mem_per_gpu_bytes: Bytes | None = None
    cpus_per_gpu: Count | None = None
    gpus: GpuRequest = GpuRequest()
    nodelist: tuple[str, ...] = ()
    """Requested nodes. A job with more nodes than this list gets all of the listed nodes and others. A job
    with fewer nodes gets only nodes of the list.
    """
    exclude: tuple[str, ...] = ()
    exclusive: bool = False
    share_with: Literal["", "anybody", "user", "mcs"] = ""
    """Other jobs that may run on the job's nodes if it is not `exclusive` (--exclusive=user, =mcs,
    --oversubscribe).

    "anybody" admits all jobs, "user" only jobs of the same user. "mcs" admits jobs with the same MCS label.
    In warpdeck no job has a label, so "mcs" admits all jobs.
    """
    node_minimum: NodeMinimum = NodeMinimum()
    use_min_nodes: bool = False
    """True if the job gets as few nodes as possible even if its request allows more (--use-min-nodes)."""
    constraint: Word = ""
    """The value of --constraint: features combined with & | ( ) [ ]."""
    prefer: Word = ""
    """The value of --prefer: a constraint that is met if possible."""
    contiguous: bool = False
    """True if the job's nodes must be neighbors in the order of their names."""
    max_switches: Count | None = None
    """The value of --switches: the maximum number of leaf switches, until the job has waited
    `switches_wait_s` for them.
    """
    switches_wait_s: Seconds | None = 300
    """Seconds to wait for `max_switches`; None means forever. The default is Slurm's (max_switch_wait)."""

    def cpus_used_by_task(self) -> int:
        """Return the number of CPUs that one task uses. Memory per CPU is counted for these CPUs."""
        return max(self.cpus_per_task, -(-self.core_threads // (self.tasks_per_core or self.core_threads)))

    def cpus_held_each(self) -> int:
        """Return the number of CPUs that are held for each used CPU, because the job gets whole cores."""
        return max(1, self.core_threads // (self.threads_per_core or self.core_threads))

    def cpus_of_task(self) -> int:
        """Return the number of CPUs that are held for one task."""
        return self.cpus_used_by_task() * self.cpus_held_each()

    def task_count(self) -> int:
        """Return the total number of tasks.

        This is `tasks` if it is set, else `tasks_per_node` on each node, else one task per node.
        """
        if self.tasks is not None:
            return self.tasks
        return self.nodes_min * (self.tasks_per_node or 1)

    def gpu_count(self) -> int:
        """Return the total number of GPUs. A part of a GPU counts as one."""
        if self.gpus.share_pct is not None:
            return self.nodes_min
        if self.gpus.total is not None:
            return self.gpus.total
        if self.gpus.per_task is not None:
            return self.gpus.per_task * self.task_count()
        return (self.gpus.per_node or 0) * self.nodes_min


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One submission.

    Either `script` (sbatch) or `argv` is set. With `argv`, `tasks` processes run on all nodes, as with srun.
    """

    name: Word = "job"
    script: str = ""
    script_args: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    pty: PtySize | None = None
    holder: Annotated[str, msgspec.Meta(pattern=r"\A(srun|salloc|nobody|hetjob)?\Z")] = ""
    """The client for which an allocation is held that has no script or command and gets its steps later.

    `nobody` means that the allocation is held until it is cancelled. `hetjob` means that it is held for the
    script of the first component.
    """
    resources: Resources = Resources()
    time_limit_s: Limit | None = None
    unlimited: bool = False
    """True if the user requested an unlimited run time. No default replaces it."""
    partition: Word = ""
    account: Word = ""
    qos: Word = ""
    priority: Signed64 | None = None
    nice: Signed = 0
    begin_at_unix: UnixTime | None = None
    deadline_unix: UnixTime | None = None
    time_min_s: Limit | None = None
    reservation: Word = ""
    licenses: Annotated[tuple[tuple[Word, Count], ...], msgspec.Meta(max_length=64)] = ()
    warn: WarnSignal | None = None
    array: ArraySpec | None = None
    dependencies: Dependencies | None = None
    kill_on_invalid_dep: bool | None = None
    """Whether the job ends when its dependencies can never be satisfied; None uses the site's setting."""
    hold: bool = False
    requeue: bool = True
    expedite: bool = False
    """Whether the job is to go first when it was requeued because its node failed (--requeue=expedite)."""
    requeue_at_limit: bool = False
    """Whether the job returns to the queue at its time limit if it has checkpointed (--requeue=limit)."""
    output: Text = ""
    """A pattern with % fields, relative to `chdir`. "" is sbatch's default slurm-%j.out (slurm-%A_%a.out for
    arrays).
    """
    error: Text = ""
    open_append: bool = False
    open_truncate: bool = False
    """True if truncation was requested. By default a restarted job appends, because the output of its first
    start is worth keeping.
    """
    input: Text = ""
    """A pattern with % fields for the file that the batch script reads; "" is none. It is relative to the
    job's working directory.
    """
    submit_dir: Text = "/"
    chdir: Text = ""
    """Absolute path of the working directory; "" is the submit directory."""
    comment: Text = ""
    admin_comment: Text = ""
    """Comment of an admin. Only admins can write it, and only after the job has been submitted."""
    mail_types: MailTypes = ()
    """Events for which mail is sent, from --mail-type (see `notation.mail`)."""
    mail_user: Word = ""
    """The recipient of mail; "" is the job's user."""
    env: dict[str, str] = {}
    user_env: bool = False
    """True if the job gets the variables of the user's login shell on the node. `env` overrides them
    (--get-user-env).
    """
    step_variables: dict[str, str] = {}
    """Options of the job that also apply to its steps, as the environment variables that srun reads."""
    limits: Annotated[dict[str, Signed64], msgspec.Meta(max_length=16)] = {}
    """Soft resource limits of the job's processes. Keys are the names of --propagate, values have the unit of
    setrlimit(2); -1 is unlimited.
    """
    submit_line: str = ""
    submit_host: str = ""
    container: Container | None = None
    snapshot: Snapshot | None = None
    code_due_unix: UnixTime | None = None
    """Set while the snapshot is still being taken. The job starts when the snapshot is stored, or at this
    Unix time at the latest.
    """
    parts: StoredParts | None = None
    """Set if the script, the arguments, the environment and the command line are stored under this key.

    The fields above then hold short extracts of them. The controller sets it; a client's value is ignored.
    """
    in_place: bool = False
    """True if the job runs in the submit directory itself if the node can see it, as in Slurm. The job then
    writes its files there.

    The snapshot then only records the code. On nodes that cannot see the directory, the job runs in the
    snapshot.
    """

    def appends(self, restarts: int) -> bool:
        """Return whether the job appends to its existing output files, given how often it was restarted."""
        return self.open_append or (restarts > 0 and not self.open_truncate)
