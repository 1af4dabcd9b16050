"""Input of the planner: an immutable snapshot of the cluster, the site's configuration and the queue.

Sizes are in bytes; times are Unix seconds.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from warpdeck.model import Allocation, GpuUuid, JobId, NodeName, PreemptedClaim, Resources, Topology

from .site import AccountView, PartitionView, QosView, ReservationView, UserView


class GpuView(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU of a node.

    `blocked` is the reason why no job can use the GPU ("held by 'bob' (pid 12, 30 GiB)"); it is empty if the
    GPU is usable. Our own jobs do not block a GPU: `RunningJob` shows which GPUs they hold. GPUs with equal
    `island` are connected by NVLink; -1 means unknown.
    """

    index: int
    uuid: GpuUuid
    type: str
    mem_bytes: int
    blocked: str = ""
    numa_node: int = -1
    island: int = -1


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node as the planner sees it.

    `unavailable` is the reason why the node accepts no new job ("drained: bad fan"); it is empty if the node
    accepts jobs. `switch` names the leaf switch of the node ("" means unknown). Nodes with a lower `weight`
    are used first.
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
    """Return a string that identifies a user by name and uid.

    The uid distinguishes an account from a deleted account of the same name.
    """
    return f"{user}({uid})"


class RunningJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that holds resources.

    `ends_by_unix` is the start plus the time limit; None means that the job has no limit. After the job was
    told to exit, it is the end of the grace time, and `ending` is True. A `suspended` job is stopped and
    holds only the resources that remain in `allocation`.
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
    """For a suspended job: the allocation that it holds after it is resumed."""
    excludes_users: bool = False
    """True if the job requested that no job of another user runs on its nodes."""
    expects_end_unix: float | None = None
    """The predicted end from the history of the user's jobs. It is never later than `ends_by_unix`."""

    @property
    def name(self) -> str:
        """The label of the job, as squeue prints its id."""
        return self.label or str(self.id)

    @property
    def owner(self) -> str:
        """The owner, for requests that keep users apart (see `owner_of`)."""
        return owner_of(self.user, self.uid)


class PendingJob(msgspec.Struct, frozen=True, kw_only=True):
    """A pending job, or the pending tasks of an array.

    `waits_for` and `never` are sentences that result from dependencies, or "". Jobs with equal requests
    should share one `Resources` object, because the planner compares requests by identity first.
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
    """True if the user explicitly asked for no time limit. If no limit was given at all, this is False."""
    time_min_s: int | None = None
    """The minimum time limit (--time-min). The job may get any limit between it and `time_limit_s` if it can
    then start earlier.
    """
    predicted_s: float | None = None
    """The predicted run time, from the history of the user's jobs. It orders backfill but guarantees
    nothing.
    """
    reserved_start_unix: float | None = None
    """The start that the last pass reserved for the job. Conservative backfill keeps reservations in the
    order of these times.
    """
    preempted_claim: PreemptedClaim | None = None
    """Nodes on which other jobs were preempted for this job. The planner tries this job first, and on these
    nodes.
    """
    partition: str = ""
    account: str = ""
    qos: str = ""
    reservation: str = ""
    licenses: tuple[tuple[str, int], ...] = ()
    priority: int | None = None
    """Priority set by an admin or with --priority. It replaces the computed priority."""
    nice: int = 0
    begin_at_unix: float | None = None
    recording: bool = False
    """True if `begin_at_unix` is set only because the code snapshot of the job is still being recorded. The
    recording is complete by then at the latest.
    """
    deadline_unix: float | None = None
    held: bool = False
    held_by_admin: bool = False
    lost_reservation: str = ""
    requeued_held: bool = False
    waits_for: str = ""
    never: str = ""
    kill_invalid: bool | None = None
    """Whether the job ends when `never` is set; None uses the site's setting."""
    tasks: tuple[tuple[int, int, int], ...] = ()
    """Pending array tasks as (first, last, step); () for a job that is not an array."""
    throttle: int = 0
    """Maximum number of the array's tasks that run at once; 0 means no limit."""
    components: tuple[PendingJob, ...] = ()
    """The other components, for the leader of a heterogeneous job. They start together with the leader or not
    at all. They appear only here, not among the pending jobs.
    """

    @property
    def name(self) -> str:
        """The label of the job, as squeue prints its id."""
        return self.label or str(self.id)

    @property
    def owner(self) -> str:
        """The owner, for requests that keep users apart (see `owner_of`)."""
        return owner_of(self.user, self.uid)


class PlannerView(msgspec.Struct, frozen=True, kw_only=True):
    """All input of a scheduling pass, besides settings and time.

    Nodes are sorted by name, jobs by id, and site tables by name. Another order gives the same plan, but more
    of the cached tables must be rebuilt. Without partitions, one unnamed partition contains all nodes.
    Without accounts, there are no fair shares, quotas or account limits.
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
    """Number of jobs and array tasks in the queue, pending and running, by (account, user, QoS). Submission
    limits count these.
    """
    counted_unix: float | None = None
    """The Unix time up to which the tables of accounts and QoS include the usage of running jobs; None means
    up to now.
    """
    hetjob_leaders: tuple[JobId, ...] = ()
    """Pending jobs that have components (leaders of heterogeneous jobs)."""
    longest_wait_s: float = 0.0
    """The longest time that any of the recently started jobs had waited, in seconds."""
    licenses: tuple[tuple[str, int], ...] = ()
