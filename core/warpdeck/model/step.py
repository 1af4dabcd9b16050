"""A step: tasks that srun starts inside a job's allocation. Step ids are the job's own, from 0; names are Slurm's (12.0).

The batch script and what else the job runs on its nodes are no steps here: sacct's 12.batch and 12.extern follow from the job.
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
    GpuAsk,
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
"""Tasks of one step: each is a process with files of its own."""
StepTasks = Annotated[int, msgspec.Meta(ge=1, le=MAX_STEP_TASKS)]


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a --multi-prog file: which tasks run it. `ranks` empty: all others ("*")."""

    ranks: tuple[tuple[int, int], ...] = ()
    """Inclusive ranges."""
    argv: tuple[str, ...]


class StepAsk(msgspec.Struct, frozen=True, kw_only=True):
    """What srun is asked, in the names of its long options. None and "" are "not asked": the job's own value holds."""

    argv: tuple[str, ...] = ()
    programs: tuple[Program, ...] = ()
    name: Word = ""
    tasks: StepTasks | None = None
    nodes_min: NodeCount | None = None
    nodes_max: NodeCount | None = None
    tasks_per_node: Count | None = None
    cpus_per_task: Count | None = None
    mem_per_node_bytes: Bytes | None = None
    """0: all that the job has there, as for a step without an amount: then nothing is counted, and only the job is held to its own."""
    mem_per_cpu_bytes: Bytes | None = None
    mem_per_gpu_bytes: Bytes | None = None
    gpus: GpuAsk | None = None
    """None: all that the job has on the step's nodes; a count of 0: none of them."""
    gpu_bind: Word = ""
    """"" (all of the step's on each node), per_task:N, single:N, map_gpu:0,1."""
    nodelist: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    relative: CountOrNone | None = None
    hosts: tuple[str, ...] = ()
    """The node of each task, where a file says so (SLURM_HOSTFILE)."""
    distribution: Literal["", "block", "cyclic", "plane", "arbitrary"] = ""
    """How ranks go to nodes; "": block where tasks are more than nodes. arbitrary: as `hosts`, else `nodelist`, says."""
    plane_size: CountOrNone = 0
    packed: bool = False
    """As many tasks on each node as have room there, rather than as even as may be."""
    tasks_per_gpu: Count | None = None
    exact: bool = False
    overlap: bool = False
    overcommit: bool = False
    immediate: bool = False
    """Refused, rather than made to wait, while others hold what it needs."""
    kill_on_bad_exit: bool = False
    wait_s: Seconds = 0
    """After the first task has ended the others get so long; 0: for ever."""
    time_limit_s: Limit | None = None
    mpi: Literal["", "none", "pmi2"] = ""
    """How ranks of an MPI program that is started directly find each other; "": as the site has it."""
    cpu_bind: Word = ""
    bind_verbose: bool = False
    """Each task says on its error output which CPUs it got."""
    input_rank: Annotated[int, msgspec.Meta(ge=-1, le=2**32 - 1)] = -1
    """The task that gets input; 2**32 - 1: all, -1: none."""
    pty: bool = False
    """Task 0 has a terminal, and alone gets input."""
    chdir: Text = ""
    container: Container | None = None
    task_prolog: Text = ""
    task_epilog: Text = ""
    """Programs of the user's that run before and behind each task; paths of its node."""
    env: dict[str, str] = {}
    limits: Annotated[dict[str, Signed64], msgspec.Meta(max_length=16)] = {}
    """As Request.limits, of srun's own process."""


class StepShare(msgspec.Struct, frozen=True, kw_only=True):
    """The step's part of one node. `ranks` are its tasks there; `task_gpus` each task's GPUs, in the order of `ranks`."""

    node: NodeName
    ranks: tuple[int, ...]
    cpus: int
    mem_bytes: int = 0
    """What it asked for, and is held to; 0: no more than the job is."""
    gpus: tuple[int, ...] = ()
    gpu_uuids: tuple[GpuUuid, ...] = ()
    task_gpus: tuple[tuple[int, ...], ...] = ()
    """Positions in `gpus`; empty: every task sees them all."""


class TaskEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How one task ended."""

    rank: int
    code: int = 0
    signal: int = 0
    oom: bool = False
    """It was killed because the job had no more memory there."""

    def shell_code(self) -> int:
        """As a shell tells it, and srun: 128 and more for signals."""
        return 128 + self.signal if self.signal else self.code


class StepPart(msgspec.Struct, frozen=True, kw_only=True):
    """What a node said of its share of the step. `phase`: launching, running, exited."""

    node: NodeName
    phase: str = "launching"
    ends: tuple[TaskEnd, ...] = ()
    cpu_seconds: float = 0.0
    system_s: float = 0.0
    """Of the CPU seconds, those that the kernel spent for it."""
    peak_mem_bytes: int = 0
    spreads: tuple[Spread, ...] = ()
    """How that was spread over its tasks there."""
    gpu: GpuUsage | None = None
    """What its tasks had of their GPUs there, once they have ended."""
    message: str = ""
    abort: TaskEnd | None = None
    """The rank for which the whole step is to end, with this code."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step of one start of a job."""

    job_id: JobId
    restarts: int
    number: int
    name: str
    state: JobState = JobState.RUNNING
    cpus_per_task: int = 1
    holds: bool = True
    """Nobody else may have its CPUs and GPUs meanwhile; False is --overlap."""
    whole: bool = True
    """It holds all that the job has on its nodes; False is --exact."""
    kill_on_bad_exit: bool = False
    caller: NodeName | None = None
    """The node on which its srun runs; None: none of ours."""
    unheld_since_unix: float | None = None
    """Since when its srun is away although it could be there."""
    nonce: str = ""
    """Of the request that it was made for: one that comes again joins it."""
    beside: tuple[JobId, ...] = ()
    """Of tasks over several components of a heterogeneous job: the jobs that have a step of this number, by their ranks."""
    asked: bytes = b""
    """What its nodes are to be told, encoded, until all of them have begun: a controller that was killed before it told them does so
    when it is back."""
    shares: tuple[StepShare, ...] = ()
    parts: tuple[StepPart, ...] = ()
    start_at_unix: float = 0.0
    end_at_unix: float | None = None
    ending_cause: str = ""
    """Why it was told to end: cancelled, timeout, bad_exit ..., until its nodes confirm."""
    exit: ExitStatus | None = None

    @property
    def is_finished(self) -> bool:
        return self.end_at_unix is not None

    def task_count(self) -> int:
        """Tasks in all."""
        return sum(len(share.ranks) for share in self.shares)

    def node_names(self) -> tuple[NodeName, ...]:
        """The nodes of the step, in the job's order."""
        return tuple(share.node for share in self.shares)

    def ends(self) -> dict[int, TaskEnd]:
        """The tasks that have ended, by rank."""
        return {end.rank: end for part in self.parts for end in part.ends}

    def label(self) -> str:
        """12.0, as sacct names it."""
        return f"{self.job_id}.{self.number}"
