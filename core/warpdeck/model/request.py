"""What a user asks for: one Request per submission, shared by all tasks of an array. Sizes in bytes, times in seconds.

Field names are sbatch's long options. Absent means "not asked": defaults are filled in by the controller's validation,
so that `show` can tell what the user wrote from what the site added.
"""

from __future__ import annotations

import msgspec

from .ids import JobId


class GpuAsk(msgspec.Struct, frozen=True, kw_only=True):
    """GPUs asked for. Exactly one of the counts is set (all None: no GPU). `type` is matched without case; "" is any."""

    per_node: int | None = None
    total: int | None = None
    per_task: int | None = None
    type: str = ""


class ArraySpec(msgspec.Struct, frozen=True, kw_only=True):
    """`--array`: inclusive ranges (first, last, step), ascending and disjoint, and how many may run at once (0: any)."""

    ranges: tuple[tuple[int, int, int], ...]
    throttle: int = 0

    def count(self) -> int:
        """The number of tasks."""
        return sum((last - first) // step + 1 for first, last, step in self.ranges)


class Dependency(msgspec.Struct, frozen=True, kw_only=True):
    """One clause of `--dependency`. `kind`: after, afterany, afterok, afternotok, aftercorr, singleton.

    `task` narrows an array job to one of its tasks.
    """

    kind: str
    job_id: JobId = JobId(0)
    task: int | None = None
    delay_s: int = 0


class Dependencies(msgspec.Struct, frozen=True, kw_only=True):
    """All clauses; `any_of` is the `?` separator (one is enough), else all must hold."""

    clauses: tuple[Dependency, ...]
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

    rows: int = 24
    cols: int = 80


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a request that placement looks at."""

    nodes_min: int = 1
    nodes_max: int = 1
    tasks: int | None = None
    tasks_per_node: int | None = None
    cpus_per_task: int = 1
    mem_per_node_bytes: int | None = None
    """0 is all memory of the node."""
    mem_per_cpu_bytes: int | None = None
    mem_per_gpu_bytes: int | None = None
    gpus: GpuAsk = GpuAsk()
    nodelist: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    exclusive: bool = False

    def task_count(self) -> int:
        """Tasks in all: as asked, else tasks_per_node on each node, else one a node."""
        if self.tasks is not None:
            return self.tasks
        return self.nodes_min * (self.tasks_per_node or 1)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One submission. Either `script` (sbatch) or `argv` (srun-like: `tasks` processes over all nodes) is set."""

    name: str = "job"
    script: str = ""
    script_args: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    pty: PtySize | None = None
    resources: Resources = Resources()
    time_limit_s: int | None = None
    partition: str = ""
    account: str = ""
    qos: str = ""
    priority: int | None = None
    nice: int = 0
    begin_at_unix: float | None = None
    array: ArraySpec | None = None
    dependencies: Dependencies | None = None
    hold: bool = False
    requeue: bool = True
    output: str = ""
    """%-pattern; "" is sbatch's default slurm-%j.out (slurm-%A_%a.out for arrays). Relative to `chdir`."""
    error: str = ""
    open_append: bool = False
    submit_dir: str = "/"
    chdir: str = ""
    """Absolute working folder; "" is the submit folder."""
    comment: str = ""
    env: dict[str, str] = {}
    submit_line: str = ""
    submit_host: str = ""
    snapshot: Snapshot | None = None
