"""A job: its request, its state and its result.

Jobs are frozen; the reducer replaces them.

An array is folded: one `Job` represents all of its pending tasks (`pending_tasks`). When a task starts, it
becomes a separate `Job` with a new id. The last pending task takes over the record of the array itself, as in
Slurm. Tasks that are changed separately (`hold 12_[3-5]`) are folded into a separate record.
"""

from __future__ import annotations

import msgspec

from .annotations import Annotations
from .ids import GpuUuid, JobId, NodeName
from .ranges import Ranges, format_ranges
from .request import Request
from .states import FINISHED, HOLDS_RESOURCES, JobState
from .usage import GpuUsage, OwnUse

UNKNOWN_GPU = -1
"""Index of a GPU of which only the number is known, because another scheduler does not tell its index."""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """The resources that a job holds on one node. `gpus` are GPU indices or UNKNOWN_GPU; `gpu_uuids` names the
    same GPUs by UUID.
    """

    node: NodeName
    cpus: int
    mem_bytes: int
    tasks: int = 1
    gpus: tuple[int, ...] = ()
    gpu_uuids: tuple[GpuUuid, ...] = ()
    gpu_share_pct: int = 100
    """For a shared GPU: the percentage of the GPU, and of its memory, that this job may use."""


class Allocation(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes and resources of a job, as one `Share` per node. The first share is the share on the batch
    host.
    """

    shares: tuple[Share, ...]

    def node_names(self) -> tuple[NodeName, ...]:
        """Return the names of the nodes in rank order."""
        return tuple(share.node for share in self.shares)

    def gpu_count(self) -> int:
        """Return the number of GPUs on all nodes."""
        return sum(len(share.gpus) for share in self.shares)


class ExitStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Exit status of a job.

    `code` and `signal` are the two numbers of sacct's ExitCode "code:signal". `cause` is set if the job did
    not end by itself.
    """

    code: int = 0
    signal: int = 0
    cause: str = ""
    """One of: "", timeout, cancelled, oom, node_fail, unknown (the job's supervisor was killed),
    launch_failed.
    """
    message: str = ""

    def __str__(self) -> str:
        return f"{self.code}:{self.signal}"


class ShareStatus(msgspec.Struct, frozen=True, kw_only=True):
    """State of a job's share, as its node reported it. `phase` is launching, running or exited."""

    node: NodeName
    phase: str = "launching"
    pid: int = 0
    exit: ExitStatus | None = None
    stdout_path: str = ""
    stderr_path: str = ""
    work_dir: str = ""
    visible: bool = True
    """True if the output files lie in a directory that the user can see. Otherwise the controller copies them
    to the submit host.
    """
    peak_mem_bytes: int = 0
    cpu_seconds: float = 0.0
    system_s: float = 0.0
    """The part of `cpu_seconds` that was spent in the kernel (system time)."""
    own: OwnUse | None = None
    """Usage outside of the job's steps. None means that the share had no steps, so its whole usage is outside
    of steps.
    """
    gpu: GpuUsage | None = None
    """GPU usage of the share, set once it has ended; None if no GPU was measured."""
    checkpoint_at_unix: float = 0.0
    """The time of the last checkpoint that was seen, on the node's clock; 0 if there was none or it is not watched."""

    def without_steps(self) -> ShareStatus:
        """Return a copy that counts only the CPU time and memory used outside of the job's steps.

        GPU usage stays unchanged, because it is not known separately.
        """
        own = self.own
        if own is None:
            return self
        return msgspec.structs.replace(
            self, cpu_seconds=own.cpu_seconds, system_s=own.system_s, peak_mem_bytes=own.peak_mem_bytes
        )


class PendingReason(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why a job is pending: Slurm's reason code, a sentence, and the expected start (None if it
    cannot be predicted).
    """

    code: str
    sentence: str
    expected_start_unix: float | None = None


class Component(msgspec.Struct, frozen=True, kw_only=True):
    """Position of a job in a heterogeneous job.

    The component with offset 0 is the leader and runs the script. The ids of the components are consecutive.
    """

    leader: JobId
    offset: int
    size: int

    def id_set(self) -> str:
        """Return the ids of all components as a range in Slurm's notation, such as 12-14."""
        return f"{self.leader}-{self.leader + self.size - 1}"


class PreemptedClaim(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes on which jobs were preempted for a pending job. Until `until_unix`, the pending job has priority
    on these nodes.
    """

    nodes: tuple[NodeName, ...]
    until_unix: float


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One job, one array task, or the pending tasks of an array."""

    id: JobId
    array_job_id: JobId
    """The id of the submission. It differs from `id` only for an array task that was split off and for a
    component of a heterogeneous job other than the first.
    """
    request: Request
    user: str
    uid: int
    state: JobState = JobState.PENDING
    component: Component | None = None
    """For a component of a heterogeneous job: its position in that job."""
    array_task_id: int | None = None
    pending_tasks: Ranges = ()
    """For a folded array: its pending tasks, two or more."""
    submit_at_unix: float = 0.0
    eligible_at_unix: float = 0.0
    start_at_unix: float | None = None
    end_at_unix: float | None = None
    predicted_s: float | None = None
    """Predicted run time at submission, from the history of the user's jobs; None if there was no history."""
    restarts: int = 0
    failed_starts: int = 0
    """The part of `restarts` that was caused by nodes that could not start the job. Users do not see these as
    restarts.
    """
    failed_nodes: tuple[NodeName, ...] = ()
    """The distinct nodes that could not start the job since it was last released."""
    steps_made: int = 0
    """Number of steps of this start of the job so far. It is also the number of the next step."""
    held: bool = False
    held_by_admin: bool = False
    lost_reservation: str = ""
    """For a pending job that is held: the reservation that the job was waiting for and that has ended."""
    requeued_held: bool = False
    """True if the job is held because it was requeued with a hold."""
    special_exit: bool = False
    """True if the user who requeued the job asked that it be shown differently from other held jobs (Slurm's
    state SPECIAL_EXIT).
    """
    preempted_claim: PreemptedClaim | None = msgspec.field(default=None, name="room")
    """For a pending job: the nodes on which jobs were preempted for it."""
    partition: str = ""
    """The partition in which the job started. If the request names several partitions, it is the partition
    with enough free resources.
    """
    magnetic_reservation: str = msgspec.field(default="", name="drawn_into")
    """The magnetic reservation in which the job runs although its request names no reservation."""
    priority: int | None = None
    """The priority with which the job started; None if it has not started or no priority was computed."""
    time_limit_s: int | None = None
    """The time limit since the start: the requested limit, a default, or a limit shortened with
    --time-min.
    """
    leaves_by_unix: float | None = None
    """For a job that is being preempted: the Unix time at which its grace time ends."""
    client_gone_since_unix: float | None = msgspec.field(default=None, name="unheld_since_unix")
    """For an allocation that is held for a client: the Unix time since which no client has been connected.
    None if a client is connected or the connection has not been checked yet.
    """
    suspended_at_unix: float | None = None
    suspended_by: str = ""
    """The admin who suspended the job. If empty, the planner suspended it and resumes it automatically."""
    resumed_at_unix: float | None = None
    """The Unix time at which the job was last resumed."""
    suspended_s: float = 0.0
    """Seconds of earlier suspensions. They do not count against the time limit."""
    kept: Allocation | None = None
    """For a suspended job: the part of its allocation that no other job can use."""
    requeue_on_exit: bool = False
    """True if a requeue was requested while the job ran. The job returns to PENDING when all its shares have
    ended.
    """
    allocation: Allocation | None = None
    prefetched_after: JobId | None = msgspec.field(default=None, name="behind")
    """For a prefetched job: the id of its predecessor. The job was sent to its node early and holds no
    resources yet. It starts when the predecessor ends, and takes over the predecessor's resources.
    """
    shares: tuple[ShareStatus, ...] = ()
    exit: ExitStatus | None = None
    ended_by_uid: int | None = None
    """The uid of the user who cancelled the job."""
    request_key: int = 0
    """The number of the request in the store if the request was changed after the submission; otherwise 0."""
    request_revisions: int = msgspec.field(default=0, name="amendments")
    """Number of changes of the request."""
    notice: str = ""
    """The last warning about its node or GPUs that was sent to the job."""
    annotations: Annotations | None = None
    ending_cause: str = ""
    """The cause of a requested end (cancelled, timeout, ...), until the nodes confirm the end."""

    @property
    def reservation(self) -> str:
        """The requested reservation, or the magnetic reservation in which the job runs; "" if there is none."""
        return self.magnetic_reservation or self.request.reservation

    @property
    def user_restarts(self) -> int:
        """The number of restarts as shown to users. Starts that failed because of a node are not counted."""
        return self.restarts - self.failed_starts

    @property
    def is_folded_array(self) -> bool:
        """True if the job holds several pending array tasks."""
        return bool(self.pending_tasks)

    @property
    def is_finished(self) -> bool:
        return self.state in FINISHED

    @property
    def family_id(self) -> JobId:
        """The id shared by all tasks of an array. For any other job and for a component, it is the id of the
        job itself.
        """
        return self.array_job_id if self.component is None else self.id

    @property
    def has_leader(self) -> bool:
        """True if the job is a component of a heterogeneous job but not its leader."""
        return self.component is not None and self.component.offset > 0

    @property
    def holds_resources(self) -> bool:
        return self.state in HOLDS_RESOURCES and self.prefetched_after is None

    @property
    def is_prefetched(self) -> bool:
        """True if the job was sent to its node early and, as far as the controller knows, waits for the end
        of its predecessor.
        """
        return self.prefetched_after is not None and self.state is JobState.CONFIGURING

    @property
    def held_allocation(self) -> Allocation | None:
        """The resources that no other job can use now."""
        return self.kept if self.kept is not None else self.allocation

    def ends_by_unix(self) -> float | None:
        """Return the latest Unix time at which the job ends, or None if it has no limit or has not
        started.
        """
        if self.leaves_by_unix is not None:
            return self.leaves_by_unix
        if self.time_limit_s is None or self.start_at_unix is None:
            return None
        return self.start_at_unix + self.time_limit_s + self.suspended_s

    def ran_s(self) -> float | None:
        """Return the run time of the last start in seconds, without suspended time; None if the job has not
        ended or never ran.
        """
        if self.start_at_unix is None or self.end_at_unix is None:
            return None
        return max(0.0, self.end_at_unix - self.start_at_unix - self.suspended_s)

    def expects_end_unix(self) -> float | None:
        """Return the predicted end as a Unix time, at most the end of the time limit.

        None if there is no prediction or the job has not started.
        """
        if self.predicted_s is None or self.start_at_unix is None:
            return None
        ends, expected = self.ends_by_unix(), self.start_at_unix + self.suspended_s + self.predicted_s
        return expected if ends is None else min(expected, ends)

    def label(self) -> str:
        """Return the id as squeue prints it: 12, 12_3, 12_[4-9,11], or 12+1 for a component."""
        if self.pending_tasks:
            return f"{self.array_job_id}_[{format_ranges(self.pending_tasks)}]"
        if self.array_task_id is not None:
            return f"{self.array_job_id}_{self.array_task_id}"
        if self.component is not None:
            return f"{self.component.leader}+{self.component.offset}"
        return str(self.id)
