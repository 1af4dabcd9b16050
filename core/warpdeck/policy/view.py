"""What the planner sees, and what it answers: immutable data on both sides."""

from __future__ import annotations

import msgspec

from warpdeck.model import Allocation, GpuUuid, JobId, NodeName, Resources, Why


class GpuView(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU of a node. `blocked` says in words why no job may have it ("held by 'bob' (pid 12, 30 GiB)"), "" if free to use.

    Whether a job of ours holds it follows from RunningJob, not from here.
    """

    index: int
    uuid: GpuUuid
    type: str
    mem_bytes: int
    blocked: str = ""
    numa_node: int = -1


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node. `unavailable` says in words why it takes no new job ("drained: bad fan"), "" if it does."""

    name: NodeName
    cpus: int
    mem_bytes: int
    gpus: tuple[GpuView, ...] = ()
    unavailable: str = ""


class PartitionView(msgspec.Struct, frozen=True, kw_only=True):
    """A partition: its nodes (None: all) and its limits in seconds (None: no limit)."""

    name: str
    nodes: frozenset[NodeName] | None = None
    max_time_s: int | None = None
    default_time_s: int | None = None
    priority_tier: int = 1


class RunningJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that holds resources. `ends_by_unix` is start plus limit; None: it has no limit."""

    id: JobId
    allocation: Allocation
    ends_by_unix: float | None = None
    array_job_id: JobId = JobId(0)


class PendingJob(msgspec.Struct, frozen=True, kw_only=True):
    """A waiting job, or the waiting tasks of an array. `waits_for` and `never` come from dependencies: words, or ""."""

    id: JobId
    array_job_id: JobId
    user: str
    resources: Resources
    submit_at_unix: float
    eligible_at_unix: float
    label: str = ""
    time_limit_s: int | None = None
    partition: str = ""
    account: str = ""
    qos: str = ""
    priority: int | None = None
    nice: int = 0
    begin_at_unix: float | None = None
    held: bool = False
    waits_for: str = ""
    never: str = ""
    tasks: tuple[tuple[int, int, int], ...] = ()
    """Waiting array tasks as (first, last, step); () for a plain job."""
    throttle: int = 0
    """How many tasks of the array may run at once; 0 is no limit."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a pass may look at. Nodes are sorted by name, jobs by id."""

    nodes: tuple[NodeView, ...]
    running: tuple[RunningJob, ...]
    pending: tuple[PendingJob, ...]
    partitions: tuple[PartitionView, ...] = ()


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Knobs of the policy, fixed for a pass."""

    default_time_s: int | None = None
    """Given to jobs without a limit when they are planned; None: they count as endless."""
    max_starts: int = 1000
    """Starts in one pass; the next pass goes on. Bounds the pass and the transaction that follows."""
    max_backfill_tests: int = 10_000
    """Jobs behind the reservation that are tried in one pass."""
    default_mem_per_cpu_bytes: int = 0
    """Memory given to a job that asks for none; 0: memory is not counted for it."""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """Start this job now. `task` is the array task, None for a plain job."""

    job_id: JobId
    allocation: Allocation
    task: int | None = None


class Reserve(msgspec.Struct, frozen=True, kw_only=True):
    """The head of the queue will get these nodes at that time; nothing may delay it."""

    job_id: JobId
    at_unix: float
    nodes: tuple[NodeName, ...]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a pass. Every pending job of the view is in `starts`, in `whys`, or (an array) in both."""

    starts: tuple[Start, ...] = ()
    reserves: tuple[Reserve, ...] = ()
    whys: dict[JobId, Why] = {}
    more: bool = False
    """The pass stopped at a bound; run another."""
