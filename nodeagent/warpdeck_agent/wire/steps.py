"""Messages about steps and calls.

Steps are tasks started inside a launch. Calls are connections of a job's processes to the controller.

A StepLaunch is idempotent by (job_id, restarts, step), like a Launch. Each StepReport lists the tasks that
have ended since the last report; the Welcome repeats all of them until ForgetStep. OpenStep connects the
controller to the tasks' streams: data frames carry TASK_HEADER (rank, channel, offset) before the bytes. From
the agent, the channel is OUT or ERR. To the agent it is IN, for one rank or EVERY_TASK, and an empty piece is
the end of input. The agent opens a CallOpened stream with an id of at least FIRST_CALL. Its bytes are the
frames of the controller's own socket.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Dict, List, Literal, Mapping, Optional

from .container import Container
from .watch import Curve, GpuUsage, Spread

TASK_HEADER = struct.Struct(">IBQ")
"""rank, channel, offset of the first byte"""
OUT, ERR, IN = 1, 2, 0
EVERY_TASK = 0xFFFFFFFF
FIRST_CALL = 1 << 31
"""The lowest stream id that an agent assigns."""
FIRST_GANG_PORT, GANG_PORTS = 29_000, 1_000
"""First port and number of ports that are derived from the job's number.

Commands that begin on several nodes at once without asking the controller use these ports. No other ports
come from this range.
"""
MASTER_VARIABLE = "WARPDECK_MASTER"
"""Environment variable which says that warpdeck has set MASTER_ADDR; its value ends with MASTER_PORT."""
FENCE_PIECE_BYTES = 256 * 1024
"""The most bytes of PMI values from the ranks that one message carries."""
CALL_WINDOW_BYTES = 256 * 1024
"""The window of a call in each direction. It is small, so that hundreds of calls take little memory even if
their processes read nothing.
"""
MAX_ACCESS_BYTES = 64 * 1024
"""The largest message that a process may send before it is authenticated."""


@dataclass(frozen=True)
class StepTask:
    """One task. `env` is added to the step's environment.

    Empty `argv` or `cpus` mean the step's command and the job's CPUs.
    """

    rank: int
    env: Dict[str, str] = field(default_factory=dict)
    argv: List[str] = field(default_factory=list)
    cpus: List[int] = field(default_factory=list)
    reads: bool = False
    """Whether the task gets input. Otherwise its standard input is empty."""
    terminal: bool = False
    """Whether the task has its own terminal. Its input then consists of the frames of `ptytask`."""


@dataclass(frozen=True)
class Pmi:
    """PMI settings of a step. Its tasks are the ranks.

    `mapping` gives the ranks of each node in the format of PMI_process_mapping.
    """

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
    """Whether the CPUs of each task are printed on its standard error before it begins."""
    cpus: int = 0
    """Number of the job's CPUs on this node that are reserved for the step. 0: it may use all of the job's
    CPUs.
    """
    mem_bytes: int = 0
    """The part of the job's memory on this node that the step may use. 0: all."""
    time_limit_s: float = 0.0
    """Time limit of the step in seconds. 0: only the job's limit applies."""
    limits: Dict[str, int] = field(default_factory=dict)
    """Soft resource limits, as in Launch.limits."""
    pmi: Optional[Pmi] = None
    container: Optional[Container] = None
    """The container in which each task runs. Its relative paths are relative to the step's folder."""
    prologs: List[str] = field(default_factory=list)
    """Programs that run as the user in each task before its command: first the site's, then the user's.

    Lines that they print as "export NAME=VALUE", "unset NAME" or "print TEXT" are applied to the task.
    """
    epilogs: List[str] = field(default_factory=list)
    """Programs that run as the user in each task after its command."""
    t: Literal["step_launch"] = "step_launch"


@dataclass(frozen=True)
class TaskEnded:
    """The end of one task."""

    rank: int
    code: int = 0
    signal: int = 0
    oom: bool = False
    """Whether the task, or a process for which it waited, was killed because the step or its job ran out of
    memory.
    """


@dataclass(frozen=True)
class StepReport:
    """The agent's state of its share of a step.

    `phase` is "running", or "exited" when all its tasks have ended.
    """

    job_id: int
    restarts: int
    step: int
    phase: str
    ends: List[TaskEnded] = field(default_factory=list)
    cpu_seconds: float = 0.0
    system_s: float = 0.0
    """The part of the CPU seconds that the kernel spent on its behalf."""
    peak_mem_bytes: int = 0
    spreads: List[Spread] = field(default_factory=list)
    """Distribution of the usage over the tasks, once all have ended. Quantities that are not known for any
    task are omitted.
    """
    gpu: Optional[GpuUsage] = None
    curve: Optional[Curve] = None
    """Usage curve over the life of the step, once it has ended; None if it was too short."""
    message: str = ""
    """Why the step could not be started, or how it ended if its tasks do not show it."""
    check: str = ""
    """The health check that fails on this node, if the message describes a fault of the node."""
    abort: Optional[TaskEnded] = None
    """The rank that has aborted the whole step, and the exit code of the step."""
    t: Literal["step_report"] = "step_report"


@dataclass(frozen=True)
class StepFence:
    """PMI values that the ranks of this node have put before fence `number`.

    All of these ranks wait at the fence. `last` marks the last message for this fence.
    """

    job_id: int
    restarts: int
    step: int
    number: int
    values: Dict[str, str]
    last: bool
    t: Literal["step_fence"] = "step_fence"


@dataclass(frozen=True)
class StepFenced:
    """All ranks of all nodes have reached fence `number`.

    `values` are the values of all ranks, or a part of them.
    """

    job_id: int
    restarts: int
    step: int
    number: int
    values: Dict[str, str]
    last: bool
    t: Literal["step_fenced"] = "step_fenced"


@dataclass(frozen=True)
class StepKill:
    """End a step: TERM to its tasks, then KILL after `grace_s` seconds.

    With `signal`, only that signal is sent, once; if `rank` is not -1, only to that rank.
    """

    job_id: int
    restarts: int
    step: int
    signal: int = 0
    rank: int = -1
    grace_s: float = 30.0
    t: Literal["step_kill"] = "step_kill"


@dataclass(frozen=True)
class ForgetStep:
    """The controller has durably recorded the end of this step and has read its output.

    The agent may now delete its files.
    """

    job_id: int
    restarts: int
    step: int
    t: Literal["forget_step"] = "forget_step"


@dataclass(frozen=True)
class OpenStep:
    """Connect to the streams of the step's tasks on this node.

    `have`: "RANK.CHANNEL" -> number of bytes already received.
    """

    stream: int
    job_id: int
    restarts: int
    step: int
    have: Dict[str, str] = field(default_factory=dict)
    t: Literal["open_step"] = "open_step"


@dataclass(frozen=True)
class ReservePort:
    """Choose a free TCP port on this node and reserve it for this launch."""

    ask: int
    job_id: int
    restarts: int
    t: Literal["reserve_port"] = "reserve_port"


@dataclass(frozen=True)
class PortReserved:
    """The reserved port. `port` is 0 if no port is free."""

    ask: int
    port: int
    t: Literal["port_reserved"] = "port_reserved"


@dataclass(frozen=True)
class CallOpened:
    """A process of this launch, which has proved its identity, calls the controller."""

    stream: int
    job_id: int
    restarts: int
    t: Literal["call_opened"] = "call_opened"


def pieces(values: Mapping[str, str], size_bytes: int) -> List[Dict[str, str]]:
    """Split `values` into parts of roughly `size_bytes` each. The result has at least one part."""
    made: List[Dict[str, str]] = [{}]
    used = 0
    for key, value in values.items():
        if used > size_bytes:
            made.append({})
            used = 0
        made[-1][key] = value
        used += len(key) + len(value)
    return made
