"""What the planner sees: an immutable picture of cluster, site and queue. Sizes in bytes, times in unix seconds."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from warpdeck.model import Allocation, GpuUuid, JobId, NodeName, Resources, Room, Topology

from .site import AccountView, PartitionView, QosView, ReservationView, UserView


class GpuView(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU of a node. `blocked` says in words why no job may have it ("held by 'bob' (pid 12, 30 GiB)"), "" if free to use.

    Whether a job of ours holds it follows from RunningJob, not from here. GPUs with equal `island` are joined by NVLink;
    -1 is unknown.
    """

    index: int
    uuid: GpuUuid
    type: str
    mem_bytes: int
    blocked: str = ""
    numa_node: int = -1
    island: int = -1


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node. `unavailable` says in words why it takes no new job ("drained: bad fan"), "" if it does.

    `switch` names its leaf switch ("" unknown); nodes of lower `weight` are used first.
    """

    name: NodeName
    cpus: int
    mem_bytes: int
    topology: Topology = Topology()
    tmp_disk_bytes: int = 0
    gpus: tuple[GpuView, ...] = ()
    unavailable: str = ""
    features: frozenset[str] = frozenset()
    switch: str = ""
    weight: int = 1


def owner_of(user: str, uid: int) -> str:
    """A user who may be told from another of that name: an account that was deleted and made anew has another uid."""
    return f"{user}({uid})"


class RunningJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that holds resources.

    `ends_by_unix` is start plus limit, or for a job that is being ended the end of its grace time; None: it has no limit.
    `ending`: it was told to leave. `suspended`: it is stopped and holds only what `allocation` still says.
    """

    id: JobId
    allocation: Allocation
    ends_by_unix: float | None = None
    array_job_id: JobId = JobId(0)
    label: str = ""
    user: str = ""
    uid: int = 0
    account: str = ""
    qos: str = ""
    partition: str = ""
    reservation: str = ""
    licenses: tuple[tuple[str, int], ...] = ()
    start_at_unix: float = 0.0
    requeue: bool = True
    ending: bool = False
    suspended: bool = False
    resumes_to: Allocation | None = None
    """Of a suspended job: what it holds when it goes on."""
    users_apart: bool = False
    """It asked that no other user's job is on its nodes."""
    expects_end_unix: float | None = None
    """When it is likely to end, from its user's history; never later than `ends_by_unix`."""

    @property
    def name(self) -> str:
        """As squeue prints the id."""
        return self.label or str(self.id)

    @property
    def owner(self) -> str:
        """Whose it is, where users are kept apart."""
        return owner_of(self.user, self.uid)


class PendingJob(msgspec.Struct, frozen=True, kw_only=True):
    """A waiting job, or the waiting tasks of an array. `waits_for` and `never` come from dependencies: words, or "".

    Equal requests should share one Resources object: the planner recognises them by identity first.
    """

    id: JobId
    array_job_id: JobId
    user: str
    resources: Resources
    submit_at_unix: float
    eligible_at_unix: float
    uid: int = 0
    label: str = ""
    time_limit_s: int | None = None
    unlimited: bool = False
    """It asks for no limit, which is not to say nothing of one."""
    time_min_s: int | None = None
    """It may be given less than its limit, down to this, if it can then start earlier."""
    predicted_s: float | None = None
    """How long it is likely to run, from its user's history; orders backfill, promises nothing."""
    promised_at_unix: float | None = None
    """The start that the last pass reserved for it; with conservative backfill promises are kept in their order."""
    room: Room | None = None
    """What others were told to leave for it: it goes first, and there."""
    partition: str = ""
    account: str = ""
    qos: str = ""
    reservation: str = ""
    licenses: tuple[tuple[str, int], ...] = ()
    priority: int | None = None
    """Set by an admin or --priority: takes the place of the computed one."""
    nice: int = 0
    begin_at_unix: float | None = None
    recording: bool = False
    """Whether it is so late because its code is being recorded until then at the latest."""
    deadline_unix: float | None = None
    held: bool = False
    held_by_admin: bool = False
    lost_reservation: str = ""
    requeued_held: bool = False
    waits_for: str = ""
    never: str = ""
    kill_invalid: bool | None = None
    """Whether it ends where `never` is set; None: as the settings have it."""
    tasks: tuple[tuple[int, int, int], ...] = ()
    """Waiting array tasks as (first, last, step); () for a plain job."""
    throttle: int = 0
    """How many tasks of the array may run at once; 0 is no limit."""
    components: tuple[PendingJob, ...] = ()
    """Of a heterogeneous job's leader: its other components, which start when it does or not at all. They stand nowhere else."""

    @property
    def name(self) -> str:
        """As squeue prints the id."""
        return self.label or str(self.id)

    @property
    def owner(self) -> str:
        """Whose it is, where users are kept apart."""
        return owner_of(self.user, self.uid)


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a pass may look at. Nodes are sorted by name, jobs by id; site tables by name. In any other order the plan is
    the same, only more of it is made anew.

    No partitions: one nameless partition holds all nodes. No accounts: no shares, quotas or account limits.
    """

    nodes: tuple[NodeView, ...]
    running: tuple[RunningJob, ...]
    pending: tuple[PendingJob, ...]
    partitions: tuple[PartitionView, ...] = ()
    qos: tuple[QosView, ...] = ()
    accounts: tuple[AccountView, ...] = ()
    users: tuple[UserView, ...] = ()
    reservations: tuple[ReservationView, ...] = ()
    submitted: Mapping[tuple[str, str, str], int] = {}
    """Jobs and array tasks in the queue, waiting and running, by (account, user, QoS): what limits of submission count."""
    counted_unix: float | None = None
    """Up to when the use of running jobs is in the tables; None: up to now."""
    leaders: tuple[JobId, ...] = ()
    """Waiting jobs with components."""
    longest_wait_s: float = 0.0
    """The longest that any job which started lately had waited."""
    licenses: tuple[tuple[str, int], ...] = ()
