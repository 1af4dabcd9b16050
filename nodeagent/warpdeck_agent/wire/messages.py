"""The messages between the controller and an agent: frozen dataclasses, each with its own tag `t`.

The agent decodes them with `decode`, which uses plain json and no packages. The controller may do the same,
or validate the same classes with msgspec. Unknown fields are ignored and missing optional fields take their
defaults, so that neighboring versions understand each other. PROTOCOL_VERSION changes only when that is no
longer enough.

Handshake: the controller sends Hello. The agent answers with Welcome, which holds its inventory and every job
that it still has, or with Refused if it obeys another start of the controller (see `epochs`). A Launch is
idempotent by (job_id, restarts): if it arrives again, the agent reports the state of the existing launch. Every
exited job is repeated in each Welcome until the controller sends Forget.

Streams (see `frames`): OpenLog, OpenPty, OpenTunnel and PutTree choose an id. The bytes follow as data
frames, and each side closes with StreamEnd. The receiver acknowledges data with StreamAck, and the sender
pauses after STREAM_WINDOW_BYTES without an acknowledgment. Keys typed into a terminal are exempt from this
limit. In a tunnel, an empty data frame ends its direction, and the other direction continues.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Literal, Union, get_args

from . import steps
from .container import Container as Container
from .container import Mount as Mount
from .epochs import ControllerStart as ControllerStart
from .epochs import Refused as Refused
from .fields import build
from .fields import encode as encode
from .frames import WireError
from .launches import AHEAD_S as AHEAD_S
from .launches import RESUMED as RESUMED
from .launches import SUSPENDED as SUSPENDED
from .launches import Forget as Forget
from .launches import GivenBack as GivenBack
from .launches import Hooks as Hooks
from .launches import JobReport as JobReport
from .launches import Key as Key
from .launches import Kill as Kill
from .launches import Launch as Launch
from .launches import LaunchFailed as LaunchFailed
from .launches import Notice as Notice
from .launches import Remark as Remark
from .launches import SetLimit as SetLimit
from .launches import TakeBack as TakeBack
from .launches import TreeRef as TreeRef
from .opening import OpenLog as OpenLog
from .opening import OpenPty as OpenPty
from .opening import OpenTunnel as OpenTunnel
from .opening import ResizePty as ResizePty
from .past_launches import AskLaunches as AskLaunches
from .past_launches import KnownLaunch as KnownLaunch
from .past_launches import KnownLaunches as KnownLaunches
from .progress import AskEvidence as AskEvidence
from .progress import Evidence as Evidence
from .progress import Frame as Frame
from .progress import RankEvidence as RankEvidence
from .progress import Stall as Stall
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
from .watch import IdleGpus as IdleGpus
from .watch import IdleSession as IdleSession
from .watch import Inventory as Inventory
from .watch import JobSample as JobSample
from .watch import Moment as Moment
from .watch import OwnUse as OwnUse
from .watch import Sample as Sample
from .watch import SampleEvery as SampleEvery
from .watch import Strangers as Strangers

PROTOCOL_VERSION = 1


# ---- controller to agent


@dataclass(frozen=True)
class Hello:
    """The first message of a controller."""

    controller_id: str
    version: int = PROTOCOL_VERSION
    sample_interval_s: float = 1.0
    start: ControllerStart = field(default_factory=ControllerStart)
    wants_past: bool = False
    """Whether Welcome shall list the forgotten launches."""
    t: Literal["hello"] = "hello"


@dataclass(frozen=True)
class PutTree:
    """Upload of a tree's tar.gz, sent after NeedTree. The bytes follow on `stream`, then StreamEnd."""

    tree: str
    sha256: str
    size_bytes: int
    stream: int
    t: Literal["put_tree"] = "put_tree"


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
class Quit:
    """End the agent. Jobs and terminals continue, and the next agent adopts them."""

    t: Literal["quit"] = "quit"


@dataclass(frozen=True)
class ControllerStops:
    """The controller was stopped. An agent without jobs ends after a while, unless a controller connects."""

    t: Literal["controller_stops"] = "controller_stops"


# ---- both directions


@dataclass(frozen=True)
class StreamAck:
    """Acknowledge `size` more bytes of this stream."""

    stream: int
    size: int
    t: Literal["stream_ack"] = "stream_ack"


@dataclass(frozen=True)
class StreamEnd:
    """A stream has ended, with an error unless `error` is ""."""

    stream: int
    error: str = ""
    code: str = ""
    """FELL_BEHIND or NOT_KEPT of `opening` for these errors; "" for any other one."""
    t: Literal["stream_end"] = "stream_end"


# ---- agent to controller


@dataclass(frozen=True)
class Welcome:
    """The answer to Hello: the node's inventory, and all launches and steps that the agent still has."""

    build: str
    """SHA-256 of the agent's zipapp, in hexadecimal."""
    inventory: Inventory
    jobs: List[JobReport] = field(default_factory=list)
    steps: List[StepReport] = field(default_factory=list)
    starting: List[List[int]] = field(default_factory=list)
    """[job id, restarts] of the launches that are being started and have no report yet."""
    past: str = ""
    """The forgotten launches, if the controller wants them; see `past_launches`."""
    version: int = PROTOCOL_VERSION
    pid: int = 0
    user: str = ""
    t: Literal["welcome"] = "welcome"


@dataclass(frozen=True)
class NeedTree:
    """Ask for the code of a launch. The answer is PutTree."""

    job_id: int
    restarts: int
    tree: str
    t: Literal["need_tree"] = "need_tree"


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
    """The answer to ProbePath."""

    probe: int
    found: bool
    hangs: bool = False
    """Whether the file server of the folder does not answer."""
    t: Literal["path_probed"] = "path_probed"


_StepRequests = Union[
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
    AskEvidence,
    AskLaunches,
    SampleEvery,
    Notice,
    Quit,
    ControllerStops,
    StreamAck,
    StreamEnd,
    _StepRequests,
]
_StepReports = Union[steps.StepReport, steps.StepFence, steps.PortReserved, steps.CallOpened]
AgentMessage = Union[
    Welcome,
    Refused,
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
    Evidence,
    KnownLaunches,
    StreamAck,
    StreamEnd,
    _StepReports,
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
