"""What a user asks for: one Request per submission, shared by all tasks of an array. Sizes in bytes, times in seconds.

Field names are sbatch's long options. Absent means "not asked": defaults are filled in by the controller's validation,
so that `show` can tell what the user wrote from what the site added. The types carry the limits: whatever a client sends is
checked when it is decoded, and nowhere else.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from .ids import JobId
from .ranges import Ranges, count_tasks

MAX_COUNT = 10_000_000
"""Tasks, CPUs or GPUs of one request."""
MAX_NODES = 100_000
MAX_CLAUSES = 1000
"""Jobs that one dependency list may name: all are looked at in every planning pass."""
Count = Annotated[int, msgspec.Meta(ge=1, le=MAX_COUNT)]
CountOrNone = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]
NodeCount = Annotated[int, msgspec.Meta(ge=1, le=MAX_NODES)]
Bytes = Annotated[int, msgspec.Meta(ge=0, le=2**60)]
Seconds = Annotated[int, msgspec.Meta(ge=0, le=2**31)]
MAX_LIMIT_S = 2**31
Limit = Annotated[int, msgspec.Meta(ge=1, le=MAX_LIMIT_S)]
"""A time limit."""
Moment = Annotated[float, msgspec.Meta(ge=-(2**35), le=253_370_764_800)]
"""Unix seconds from the year 881 up to 9999: others no calendar prints, and every list that shows them would end of it."""
Signed = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31)]
Signed64 = Annotated[int, msgspec.Meta(ge=-1, le=2**62)]
Word = Annotated[str, msgspec.Meta(max_length=1024)]
"""Names: they stand in every row that is shown."""
Text = Annotated[str, msgspec.Meta(max_length=4096)]
"""Paths and remarks."""
PtySide = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
"""Rows or columns of a terminal."""


class GpuAsk(msgspec.Struct, frozen=True, kw_only=True):
    """GPUs asked for. At most one of the counts is set (all None: no GPU). `type` is matched without case; "" is any."""

    per_node: CountOrNone | None = None
    total: CountOrNone | None = None
    per_task: CountOrNone | None = None
    type: Word = ""
    share_pct: Annotated[int, msgspec.Meta(ge=1, le=99)] | None = None
    """A part of one GPU and of its memory, in percent, instead of a count."""
    shards: CountOrNone | None = None
    """So many of the parts into which the site cuts a GPU. Becomes `share_pct` at submission."""


class ArraySpec(msgspec.Struct, frozen=True, kw_only=True):
    """`--array`: inclusive ranges (first, last, step), ascending and disjoint, and how many may run at once (0: any)."""

    ranges: Ranges
    throttle: CountOrNone = 0

    def count(self) -> int:
        """The number of tasks."""
        return count_tasks(self.ranges)


MailTypes = Annotated[tuple[Word, ...], msgspec.Meta(max_length=16)]


class Dependency(msgspec.Struct, frozen=True, kw_only=True):
    """One clause of `--dependency`. `kind`: after, afterany, afterok, afternotok, aftercorr, afterburstbuffer, singleton.

    `task` narrows an array job to one of its tasks. `delay_s` counts for `after` alone, as in Slurm.
    """

    kind: Annotated[str, msgspec.Meta(pattern=r"\A(after(any|ok|notok|corr|burstbuffer)?|singleton)\Z")]
    job_id: Annotated[JobId, msgspec.Meta(ge=0, le=2**53)] = JobId(0)
    task: CountOrNone | None = None
    delay_s: Seconds = 0


class Dependencies(msgspec.Struct, frozen=True, kw_only=True):
    """All clauses; `any_of` is the `?` separator (one is enough), else all must hold."""

    clauses: Annotated[tuple[Dependency, ...], msgspec.Meta(min_length=1, max_length=MAX_CLAUSES)]
    any_of: bool = False


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The code a job runs: a commit in the user's snapshot store, its tree, and the packed tree's digest and size.

    `root` is the folder that was captured, `subdir` the submit folder below it ("" is the root itself); `links` are the
    root's entries that git ignores (data, environments), linked into the checkout where the folder is visible.
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


class PtySize(msgspec.Struct, frozen=True, kw_only=True):
    """A terminal's size in characters."""

    rows: PtySide = 24
    cols: PtySide = 80


class WarnSignal(msgspec.Struct, frozen=True, kw_only=True):
    """`--signal=[B:]SIG[@S]`: sent so long before the time limit; `batch_only` is B: (to the batch script's shell alone)."""

    number: Annotated[int, msgspec.Meta(ge=1, le=64)]
    before_s: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 60
    batch_only: bool = False


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """A folder or file of the node at a place in a container."""

    source: Text
    target: Text
    flags: Annotated[tuple[Word, ...], msgspec.Meta(max_length=8)] = ()


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """The --container-* options, as pyxis has them. `image` "" is that of an earlier container called `name`."""

    image: Text = ""
    name: Annotated[str, msgspec.Meta(max_length=128)] = ""
    mounts: Annotated[tuple[Mount, ...], msgspec.Meta(max_length=64)] = ()
    workdir: Text = ""
    env: Annotated[tuple[Word, ...], msgspec.Meta(max_length=1000)] = ()
    """Variables whose value is the job's even where the image sets another."""
    mount_home: bool = False
    remap_root: bool = False
    entrypoint: bool = False
    writable: bool = True


class NodeMinimum(msgspec.Struct, frozen=True, kw_only=True):
    """What each node must have at the least, whatever the job takes of it."""

    sockets: Count | None = None
    cores: Count | None = None
    """Of each socket."""
    threads: Count | None = None
    """Of each core."""
    tmp_disk_bytes: Bytes | None = None
    """--tmp."""


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a request that placement looks at."""

    nodes_min: NodeCount = 1
    nodes_max: NodeCount = 1
    nodes_open: bool = False
    """Nobody said how many: as few as hold its tasks and GPUs, and more than that where it can then start earlier. `nodes_max`
    is what more would be of no use."""
    tasks: Count | None = None
    tasks_per_node: Count | None = None
    tasks_per_gpu: Count | None = None
    """As asked; tasks and GPUs follow from it."""
    cpus_per_task: Count = 1
    threads_per_core: Count | None = None
    """Of each core it uses so many threads alone, and holds the others too."""
    tasks_per_core: Count | None = None
    """No more of its tasks share a core."""
    core_threads: Count = 1
    """The threads of a core where it may run: the controller says so, of a request to which it matters."""
    cpus_per_node_min: Count | None = None
    """--mincpus."""
    overcommit: bool = False
    """CPUs for one task of each node alone."""
    mem_per_node_bytes: Bytes | None = None
    """0 is all memory of the node."""
    mem_per_cpu_bytes: Bytes | None = None
    mem_per_gpu_bytes: Bytes | None = None
    cpus_per_gpu: Count | None = None
    gpus: GpuAsk = GpuAsk()
    nodelist: tuple[str, ...] = ()
    """All of them, and others where it has more nodes; so many of them as it has where it has fewer."""
    exclude: tuple[str, ...] = ()
    exclusive: bool = False
    share_with: Literal["", "anybody", "user", "mcs"] = ""
    """Whose jobs may be on its nodes beside it, if it is not `exclusive` (--exclusive=user, =mcs, --oversubscribe): anybody's, its
    user's alone, or those of its MCS label, which are anybody's here: no job has one."""
    node_minimum: NodeMinimum = NodeMinimum()
    use_min_nodes: bool = False
    """As few nodes as will do, where it may have more (--use-min-nodes)."""
    constraint: Word = ""
    """--constraint: features with & | ( ) [ ]."""
    prefer: Word = ""
    """--prefer: a constraint that is met if it can be."""
    contiguous: bool = False
    """Its nodes are neighbours by name."""
    max_switches: Count | None = None
    """--switches: leaf switches at most, unless the job has waited so long for them."""
    switches_wait_s: Seconds | None = 300
    """None: for ever. The default is Slurm's (max_switch_wait)."""

    def cpus_used_by_task(self) -> int:
        """CPUs of a task, for which it asks for memory too."""
        return max(self.cpus_per_task, -(-self.core_threads // (self.tasks_per_core or self.core_threads)))

    def cpus_held_each(self) -> int:
        """CPUs that are held for each that is used: those of whole cores."""
        return max(1, self.core_threads // (self.threads_per_core or self.core_threads))

    def cpus_of_task(self) -> int:
        """CPUs that are held for a task."""
        return self.cpus_used_by_task() * self.cpus_held_each()

    def task_count(self) -> int:
        """Tasks in all: as asked, else tasks_per_node on each node, else one a node."""
        if self.tasks is not None:
            return self.tasks
        return self.nodes_min * (self.tasks_per_node or 1)

    def gpu_count(self) -> int:
        """GPUs in all; a part of one counts as one."""
        if self.gpus.share_pct is not None:
            return self.nodes_min
        if self.gpus.total is not None:
            return self.gpus.total
        if self.gpus.per_task is not None:
            return self.gpus.per_task * self.task_count()
        return (self.gpus.per_node or 0) * self.nodes_min


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One submission. Either `script` (sbatch) or `argv` (srun-like: `tasks` processes over all nodes) is set."""

    name: Word = "job"
    script: str = ""
    script_args: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    pty: PtySize | None = None
    holder: Annotated[str, msgspec.Meta(pattern=r"\A(srun|salloc|nobody|hetjob)?\Z")] = ""
    """For whom the allocation is held, instead of a script or a command: its steps come later. `nobody`: until it is
    cancelled; `hetjob`: for the script of the first component."""
    resources: Resources = Resources()
    time_limit_s: Limit | None = None
    unlimited: bool = False
    """It asks for no time limit: no default takes its place."""
    partition: Word = ""
    account: Word = ""
    qos: Word = ""
    priority: Signed64 | None = None
    nice: Signed = 0
    begin_at_unix: Moment | None = None
    deadline_unix: Moment | None = None
    time_min_s: Limit | None = None
    reservation: Word = ""
    licenses: Annotated[tuple[tuple[Word, Count], ...], msgspec.Meta(max_length=64)] = ()
    warn: WarnSignal | None = None
    array: ArraySpec | None = None
    dependencies: Dependencies | None = None
    kill_on_invalid_dep: bool | None = None
    """Whether it ends when its dependencies can never hold; None: as the site has it."""
    hold: bool = False
    requeue: bool = True
    output: Text = ""
    """%-pattern; "" is sbatch's default slurm-%j.out (slurm-%A_%a.out for arrays). Relative to `chdir`."""
    error: Text = ""
    open_append: bool = False
    open_truncate: bool = False
    """Asked for: without either word a job that begins again appends, because what it said the first time is worth keeping."""
    input: Text = ""
    """%-pattern of the file that the batch script reads; "" is none. Relative to where the job runs."""
    submit_dir: Text = "/"
    chdir: Text = ""
    """Absolute working folder; "" is the submit folder."""
    comment: Text = ""
    admin_comment: Text = ""
    """Written by admins alone, once the job is there."""
    mail_types: MailTypes = ()
    """Events of --mail-type (notation.mail)."""
    mail_user: Word = ""
    """"" is the job's user."""
    env: dict[str, str] = {}
    user_env: bool = False
    """With the variables of the user's login shell on the node, which `env` outranks (--get-user-env)."""
    step_variables: dict[str, str] = {}
    """What the job was asked that its steps are asked too, in the variables in which srun reads it."""
    limits: Annotated[dict[str, Signed64], msgspec.Meta(max_length=16)] = {}
    """Soft limits of its processes by the names of --propagate, in the unit of setrlimit(2); -1 is none."""
    submit_line: str = ""
    submit_host: str = ""
    container: Container | None = None
    snapshot: Snapshot | None = None
    code_due_unix: Moment | None = None
    """The snapshot is being taken, and the job starts when it is there: after this moment in any case."""
    in_place: bool = False
    """As Slurm's jobs: in the folder itself where the node sees it, so that what the job writes is there. The snapshot tells
    what the code was, and is what nodes run that do not see the folder."""

    def appends(self, restarts: int) -> bool:
        """Whether what it says is added to its output files as they are."""
        return self.open_append or (restarts > 0 and not self.open_truncate)
