"""Steps: tasks that srun starts inside a job's allocation.

Step ids count from 0 within each job. Their labels are Slurm's (12.0). The batch script and the job's other
processes are not steps here: sacct's 12.batch and 12.extern are derived from the job.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from .ids import GpuUuid, JobId, NodeName
from .job import ExitStatus
from .request import (
    Bytes,
    Container,
    Count,
    CountOrNone,
    GpuRequest,
    Limit,
    NodeCount,
    Seconds,
    Signed64,
    Text,
    Word,
)
from .states import JobState
from .usage import GpuUsage, Spread

MAX_STEP_TASKS = 100_000
"""Maximum number of tasks in one step. Each task is a process with separate open files."""
StepTasks = Annotated[int, msgspec.Meta(ge=1, le=MAX_STEP_TASKS)]


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a --multi-prog file: a program and the tasks that run it. Empty `ranks` stand for all other
    tasks ("*").
    """

    ranks: tuple[tuple[int, int], ...] = ()
    """The task numbers that run the program, as inclusive ranges. Empty ranges stand for all other tasks
    ("*").
    """
    argv: tuple[str, ...]


class StepOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of srun, named after its long options.

    None and "" mean that the option was not given, so the job's own value applies.
    """

    argv: tuple[str, ...] = ()
    programs: tuple[Program, ...] = ()
    name: Word = ""
    tasks: StepTasks | None = None
    nodes_min: NodeCount | None = None
    nodes_max: NodeCount | None = None
    tasks_per_node: Count | None = None
    cpus_per_task: Count | None = None
    mem_per_node_bytes: Bytes | None = None
    """Requested memory. With 0, the step gets all memory that the job has on the node, as a step without a
    request. The step's memory is then not counted, and only the job's own limit is enforced.
    """
    mem_per_cpu_bytes: Bytes | None = None
    mem_per_gpu_bytes: Bytes | None = None
    gpus: GpuRequest | None = None
    """Requested GPUs. With None, the step gets all GPUs that the job has on the step's nodes. With a count of
    0, it gets none.
    """
    gpu_bind: Word = ""
    """"" (each task sees all of the step's GPUs on the node), per_task:N, single:N, map_gpu:0,1."""
    nodelist: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    relative: CountOrNone | None = None
    hosts: tuple[str, ...] = ()
    """The node of each task if a host file lists them (SLURM_HOSTFILE)."""
    distribution: Literal["", "block", "cyclic", "plane", "arbitrary"] = ""
    """Distribution of ranks over the nodes. "" is block if there are more tasks than nodes. "arbitrary"
    follows `hosts`, or else `nodelist`.
    """
    plane_size: CountOrNone = 0
    packed: bool = False
    """True if each node gets as many tasks as it can hold. Otherwise tasks are distributed as evenly as
    possible.
    """
    tasks_per_gpu: Count | None = None
    exact: bool = False
    overlap: bool = False
    overcommit: bool = False
    immediate: bool = False
    """True if the step fails instead of waiting while other steps hold the resources it needs."""
    kill_on_bad_exit: bool = False
    wait_s: Seconds = 0
    """Seconds that the other tasks may still run after the first task has ended; 0 means without limit."""
    time_limit_s: Limit | None = None
    mpi: Literal["", "none", "pmi2"] = ""
    """Method by which the ranks of a directly launched MPI program find each other; "" uses the site's
    setting.
    """
    cpu_bind: Word = ""
    bind_verbose: bool = False
    """True if each task prints the CPUs that it got on its standard error."""
    input_rank: Annotated[int, msgspec.Meta(ge=-1, le=2**32 - 1)] = -1
    """The task that receives standard input; 2**32 - 1 means all tasks, -1 none."""
    pty: bool = False
    """True if task 0 runs in a terminal and is the only task that receives input."""
    chdir: Text = ""
    container: Container | None = None
    task_prolog: Text = ""
    task_epilog: Text = ""
    """The user's programs that run before and after each task. Both are paths on the task's node."""
    env: dict[str, str] = {}
    limits: Annotated[dict[str, Signed64], msgspec.Meta(max_length=16)] = {}
    """The resource limits of srun's own process, in the form of `Request.limits`."""


class StepShare(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a step on one node. `ranks` are its tasks there; `task_gpus` lists each task's GPUs in the
    order of `ranks`.
    """

    node: NodeName
    ranks: tuple[int, ...]
    cpus: int
    mem_bytes: int = 0
    """The requested memory, which is also enforced as a limit. 0 means that only the job's limit applies."""
    gpus: tuple[int, ...] = ()
    gpu_uuids: tuple[GpuUuid, ...] = ()
    task_gpus: tuple[tuple[int, ...], ...] = ()
    """Positions in `gpus`. If empty, every task sees all of them."""


class TaskEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one finished task."""

    rank: int
    code: int = 0
    signal: int = 0
    oom: bool = False
    """True if the task was killed because the job ran out of memory on that node."""

    def shell_code(self) -> int:
        """Return the exit code as a shell and srun report it: 128 plus the number for a signal."""
        return 128 + self.signal if self.signal else self.code


class StepPart(msgspec.Struct, frozen=True, kw_only=True):
    """State of a step's share, as its node reported it. `phase` is launching, running or exited."""

    node: NodeName
    phase: str = "launching"
    ends: tuple[TaskEnd, ...] = ()
    cpu_seconds: float = 0.0
    system_s: float = 0.0
    """The part of `cpu_seconds` that was spent in the kernel (system time)."""
    peak_mem_bytes: int = 0
    spreads: tuple[Spread, ...] = ()
    """Distribution of the usage over the tasks of that node."""
    gpu: GpuUsage | None = None
    """GPU usage of the tasks on that node, set once they have ended."""
    message: str = ""
    abort: TaskEnd | None = None
    """The rank that ended the whole step, with its exit code."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step, which belongs to one start of a job."""

    job_id: JobId
    restarts: int
    number: int
    name: str
    state: JobState = JobState.RUNNING
    cpus_per_task: int = 1
    holds: bool = True
    """True if no other step can use the CPUs and GPUs of this step while it runs; False for --overlap."""
    whole: bool = True
    """True if the step holds all resources of the job on its nodes; False for --exact."""
    kill_on_bad_exit: bool = False
    caller: NodeName | None = None
    """The node on which its srun runs; None if srun runs on no node of the cluster."""
    client_gone_since_unix: float | None = msgspec.field(default=None, name="unheld_since_unix")
    """Unix time since which the srun of the step has been disconnected. None if srun is connected or cannot
    connect.
    """
    nonce: str = ""
    """Identifies the request that created the step. A repeated request with the same nonce joins the existing
    step.
    """
    component_jobs: tuple[JobId, ...] = msgspec.field(default=(), name="beside")
    """For a step on several components of a heterogeneous job: the jobs that have a step of this number,
    ordered by their ranks.
    """
    encoded_request: bytes = msgspec.field(default=b"", name="asked")
    """The encoded launch message for the step's nodes, kept until all of them have started it. A controller
    that was killed before it sent the message sends it after its restart.
    """
    shares: tuple[StepShare, ...] = ()
    parts: tuple[StepPart, ...] = ()
    start_at_unix: float = 0.0
    end_at_unix: float | None = None
    ending_cause: str = ""
    """The cause of a requested end of the step (cancelled, timeout, bad_exit, ...), until its nodes confirm
    the end.
    """
    exit: ExitStatus | None = None

    @property
    def is_finished(self) -> bool:
        return self.end_at_unix is not None

    def task_count(self) -> int:
        """Return the total number of tasks."""
        return sum(len(share.ranks) for share in self.shares)

    def node_names(self) -> tuple[NodeName, ...]:
        """Return the nodes of the step in the job's order."""
        return tuple(share.node for share in self.shares)

    def ends(self) -> dict[int, TaskEnd]:
        """Return the tasks that have ended, by rank."""
        return {end.rank: end for part in self.parts for end in part.ends}

    def label(self) -> str:
        """Return the step's name as sacct prints it, for example 12.0."""
        return f"{self.job_id}.{self.number}"
