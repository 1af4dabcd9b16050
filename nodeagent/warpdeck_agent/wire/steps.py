"""Messages about steps: tasks started inside a launch, and calls, which are connections of a job's processes to the controller.

A StepLaunch is idempotent by (job_id, restarts, step), as a Launch is. Each StepReport says which tasks have ended since the
last one; the Welcome says everything again until ForgetStep. OpenStep joins the controller to the tasks' streams: data frames
carry TASK_HEADER (rank, channel, offset) before the bytes, channel OUT or ERR from the agent; towards it IN, where the offset
is nothing and no bytes are the end of input, for one rank or EVERY_TASK. A CallOpened stream is begun by the agent, with an id
from FIRST_CALL on; its bytes are the frames of the controller's own socket.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Dict, List, Literal, Mapping, Optional

from .container import Container
from .watch import Curve, GpuUsage, Spread

TASK_HEADER = struct.Struct(">IBQ")
"""rank, channel, offset of the first byte."""
OUT, ERR, IN = 1, 2, 0
EVERY_TASK = 0xFFFFFFFF
FIRST_CALL = 1 << 31
"""Ids of streams that an agent begins."""
FIRST_GANG_PORT, GANG_PORTS = 29_000, 1_000
"""Ports that follow from the job's number, for commands that begin on several nodes at once and ask nobody; no others are these."""
MADE = "WARPDECK_MASTER"
"""A variable which says that MASTER_ADDR is ours, and behind it MASTER_PORT."""
FENCE_PIECE_BYTES = 256 * 1024
"""So much of what ranks have put goes in one message."""
CALL_WINDOW_BYTES = 256 * 1024
"""The window of a call in each direction: hundreds of them, whose processes read nothing, take little memory."""
MAX_ACCESS_BYTES = 64 * 1024
"""The largest message that a process may say before it is known who it is."""


@dataclass(frozen=True)
class StepTask:
    """One task. `env` is added to the step's; `argv` empty: the step's own; `cpus` empty: those of the job."""

    rank: int
    env: Dict[str, str] = field(default_factory=dict)
    argv: List[str] = field(default_factory=list)
    cpus: List[int] = field(default_factory=list)
    reads: bool = False
    """It gets input; else its standard input is empty."""
    terminal: bool = False
    """It has one of its own; its input is in the frames of ptytask."""


@dataclass(frozen=True)
class Pmi:
    """The tasks are ranks that may speak PMI. `mapping`: which ranks are on which node, as PMI_process_mapping says it."""

    name: str
    size: int
    nodes: int
    mapping: str = ""


@dataclass(frozen=True)
class StepLaunch:
    """Start these tasks inside the launch that runs on this node. `cwd` is a folder of this node."""

    job_id: int
    restarts: int
    step: int
    env: Dict[str, str]
    cwd: str
    argv: List[str] = field(default_factory=list)
    tasks: List[StepTask] = field(default_factory=list)
    cpu_bind: str = ""
    bind_verbose: bool = False
    """Each task's CPUs are told on its error output before it begins."""
    cpus: int = 0
    """So many of the job's CPUs here are the step's own; 0: it may use all."""
    mem_bytes: int = 0
    """So much of the job's memory here it may use; 0: all."""
    time_limit_s: float = 0.0
    """0: the job's alone."""
    limits: Dict[str, int] = field(default_factory=dict)
    """As Launch.limits."""
    pmi: Optional[Pmi] = None
    container: Optional[Container] = None
    """Each task runs in one; its relative paths are the step's folder's."""
    prologs: List[str] = field(default_factory=list)
    """Programs that run as the user in each task before it: the site's, then the user's. What they print as "export NAME=VALUE",
    "unset NAME" or "print TEXT" holds for the task."""
    epilogs: List[str] = field(default_factory=list)
    """And behind it."""
    t: Literal["step_launch"] = "step_launch"


@dataclass(frozen=True)
class TaskEnded:
    """How one task ended."""

    rank: int
    code: int = 0
    signal: int = 0
    oom: bool = False
    """It was killed, or what it waited for, because the step or its job had no more memory."""


@dataclass(frozen=True)
class StepReport:
    """What an agent knows of its share of a step. `phase`: running, or exited when all its tasks have ended."""

    job_id: int
    restarts: int
    step: int
    phase: str
    ends: List[TaskEnded] = field(default_factory=list)
    cpu_seconds: float = 0.0
    system_s: float = 0.0
    """Of the CPU seconds, those that the kernel spent for it."""
    peak_mem_bytes: int = 0
    spreads: List[Spread] = field(default_factory=list)
    """How that was spread over the tasks, once all have ended; what is not known of any task is left out."""
    gpu: Optional[GpuUsage] = None
    curve: Optional[Curve] = None
    """How its life went, once it has ended; None where it was too short."""
    message: str = ""
    """Why it could not be started, or what became of it, where its tasks do not tell."""
    check: str = ""
    """The check of the node's health that fails, where the message tells of the node's own fault."""
    abort: Optional[TaskEnded] = None
    """The rank for which the whole step is to end, with this code."""
    t: Literal["step_report"] = "step_report"


@dataclass(frozen=True)
class StepFence:
    """What the ranks of this node have put before the fence of that number, at which all of them wait; `last` of its pieces."""

    job_id: int
    restarts: int
    step: int
    number: int
    values: Dict[str, str]
    last: bool
    t: Literal["step_fence"] = "step_fence"


@dataclass(frozen=True)
class StepFenced:
    """All ranks of all nodes have come to that fence; these are the values of all, or a piece of them."""

    job_id: int
    restarts: int
    step: int
    number: int
    values: Dict[str, str]
    last: bool
    t: Literal["step_fenced"] = "step_fenced"


@dataclass(frozen=True)
class StepKill:
    """End a step: TERM to its tasks, KILL after `grace_s`. With `signal` only that is sent, once; to `rank` alone unless it is -1."""

    job_id: int
    restarts: int
    step: int
    signal: int = 0
    rank: int = -1
    grace_s: float = 30.0
    t: Literal["step_kill"] = "step_kill"


@dataclass(frozen=True)
class ForgetStep:
    """The end of this step is durably recorded, and its output was taken: its files may go."""

    job_id: int
    restarts: int
    step: int
    t: Literal["forget_step"] = "forget_step"


@dataclass(frozen=True)
class OpenStep:
    """Join the streams of the step's tasks on this node. `have`: "RANK.CHANNEL" -> bytes that were taken before."""

    stream: int
    job_id: int
    restarts: int
    step: int
    have: Dict[str, str] = field(default_factory=dict)
    t: Literal["open_step"] = "open_step"


@dataclass(frozen=True)
class ReservePort:
    """Choose a TCP port that is free on this node, and keep it for this launch."""

    ask: int
    job_id: int
    restarts: int
    t: Literal["reserve_port"] = "reserve_port"


@dataclass(frozen=True)
class PortReserved:
    """0: none is free."""

    ask: int
    port: int
    t: Literal["port_reserved"] = "port_reserved"


@dataclass(frozen=True)
class CallOpened:
    """A process of this launch, which has proved it, calls the controller."""

    stream: int
    job_id: int
    restarts: int
    t: Literal["call_opened"] = "call_opened"


def pieces(values: Mapping[str, str], size_bytes: int) -> List[Dict[str, str]]:
    """Parts that are no larger than that by much; one at least."""
    made: List[Dict[str, str]] = [{}]
    used = 0
    for key, value in values.items():
        if used > size_bytes:
            made.append({})
            used = 0
        made[-1][key] = value
        used += len(key) + len(value)
    return made
