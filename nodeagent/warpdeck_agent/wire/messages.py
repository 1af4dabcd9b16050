"""The messages between the controller and an agent: frozen dataclasses, one `t` tag each.

The agent decodes them with `decode` (plain json, no packages); the controller may do the same or let msgspec
validate the same classes. Unknown fields are ignored and missing optional ones take their default, so that
neighbouring versions understand each other; PROTOCOL_VERSION changes only when that is no longer enough.

Conversation: the controller sends Hello; the agent answers Welcome with its inventory and every job it still holds.
A Launch is idempotent by (job_id, restarts): asked again, the agent reports what it knows. Every Exited is repeated
in each Welcome until the controller says Forget.

Streams (see frames): OpenLog, OpenPty, OpenTunnel and PutTree choose an id; bytes follow as data frames; each side closes
with StreamEnd. The receiver of data sends StreamAck for what it has taken, and the sender stops at STREAM_WINDOW_BYTES (but
for keys typed into a terminal). In a tunnel an empty data frame ends its direction, and the other goes on.
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
"""Variable for a controller and its agents: several agents may manage the same machine."""
AHEAD_S = 1.0
"""How long a launch waits on its node for the place of another: whoever decides may change its mind."""
SUSPENDED, RESUMED = "suspended", "resumed"
"""Causes of a Kill that ends nothing."""
Key = Tuple[int, int]
"""(job id, restarts): one launch."""


@dataclass(frozen=True)
class JobReport:
    """What an agent knows of one launch. `phase`: running, exited, or lost (started, but its supervisor is gone)."""

    job_id: int
    restarts: int
    phase: str
    pid: int = 0
    started_at: float = 0.0
    ended_at: float = 0.0
    exit_code: int = 0
    signal: int = 0
    cause: str = ""
    """Why it ended, when it did not end by itself: "timeout", "cancelled", "oom", "unknown"."""
    message: str = ""
    stdout_path: str = ""
    stderr_path: str = ""
    work_dir: str = ""
    peak_mem_bytes: int = 0
    cpu_seconds: float = 0.0
    system_s: float = 0.0
    """Of the CPU seconds, those that the kernel spent for it."""
    own: Optional[OwnUse] = None
    """Of a launch that had steps: its own part of this."""
    gpu: Optional[GpuUsage] = None
    curve: Optional[Curve] = None
    """Of a launch that has ended: its whole life, thinned."""
    suspended: bool = False
    """It runs, but is stopped, and the time of its limit with it."""
    time_limit_s: float = -1.0
    """Of one that runs: the limit that it is kept to; 0 is none, -1 not known."""
    drain: str = ""
    """Of one that ended: why the node should take no more jobs."""
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

    `links` are names, relative to the snapshot's root, that git ignores (data, virtual environments); where the
    submit folder is visible on the node they are linked from there into the checkout.
    """

    tree: str
    sha256: str
    size_bytes: int
    root: str
    subdir: str = ""
    links: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class Hooks:
    """The site's programs around a launch, run as the agent's user with `env` and nothing of the job's own environment."""

    prolog: str = ""
    """If it fails the launch is refused, and the node takes no more jobs."""
    epilog: str = ""
    """Runs when nothing of the launch is left. If it fails the node takes no more jobs."""
    timeout_s: float = 60.0
    env: Dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Launch:
    """Start a job's share on this node. Paths are as on the submit host; %-patterns are already resolved."""

    job_id: int
    restarts: int
    user: str
    uid: int
    role: str
    """batch: run `script`; tasks: run `argv` in `tasks` processes; hold: only keep the allocation (a gang's other nodes)."""
    env: Dict[str, str]
    cwd: str
    cwd_visible: bool
    """The submit folder is the same folder on this node: output goes straight to its files."""
    stdout: str = ""
    """Absolute path; "" keeps the output in the agent's own folder, from where it can be streamed."""
    stderr: str = ""
    """"" joins standard error to stdout."""
    append: bool = False
    stdin: str = ""
    """What a batch script reads; relative to where it runs. "" is nothing."""
    limits: Dict[str, int] = field(default_factory=dict)
    """Soft limits of its processes: NOFILE and so on, in the unit of setrlimit(2); -1 is none."""
    script: str = ""
    script_args: List[str] = field(default_factory=list)
    login: bool = False
    """With the variables of the user's login shell, which `env` outranks."""
    argv: List[str] = field(default_factory=list)
    tasks: int = 1
    first_rank: int = 0
    gpus: List[str] = field(default_factory=list)
    """GPU uuids."""
    cuda_visible_devices: str = "uuid"
    """How CUDA_VISIBLE_DEVICES names the GPUs: "index" (as the job's processes count them) or "uuid"."""
    gpu_share_pct: int = 100
    """Below 100: the part of its GPU's memory that the job may use; one that uses more is ended ("oom")."""
    share_grace_s: float = 10.0
    """How long it may use more, once it was warned."""
    share_start_s: float = 0.0
    """The longest that it waits for the sharer before it to have its memory."""
    cpus: int = 1
    mem_bytes: int = 0
    max_processes: int = 0
    """Processes and threads that the job may have at once; 0 is no limit."""
    tmp_dir: str = ""
    """Where the job's TMPDIR is made; "" is /tmp."""
    private_dirs: List[str] = field(default_factory=list)
    """Folders that the job has for itself, where the node can; `shared_dirs`: what stays the node's below them."""
    shared_dirs: List[str] = field(default_factory=list)
    container: Optional[Container] = None
    hooks: Optional[Hooks] = None
    unkillable_s: float = 60.0
    """How long a process may live after KILL before the node is to blame."""
    empty_gpus: bool = False
    """Refuse (to be tried again) if a process that is of no job there holds memory on its GPUs."""
    confine: List[str] = field(default_factory=lambda: ["memory", "cpus", "devices"])
    """What the job is held to; the rest it may use beyond its share."""
    time_limit_s: Optional[float] = None
    grace_s: float = 30.0
    warn_signal: int = 0
    """Sent so long before the time limit; `warn_batch_only`: to the batch shell alone."""
    warn_before_s: float = 0.0
    warn_batch_only: bool = False
    idle_limit_s: float = 0.0
    """Of a terminal's job: it is ended ("idle") when nothing uses it for so long, 0 for never; said so long before."""
    idle_warning_s: float = 0.0
    in_place: bool = False
    """The tree is only for a node that does not see the submit folder."""
    tree: Optional[TreeRef] = None
    workspace: str = ""
    """Name of the checkout folder; the tasks of one array share it."""
    pty: bool = False
    rows: int = 24
    cols: int = 80
    behind: List[int] = field(default_factory=list)
    """[job_id, restarts]: to begin in the place of that launch when it has ended here."""
    behind_s: float = AHEAD_S
    """If it has not begun so long after it came, it is given back (GivenBack)."""
    t: Literal["launch"] = "launch"


@dataclass(frozen=True)
class PutTree:
    """The bytes of a tree's tar.gz follow on `stream`, then StreamEnd. Sent after NeedTree."""

    tree: str
    sha256: str
    size_bytes: int
    stream: int
    t: Literal["put_tree"] = "put_tree"


@dataclass(frozen=True)
class Kill:
    """End a job: TERM to all its processes, KILL after `grace_s`. With `signal` only that signal is sent, once, to all of it,
    to the batch shell, or to the programs that the shell runs.

    With a signal and the cause SUSPENDED or RESUMED the time of its limit stops and goes on as well.
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
    """Launches ([job_id, restarts]) that were handed ahead of time are not to begin any more. Those that have not are told in
    GivenBack; of those that have nothing is said, and nothing changes for them."""

    launches: List[List[int]]
    t: Literal["take_back"] = "take_back"


@dataclass(frozen=True)
class SetLimit:
    """The time limit that a launch has from now on, counted from its start; None is no limit."""

    job_id: int
    restarts: int
    time_limit_s: Optional[float] = None
    t: Literal["set_limit"] = "set_limit"


@dataclass(frozen=True)
class Forget:
    """The end of this launch is durably recorded by the controller; its spool may go."""

    job_id: int
    restarts: int
    t: Literal["forget"] = "forget"


@dataclass(frozen=True)
class ProbePath:
    """Does the folder `path` hold an entry called `name` for that user? Tells whether a submit folder is shared with the node."""

    probe: int
    path: str
    name: str
    uid: int
    t: Literal["probe_path"] = "probe_path"


@dataclass(frozen=True)
class Notice:
    """A line for the people who look at this job: it is added to the job's standard error, or shown on its terminal."""

    job_id: int
    restarts: int
    text: str
    t: Literal["notice"] = "notice"


@dataclass(frozen=True)
class Quit:
    """The agent ends; jobs and terminals go on, and the next agent adopts them."""

    t: Literal["quit"] = "quit"


# ---- both ways


@dataclass(frozen=True)
class StreamAck:
    """So many more bytes of this stream were taken."""

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
    """SHA-256 of the agent's zipapp, in hex."""
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
    """Something about a launch that the people of its job should know; it changes nothing."""

    job_id: int
    restarts: int
    text: str
    t: Literal["remark"] = "remark"


@dataclass(frozen=True)
class LaunchFailed:
    """The job did not start and will not: nothing of it runs."""

    job_id: int
    restarts: int
    message: str
    again: bool = False
    """The node is to blame, not the job: it may be tried again."""
    drain: str = ""
    """Why the node should take no more jobs."""
    check: str = ""
    """The check that fails there (disk): it drains the node until it is well again, and the job goes elsewhere."""
    t: Literal["launch_failed"] = "launch_failed"


@dataclass(frozen=True)
class GivenBack:
    """These launches ([job_id, restarts]) were waiting behind others. They have not begun, and will not."""

    launches: List[List[int]]
    t: Literal["given_back"] = "given_back"


@dataclass(frozen=True)
class StreamOpened:
    """`size_bytes`: the file's size now (logs), or the number of terminal bytes written so far; `offset`: where we begin."""

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
    """The folder's server does not answer."""
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
    """The dataclass that the tag names. Raises WireError for an unknown tag, a missing field or a wrong type."""
    cls = _BY_TAG.get(message.get("t", ""))
    if cls is None:
        raise WireError(f"unknown message {message.get('t')!r}")
    return build(cls, message, str(message["t"]))
