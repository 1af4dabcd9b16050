"""The messages between the controller and an agent: frozen dataclasses, each with its own tag `t`.

The agent decodes them with `decode`, which uses plain json and no packages. The controller may do the same,
or validate the same classes with msgspec. Unknown fields are ignored and missing optional fields take their
defaults, so that neighboring versions understand each other. PROTOCOL_VERSION changes only when that is no
longer enough.

Handshake: the controller sends Hello. The agent answers with Welcome, which holds its inventory and every job
that it still has. A Launch is idempotent by (job_id, restarts): if it arrives again, the agent reports the
state of the existing launch. Every exited job is repeated in each Welcome until the controller sends Forget.

Streams (see `frames`): OpenLog, OpenPty, OpenTunnel and PutTree choose an id. The bytes follow as data
frames, and each side closes with StreamEnd. The receiver acknowledges data with StreamAck, and the sender
pauses after STREAM_WINDOW_BYTES without an acknowledgment. Keys typed into a terminal are exempt from this
limit. In a tunnel, an empty data frame ends its direction, and the other direction continues.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Literal, Optional, Tuple, Union, get_args

from . import steps
from .container import Container as Container
from .container import Mount as Mount
from .fields import build
from .fields import encode as encode
from .frames import WireError
from .opening import OpenLog as OpenLog
from .opening import OpenPty as OpenPty
from .opening import OpenTunnel as OpenTunnel
from .opening import ResizePty as ResizePty
from .steps import StepReport
from .watch import COLUMNS as COLUMNS
from .watch import RINGS as RINGS
from .watch import AskCurves as AskCurves
from .watch import AskHealth as AskHealth
from .watch import AskMoment as AskMoment
from .watch import Check as Check
from .watch import Curve as Curve
from .watch import Curves as Curves
from .watch import Facility as Facility
from .watch import Fault as Fault
from .watch import GpuInfo as GpuInfo
from .watch import GpuLinks as GpuLinks
from .watch import GpuProcess as GpuProcess
from .watch import GpuSample as GpuSample
from .watch import GpuUsage as GpuUsage
from .watch import Health as Health
from .watch import IdleSession as IdleSession
from .watch import Inventory as Inventory
from .watch import Moment as Moment
from .watch import OwnUse as OwnUse
from .watch import Sample as Sample
from .watch import SampleEvery as SampleEvery
from .watch import Strangers as Strangers

PROTOCOL_VERSION = 1
SHARE_MACHINE = "WARPDECK_SHARE_MACHINE"
"""Environment variable of a controller and its agents that lets several agents manage the same machine."""
AHEAD_S = 1.0
"""Time in seconds that a prefetched launch waits on its node for an earlier launch to end. It is short
because the controller may change its decision.
"""
SUSPENDED, RESUMED = "suspended", "resumed"
"""Causes of a Kill message that suspends or resumes a job instead of ending it."""
Key = Tuple[int, int]
"""(job id, restarts): one launch."""


@dataclass(frozen=True)
class JobReport:
    """The agent's state of one launch.

    `phase` is "running", "exited", or "lost" (it was started, but its supervisor is gone).
    """

    job_id: int
    restarts: int
    phase: str
    pid: int = 0
    started_at: float = 0.0
    ended_at: float = 0.0
    exit_code: int = 0
    signal: int = 0
    cause: str = ""
    """Why it ended, if it did not end by itself: "timeout", "cancelled", "oom" or "unknown"."""
    message: str = ""
    stdout_path: str = ""
    stderr_path: str = ""
    work_dir: str = ""
    peak_mem_bytes: int = 0
    cpu_seconds: float = 0.0
    system_s: float = 0.0
    """The part of the CPU seconds that the kernel spent on its behalf."""
    own: Optional[OwnUse] = None
    """Usage of the launch outside of its steps. Set only for a launch that had steps."""
    gpu: Optional[GpuUsage] = None
    curve: Optional[Curve] = None
    """Usage curve over the whole life of an ended launch, at reduced resolution."""
    suspended: bool = False
    """Whether the launch is suspended. The clock of its time limit is then stopped as well."""
    time_limit_s: float = -1.0
    """The time limit that is enforced on a running launch, in seconds. 0 means no limit, -1 means unknown."""
    drain: str = ""
    """For an ended launch: the reason why the node should be drained."""
    t: Literal["report"] = "report"


# ---- controller to agent


@dataclass(frozen=True)
class Hello:
    controller_id: str
    version: int = PROTOCOL_VERSION
    sample_interval_s: float = 1.0
    t: Literal["hello"] = "hello"


@dataclass(frozen=True)
class TreeRef:
    """A code snapshot: the git tree id, the SHA-256 and size of its tar.gz, and the submit folder inside it.

    `links` are names, relative to the snapshot's root, of files that git ignores (data, virtual
    environments). If the submit folder is visible on the node, these names are linked from there into the
    checkout.
    """

    tree: str
    sha256: str
    size_bytes: int
    root: str
    subdir: str = ""
    links: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class Hooks:
    """The site's programs around a launch.

    They run as the agent's user with `env` and nothing of the job's own environment.
    """

    prolog: str = ""
    """Path of the prolog. If it fails, the launch is refused and the node is drained."""
    epilog: str = ""
    """Path of the epilog, which runs after all processes of the launch have ended. If it fails, the node is
    drained.
    """
    timeout_s: float = 60.0
    env: Dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Launch:
    """Start a job's share on this node.

    Paths are those of the submit host; %-patterns are already resolved.
    """

    job_id: int
    restarts: int
    user: str
    uid: int
    role: str
    """"batch": run `script`. "tasks": run `argv` in `tasks` processes. "hold": only hold the allocation
    (other nodes of the job).
    """
    env: Dict[str, str]
    cwd: str
    cwd_visible: bool
    """Whether the submit folder is the same folder on this node, so that output goes straight to its
    files.
    """
    stdout: str = ""
    """Absolute path. With "", the output stays in the agent's own folder, from where it can be streamed."""
    stderr: str = ""
    """Absolute path. With "", standard error goes to the same file as standard output."""
    append: bool = False
    stdin: str = ""
    """File for the standard input of a batch script, relative to the working folder of the script. "" means
    no input.
    """
    limits: Dict[str, int] = field(default_factory=dict)
    """Soft limits of the job's processes by name (NOFILE etc.), in the unit of setrlimit(2). -1 means
    unlimited.
    """
    script: str = ""
    script_args: List[str] = field(default_factory=list)
    login: bool = False
    """Whether the job gets the variables of the user's login shell. Variables in `env` take precedence."""
    argv: List[str] = field(default_factory=list)
    tasks: int = 1
    first_rank: int = 0
    gpus: List[str] = field(default_factory=list)
    """UUIDs of the GPUs."""
    cuda_visible_devices: str = "uuid"
    """How CUDA_VISIBLE_DEVICES names the GPUs: "uuid", or "index" (counted as the job's processes see
    them).
    """
    gpu_share_pct: int = 100
    """If below 100, the share of its GPU's memory that the job may use, in percent. A job that exceeds it is
    ended with cause "oom".
    """
    share_grace_s: float = 10.0
    """Time in seconds that a job may exceed its share of GPU memory after it was warned."""
    share_start_s: float = 0.0
    """The longest time in seconds that the launch waits until the previous job on the shared GPU has
    allocated its memory.
    """
    cpus: int = 1
    mem_bytes: int = 0
    max_processes: int = 0
    """The most processes and threads that the job may have at once. 0 means no limit."""
    tmp_dir: str = ""
    """Folder in which the job's TMPDIR is created. "" means /tmp."""
    private_dirs: List[str] = field(default_factory=list)
    """Folders that are private to the job, if the node supports it. `shared_dirs` are folders below them that
    stay the node's.
    """
    shared_dirs: List[str] = field(default_factory=list)
    container: Optional[Container] = None
    hooks: Optional[Hooks] = None
    unkillable_s: float = 60.0
    """How long a process may survive KILL, in seconds, before the node is considered faulty."""
    empty_gpus: bool = False
    """Refuse the launch, to be retried, if a process that belongs to no job holds memory on the launch's
    GPUs.
    """
    confine: List[str] = field(default_factory=lambda: ["memory", "cpus", "devices"])
    """The resources that are limited to the job's share. The job may use more of the other resources."""
    time_limit_s: Optional[float] = None
    grace_s: float = 30.0
    warn_signal: int = 0
    """Signal that is sent `warn_before_s` before the time limit; 0 for none. `warn_batch_only`: only the
    batch shell gets it.
    """
    warn_before_s: float = 0.0
    warn_batch_only: bool = False
    idle_limit_s: float = 0.0
    """For a terminal job: idle time in seconds after which it is ended with cause "idle"; 0 means never. The
    user is warned `idle_warning_s` before.
    """
    idle_warning_s: float = 0.0
    in_place: bool = False
    """Whether the tree is used only if the node does not see the submit folder."""
    tree: Optional[TreeRef] = None
    workspace: str = ""
    """Name of the checkout folder. The tasks of one array share a checkout."""
    pty: bool = False
    rows: int = 24
    cols: int = 80
    behind: List[int] = field(default_factory=list)
    """[job_id, restarts] of another launch on this node. This launch is prefetched and begins when that one
    has ended.
    """
    behind_s: float = AHEAD_S
    """If a prefetched launch has not begun this many seconds after it arrived, it is returned with
    GivenBack.
    """
    t: Literal["launch"] = "launch"


@dataclass(frozen=True)
class PutTree:
    """Upload of a tree's tar.gz, sent after NeedTree. The bytes follow on `stream`, then StreamEnd."""

    tree: str
    sha256: str
    size_bytes: int
    stream: int
    t: Literal["put_tree"] = "put_tree"


@dataclass(frozen=True)
class Kill:
    """End a job: TERM to all its processes, then KILL after `grace_s` seconds.

    With `signal`, only that signal is sent, once. `whom` selects all processes, the batch shell, or the
    programs that the shell runs. With a signal and the cause SUSPENDED or RESUMED, the clock of the time
    limit stops or continues as well.
    """

    job_id: int
    restarts: int
    cause: str = "cancelled"
    grace_s: float = 30.0
    signal: int = 0
    whom: str = "all"
    t: Literal["kill"] = "kill"


@dataclass(frozen=True)
class TakeBack:
    """Revoke prefetched launches ([job_id, restarts]) that have not begun.

    The agent lists these in GivenBack. It says nothing about launches that have already begun, and they
    continue unchanged.
    """

    launches: List[List[int]]
    t: Literal["take_back"] = "take_back"


@dataclass(frozen=True)
class SetLimit:
    """Change the time limit of a launch, in seconds from its start. None means no limit."""

    job_id: int
    restarts: int
    time_limit_s: Optional[float] = None
    t: Literal["set_limit"] = "set_limit"


@dataclass(frozen=True)
class Forget:
    """The controller has durably recorded the end of this launch, so the agent may delete its spool."""

    job_id: int
    restarts: int
    t: Literal["forget"] = "forget"


@dataclass(frozen=True)
class ProbePath:
    """Ask whether the folder `path` holds an entry called `name`, as seen by the user `uid`.

    The answer shows whether a submit folder is shared with the node.
    """

    probe: int
    path: str
    name: str
    uid: int
    t: Literal["probe_path"] = "probe_path"


@dataclass(frozen=True)
class Notice:
    """A line of text for the users of a job.

    It is appended to the job's standard error, or shown on its terminal.
    """

    job_id: int
    restarts: int
    text: str
    t: Literal["notice"] = "notice"


@dataclass(frozen=True)
class Quit:
    """End the agent. Jobs and terminals continue, and the next agent adopts them."""

    t: Literal["quit"] = "quit"


# ---- both directions


@dataclass(frozen=True)
class StreamAck:
    """Acknowledge `size` more bytes of this stream."""

    stream: int
    size: int
    t: Literal["stream_ack"] = "stream_ack"


@dataclass(frozen=True)
class StreamEnd:
    stream: int
    error: str = ""
    t: Literal["stream_end"] = "stream_end"


# ---- agent to controller


@dataclass(frozen=True)
class Welcome:
    build: str
    """SHA-256 of the agent's zipapp, in hexadecimal."""
    inventory: Inventory
    jobs: List[JobReport] = field(default_factory=list)
    steps: List[StepReport] = field(default_factory=list)
    version: int = PROTOCOL_VERSION
    pid: int = 0
    user: str = ""
    t: Literal["welcome"] = "welcome"


@dataclass(frozen=True)
class NeedTree:
    job_id: int
    restarts: int
    tree: str
    t: Literal["need_tree"] = "need_tree"


@dataclass(frozen=True)
class Remark:
    """A remark about a launch for the users of its job. It does not change the job's state."""

    job_id: int
    restarts: int
    text: str
    t: Literal["remark"] = "remark"


@dataclass(frozen=True)
class LaunchFailed:
    """The launch failed: the job did not start, and nothing of it runs."""

    job_id: int
    restarts: int
    message: str
    again: bool = False
    """Whether the node is at fault instead of the job, so that the launch may be retried."""
    drain: str = ""
    """The reason why the node should be drained."""
    check: str = ""
    """The health check that fails on this node (for example disk). The node is drained until the check
    succeeds, and the job starts on another node.
    """
    t: Literal["launch_failed"] = "launch_failed"


@dataclass(frozen=True)
class GivenBack:
    """Prefetched launches ([job_id, restarts]) that were waiting behind other launches.

    They have not begun, and will not.
    """

    launches: List[List[int]]
    t: Literal["given_back"] = "given_back"


@dataclass(frozen=True)
class StreamOpened:
    """A stream was opened.

    `offset` is the position at which its data begin. `size_bytes` is the present size of a log file, or the
    number of bytes that a terminal has written so far.
    """

    stream: int
    offset: int = 0
    size_bytes: int = 0
    path: str = ""
    t: Literal["stream_opened"] = "stream_opened"


@dataclass(frozen=True)
class PathProbed:
    probe: int
    found: bool
    hangs: bool = False
    """Whether the file server of the folder does not answer."""
    t: Literal["path_probed"] = "path_probed"


_AboutSteps = Union[
    steps.StepLaunch,
    steps.StepKill,
    steps.ForgetStep,
    steps.OpenStep,
    steps.ReservePort,
    steps.StepFenced,
]
ControllerMessage = Union[
    Hello,
    Launch,
    PutTree,
    Kill,
    TakeBack,
    SetLimit,
    Forget,
    OpenLog,
    OpenPty,
    OpenTunnel,
    ResizePty,
    ProbePath,
    AskHealth,
    AskCurves,
    AskMoment,
    SampleEvery,
    Notice,
    Quit,
    StreamAck,
    StreamEnd,
    _AboutSteps,
]
_OfSteps = Union[steps.StepReport, steps.StepFence, steps.PortReserved, steps.CallOpened]
AgentMessage = Union[
    Welcome,
    JobReport,
    NeedTree,
    LaunchFailed,
    GivenBack,
    Remark,
    StreamOpened,
    PathProbed,
    Sample,
    Health,
    Curves,
    Moment,
    StreamAck,
    StreamEnd,
    _OfSteps,
]

_BY_TAG: Dict[str, Any] = {
    cls.__dataclass_fields__["t"].default: cls
    for cls in (*get_args(ControllerMessage), *get_args(AgentMessage))
}


def decode(message: Dict[str, Any]) -> Any:
    """Return the message as the dataclass that its tag names.

    Raises WireError for an unknown tag, a missing field or a wrong type.
    """
    cls = _BY_TAG.get(message.get("t", ""))
    if cls is None:
        raise WireError(f"unknown message {message.get('t')!r}")
    return build(cls, message, str(message["t"]))
