"""A job: a request, where it stands, and what became of it. Frozen; the reducer replaces it.

An array is folded: one Job holds all its waiting tasks (`pending_tasks`), and a task becomes a Job of its own, with a
new id, when it starts; the last waiting task takes over the array's own record, as in Slurm. Tasks that are treated apart
(`hold 12_[3-5]`) are folded into a record of their own.
"""

from __future__ import annotations

import msgspec

from .annotations import Annotations
from .ids import GpuUuid, JobId, NodeName
from .ranges import Ranges, format_ranges
from .request import Request
from .states import FINISHED, HOLDS_RESOURCES, JobState
from .usage import GpuUsage, OwnUse


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """What a job holds on one node. `gpus` are GPU indices, `gpu_uuids` the same GPUs by uuid."""

    node: NodeName
    cpus: int
    mem_bytes: int
    tasks: int = 1
    gpus: tuple[int, ...] = ()
    gpu_uuids: tuple[GpuUuid, ...] = ()
    gpu_share_pct: int = 100
    """Of a GPU that is shared: the part of it, and of its memory, that this job may use."""


class Allocation(msgspec.Struct, frozen=True, kw_only=True):
    """The shares of a job; the first is its batch host."""

    shares: tuple[Share, ...]

    def node_names(self) -> tuple[NodeName, ...]:
        """The nodes in rank order."""
        return tuple(share.node for share in self.shares)

    def gpu_count(self) -> int:
        """GPUs in all."""
        return sum(len(share.gpus) for share in self.shares)


class ExitStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a job ended: exit code and signal as in sacct's ExitCode "code:signal", and the cause where it was not its own."""

    code: int = 0
    signal: int = 0
    cause: str = ""
    """"", timeout, cancelled, oom, node_fail, unknown (its supervisor was killed), launch_failed."""
    message: str = ""

    def __str__(self) -> str:
        return f"{self.code}:{self.signal}"


class ShareStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a node said of its share of the job. `phase`: launching, running, exited."""

    node: NodeName
    phase: str = "launching"
    pid: int = 0
    exit: ExitStatus | None = None
    stdout_path: str = ""
    stderr_path: str = ""
    work_dir: str = ""
    visible: bool = True
    """The output files lie where the user sees them; else the controller brings them to the submit host."""
    peak_mem_bytes: int = 0
    cpu_seconds: float = 0.0
    system_s: float = 0.0
    """Of the CPU seconds, those that the kernel spent for it."""
    own: OwnUse | None = None
    """Of a share that had steps: its own part of this; None: all of it."""
    gpu: GpuUsage | None = None
    """What it has used of its GPUs, once it has ended; None where none was read."""

    def without_steps(self) -> ShareStatus:
        """With what was used outside of its steps in place of all; of GPUs that is not known apart."""
        own = self.own
        if own is None:
            return self
        return msgspec.structs.replace(
            self, cpu_seconds=own.cpu_seconds, system_s=own.system_s, peak_mem_bytes=own.peak_mem_bytes
        )


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job waits: Slurm's reason code, a sentence, and the expected start (None: cannot be told)."""

    code: str
    sentence: str
    expected_start_unix: float | None = None


class Component(msgspec.Struct, frozen=True, kw_only=True):
    """Where a job stands in a heterogeneous job. Its leader, the component 0, runs the script; the ids are consecutive."""

    leader: JobId
    offset: int
    size: int

    def id_set(self) -> str:
        """The ids of all components, as Slurm shows them: 12-14."""
        return f"{self.leader}-{self.leader + self.size - 1}"


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes on which others were told to leave for a job, and until when that gives it the first word on them."""

    nodes: tuple[NodeName, ...]
    until_unix: float


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One job, one array task, or the waiting rest of an array."""

    id: JobId
    array_job_id: JobId
    """The id of the submission; equals `id` unless this is an array task that was split off, or a further component."""
    request: Request
    user: str
    uid: int
    state: JobState = JobState.PENDING
    component: Component | None = None
    """Of a heterogeneous job: which of its components this is."""
    array_task_id: int | None = None
    pending_tasks: Ranges = ()
    """Of a folded array: the tasks that wait, two or more."""
    submit_at_unix: float = 0.0
    eligible_at_unix: float = 0.0
    start_at_unix: float | None = None
    end_at_unix: float | None = None
    predicted_s: float | None = None
    """How long it was likely to run when it was submitted, from its user's history; None: nothing was known."""
    restarts: int = 0
    failed_starts: int = 0
    """Those of them that were the fault of a node, which could not start it: users do not see them as restarts."""
    failed_nodes: tuple[NodeName, ...] = ()
    """The different nodes that could not start it since it was last released."""
    steps_made: int = 0
    """Steps that this start has had; the number of the next one."""
    held: bool = False
    held_by_admin: bool = False
    lost_reservation: str = ""
    """Of a waiting job that is held: the reservation that it waited for and that is over."""
    requeued_held: bool = False
    """It is held because it was requeued so."""
    special_exit: bool = False
    """Who requeued it wants it seen apart from others that are held (Slurm's state SPECIAL_EXIT)."""
    room: Room | None = None
    """Of a waiting job: what was cleared for it."""
    partition: str = ""
    """Where it started; of a request for several the one that had room."""
    drawn_into: str = ""
    """The reservation in which it runs without having asked for one."""
    priority: int | None = None
    """With which it started; None: it has not, or nobody had reckoned it."""
    time_limit_s: int | None = None
    """The limit it runs under, from its start on: as asked, a default, or shortened (--time-min)."""
    leaves_by_unix: float | None = None
    """It was told to leave for another job: when its grace time ends."""
    unheld_since_unix: float | None = None
    """Of an allocation that is held for a client: since when none was there. None: it is, or nobody looked yet."""
    suspended_at_unix: float | None = None
    suspended_by: str = ""
    """The admin who suspended it; "": the planner did, and lets it go on by itself."""
    resumed_at_unix: float | None = None
    """The last time that it went on after a suspension."""
    suspended_s: float = 0.0
    """Time it has spent suspended before; it does not count against the limit."""
    kept: Allocation | None = None
    """Of a suspended job: the part of its allocation that nobody else may have."""
    requeue_on_exit: bool = False
    """A requeue was asked while it ran: it goes back to PENDING when all its shares have ended."""
    allocation: Allocation | None = None
    behind: JobId | None = None
    """It was handed to its node ahead of time: it holds nothing yet, and begins in the place of this job when that ends."""
    shares: tuple[ShareStatus, ...] = ()
    exit: ExitStatus | None = None
    ended_by_uid: int | None = None
    """Who cancelled it."""
    request_key: int = 0
    """The request's number in the store, where it is not the submission's own: it was changed since."""
    amendments: int = 0
    """How often it was."""
    notice: str = ""
    """The last trouble with its node or GPUs that it was told of."""
    annotations: Annotations | None = None
    ending_cause: str = ""
    """The cause with which a kill was ordered (cancelled, timeout ...), until the nodes confirm."""

    @property
    def reservation(self) -> str:
        """The one it asked for, or that has drawn it in; "" for none."""
        return self.drawn_into or self.request.reservation

    @property
    def user_restarts(self) -> int:
        """As users count: starts that were a node's fault, and began nothing, are none."""
        return self.restarts - self.failed_starts

    @property
    def is_folded_array(self) -> bool:
        """Holds several waiting tasks."""
        return bool(self.pending_tasks)

    @property
    def is_finished(self) -> bool:
        return self.state in FINISHED

    @property
    def family_id(self) -> JobId:
        """The id that all tasks of its array have in common; of another job, or a component, its own."""
        return self.array_job_id if self.component is None else self.id

    @property
    def is_led(self) -> bool:
        """Is a component of a heterogeneous job, and not its leader."""
        return self.component is not None and self.component.offset > 0

    @property
    def holds_resources(self) -> bool:
        return self.state in HOLDS_RESOURCES and self.behind is None

    @property
    def is_handed(self) -> bool:
        """Waits on its node for the place of the job before it, as far as is known here."""
        return self.behind is not None and self.state is JobState.CONFIGURING

    @property
    def held_allocation(self) -> Allocation | None:
        """What nobody else may have now."""
        return self.kept if self.kept is not None else self.allocation

    def ends_by_unix(self) -> float | None:
        """When it will have ended at the latest, None without a limit."""
        if self.leaves_by_unix is not None:
            return self.leaves_by_unix
        if self.time_limit_s is None or self.start_at_unix is None:
            return None
        return self.start_at_unix + self.time_limit_s + self.suspended_s

    def ran_s(self) -> float | None:
        """How long its last start ran, without the time that it was suspended; None if it has not ended or never ran."""
        if self.start_at_unix is None or self.end_at_unix is None:
            return None
        return max(0.0, self.end_at_unix - self.start_at_unix - self.suspended_s)

    def expects_end_unix(self) -> float | None:
        """When it is likely to end, and never after its limit; None where nothing is known or it does not run."""
        if self.predicted_s is None or self.start_at_unix is None:
            return None
        ends, likely = self.ends_by_unix(), self.start_at_unix + self.suspended_s + self.predicted_s
        return likely if ends is None else min(likely, ends)

    def label(self) -> str:
        """As squeue prints the id: 12, 12_3, 12_[4-9,11], or 12+1 for a component."""
        if self.pending_tasks:
            return f"{self.array_job_id}_[{format_ranges(self.pending_tasks)}]"
        if self.array_task_id is not None:
            return f"{self.array_job_id}_{self.array_task_id}"
        if self.component is not None:
            return f"{self.component.leader}+{self.component.offset}"
        return str(self.id)
