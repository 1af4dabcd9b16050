"""What clients may ask, as typed messages; on the wire JSON in the frames of warpdeck_agent.wire.

A connection begins with Hello and its answer Welcome. Each request carries an `id` of the client's choice; the answer is
    {"t": "ok", "id": id, "result": {...}}    or
    {"t": "error", "id": id, "message": ..., "hint": ..., "code": ..., "exit_code": 1, "details": {...}}
and some requests send {"t": "progress", "id": id, "line": ...} before it. A long list of rows comes in pages: the first
ones as {"t": "rows", "id": id, "part": {...}}, the last as the result. Requests may overlap, each with an id of its own;
answers may come in any order. A frame that does not decode is answered with an error (id 0) and the connection is closed.

Streams (log, attach, tunnel, put_tree) use the request's id as the stream id of their data frames. The receiver of stream data
sends Ack for what it took; a sender stops after STREAM_WINDOW_BYTES unacknowledged. An upload begins when the controller's
first Ack has granted its window. A stream ends with
{"t": "end", "stream": id, "error": "", "code": "", "exit": {"code": 0, "signal": 0} or null}, or by the client's Close.
The code "lost" tells of a broken link to the node, where what the stream led to goes on.

A subscription answers `ok` and then pushes Delta (see messages) whenever something changed, at most a few times a second. What a
slow reader has not taken yet is merged, so its deltas get larger, never more, and nobody else waits.

In a tunnel both directions keep to the window, and an empty data frame ends its direction while the other goes on.

Jobs are named as users write them: "12" or "12_3" ("12" of an array means the whole array).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from warpdeck.model import PtySide, Request

from .end_requests import AwaitEnds, AwaitMore, Settle
from .job_requests import (
    Cancel,
    CodeRecorded,
    Hold,
    JobAnnotate,
    JobUpdate,
    Release,
    Requeue,
    Rerun,
    Resume,
    Suspend,
    Tell,
)
from .node_requests import (
    Curves,
    NodeAdd,
    NodeCheck,
    NodeDrain,
    NodeRemove,
    NodeResume,
    Nodes,
    NodesAt,
    ReservationMake,
    ReservationRemove,
)
from .process_requests import (
    Command,
    FileRead,
    Run,
    Salloc,
    SallocAttach,
    Session,
    Srun,
    SrunAttach,
    StepOrder,
)
from .request_base import (
    MAX_WORDS,
    Channel,
    Creating,
    Message,
    Name,
    Names,
    Number,
    Offset,
    Page,
    Port,
    Reference,
    References,
    Size,
    Word,
)
from .site_requests import (
    Amend,
    Diagnosis,
    Events,
    Licenses,
    LimitUse,
    Partitions,
    Past,
    PastCosts,
    PluginOptions,
    Priorities,
    QosList,
    Reservations,
    Settings,
    Shares,
)

__all__ = [
    "Amend",
    "AwaitEnds",
    "AwaitMore",
    "Cancel",
    "CodeRecorded",
    "Command",
    "Curves",
    "Diagnosis",
    "Events",
    "FileRead",
    "Hold",
    "JobAnnotate",
    "JobUpdate",
    "Licenses",
    "LimitUse",
    "NodeAdd",
    "NodeCheck",
    "NodeDrain",
    "NodeRemove",
    "NodeResume",
    "Nodes",
    "NodesAt",
    "Partitions",
    "Past",
    "PastCosts",
    "PluginOptions",
    "Priorities",
    "QosList",
    "Release",
    "Requeue",
    "Rerun",
    "ReservationMake",
    "ReservationRemove",
    "Reservations",
    "Resume",
    "Run",
    "Salloc",
    "SallocAttach",
    "Session",
    "Settings",
    "Settle",
    "Shares",
    "Srun",
    "SrunAttach",
    "StepOrder",
    "Suspend",
    "Tell",
]
"""Beside what is defined here."""

API_VERSION = 1
LOST = "lost"
ENDED = "ended"
"""The code of the refusal to join a terminal whose job has ended."""
NODE_PAGE_ROWS = 100
"""Nodes in one frame, so that the largest rows (long names, many processes) stay below the frame's limit."""
MAX_CLIENTS = 4096
MAX_CLIENTS_OF_USER = 256
"""Connections at once, of all and of one user; one more is told so and closed."""


class Hello(Message, frozen=True, kw_only=True, tag="hello"):
    version: int
    client: str = ""


class Status(Message, frozen=True, kw_only=True, tag="status"):
    """-> {"pid", "home", "version", "uptime_s", "user", "jobs": {state: n}, "nodes": n, "log": path, "clients": n}"""


class Submit(Creating, frozen=True, kw_only=True, tag="submit"):
    """-> {"job_id": int, "label": str, "tasks": int, "notes": [str]}. Answered after the commit."""

    request: Request
    components: tuple[Request, ...] = ()
    """Of a heterogeneous job: those after the first. All are submitted or none."""


class DryRun(Message, frozen=True, kw_only=True, tag="dry_run"):
    """-> siterows.ForecastRow: what would become of a Submit now. Nothing is submitted; a snapshot need not be there."""

    request: Request
    components: tuple[Request, ...] = ()


class Forecast(Message, frozen=True, kw_only=True, tag="forecast"):
    """-> siterows.ForecastRow: when a job starts, and what would start it now."""

    job: Reference


class HaveTree(Message, frozen=True, kw_only=True, tag="have_tree"):
    """-> {"have": bool, "sha256": str, "size_bytes": int}: is this user's packed tree in the controller's cache?"""

    tree: Name


class PutTree(Message, frozen=True, kw_only=True, tag="put_tree"):
    """Upload a packed tree (tar.gz): data frames on stream `id`, then {"t": "end", "stream": id}. -> {} when it is stored."""

    tree: Name
    sha256: Name
    size_bytes: Size


class Jobs(Message, frozen=True, kw_only=True, tag="jobs"):
    """-> {"jobs": [JobRow]}, oldest first. Default: unfinished jobs of everybody; `finished` adds ended ones."""

    users: Names = ()
    """Names or numbers."""
    states: tuple[Name, ...] = ()
    """Names or squeue's codes; they and `ids` find ended jobs in memory too."""
    ids: References = ()
    names: Names = ()
    names_in_any_case: bool = False
    partitions: Names = ()
    accounts: Names = ()
    qos: Names = ()
    reservations: Names = ()
    licenses: Names = ()
    """Those that ask for one of them, however many."""
    nodes: Names = ()
    """Those that run on one of these."""
    finished: bool = False
    limit: Annotated[int, msgspec.Meta(ge=1)] = 10_000
    fields: tuple[Name, ...] = ()
    """Only these of each row; () is all. Ten thousand whole rows take a client longer to decode than all else it does."""


class Steps(Message, frozen=True, kw_only=True, tag="steps"):
    """-> {"steps": [LiveStep]}: what runs now, by job and step."""

    users: Names = ()
    ids: References = ()
    partitions: Names = ()
    nodes: Names = ()


class JobInfo(Message, frozen=True, kw_only=True, tag="job"):
    """-> JobDetail"""

    job: Reference


class JobEnvironment(Message, frozen=True, kw_only=True, tag="job_environment"):
    """-> JobVariables: what its own user submitted it with. To nobody else: it may hold secrets."""

    job: Reference


class Records(Message, frozen=True, kw_only=True, tag="records"):
    """-> {"jobs": [JobRow and JobFacts]} by id, in pages: the jobs in memory and, with `ended`, all that ever were.

    Empty lists narrow nothing. `since` and `until` are the window in which a job ran, or was in one of the `states`: see
    api.history. `fields` as for Jobs; `steps` adds [records.StepRecord], `scripts` the scripts of one's own jobs, `runs` a row
    before a job's own for each earlier start of it."""

    ids: References = ()
    states: Names = ()
    users: Names = ()
    names: Names = ()
    names_in_any_case: bool = False
    accounts: Names = ()
    qos: Names = ()
    partitions: Names = ()
    reservations: Names = ()
    licenses: Names = ()
    nodes: References = ()
    since: float = 0.0
    until: float | None = None
    ended: bool = False
    fields: tuple[Name, ...] = ()
    steps: bool = False
    scripts: bool = False
    runs: bool = False


class Log(Message, frozen=True, kw_only=True, tag="log"):
    """-> {"offset": int, "size_bytes": int, "path": str, "node": str}, then data from `offset` (negative: that many bytes
    before the end), then, with `follow`, what is written until the job ends; the stream end carries the job's exit."""

    job: Reference
    channel: Channel = "out"
    offset: Offset = 0
    follow: bool = False
    node: Name = ""


class Attach(Message, frozen=True, kw_only=True, tag="attach"):
    """To the terminal of an interactive job; waits for its start, telling progress. -> {"node": str}, then bytes both ways.

    Close detaches; the job goes on. The stream end carries the exit when the job ended. Who watches reads only: so may others
    where the site allows it."""

    job: Reference
    watch: bool = False
    rows: PtySide = 24
    cols: PtySide = 80
    offset: Size = 0


class Tunnel(Message, frozen=True, kw_only=True, tag="tunnel"):
    """Bytes both ways to a port of the loopback of the job's node, or, without a port, to `argv` started inside the job as its
    user; waits for the job's start, telling progress. -> {"node": str}, then bytes both ways. Ends with the job."""

    job: Reference
    node: Name = ""
    """Of a job on several nodes: which; "" is the first."""
    port: Port | None = None
    argv: Annotated[tuple[Word, ...], msgspec.Meta(max_length=MAX_WORDS)] = ()
    forward: Size = 0
    """The number of the caller's own Forward that this connection counts for."""


class Forward(Message, frozen=True, kw_only=True, tag="forward"):
    """Says that the client forwards its own loopback's `local_port` to the job's `port`, so that others of the user can see it.
    -> {"number": int, "node": str}; the stream ends with the job, or when somebody asked ForwardEnd."""

    job: Reference
    node: Name = ""
    port: Port
    local_port: Port
    host: Name = ""
    """The machine of the client."""
    purpose: Name = ""
    """What listens there: "jupyter", "" is not known."""
    page: Page = ""
    """What of its URL follows the host, with its token: for its own user alone."""


class Forwards(Message, frozen=True, kw_only=True, tag="forwards"):
    """-> {"forwards": [rows.ForwardRow]}: the caller's own, for an admin everybody's."""


class ForwardPage(Message, frozen=True, kw_only=True, tag="forward_page"):
    """-> {"page": str}: what of the URL of one of the caller's own forwards follows the host, with its token."""

    number: Size


class ForwardEnd(Message, frozen=True, kw_only=True, tag="forward_end"):
    """Ends a forward, whichever client of the user's keeps it. -> {}"""

    number: Size


class Resize(Message, frozen=True, kw_only=True, tag="resize"):
    """No answer."""

    stream: Number
    rows: PtySide
    cols: PtySide


class Ack(Message, frozen=True, kw_only=True, tag="ack"):
    """No answer."""

    stream: Number
    size: Size


class Close(Message, frozen=True, kw_only=True, tag="close"):
    """End of a stream or subscription from the client's side. No answer."""

    stream: Number


class End(Message, frozen=True, kw_only=True, tag="end"):
    """End of an upload. No answer of its own."""

    stream: Number


class Subscribe(Message, frozen=True, kw_only=True, tag="subscribe"):
    """-> {} and then Delta messages. `topics`: jobs, nodes. `finished`: also jobs that ended in the last so many seconds."""

    topics: tuple[str, ...] = ("jobs", "nodes")
    user: str | None = None
    finished_s: float = 3600.0


class Reload(Message, frozen=True, kw_only=True, tag="reload"):
    """-> {"changes": [str], "warnings": [str]}: config.toml is in force. An error of code "config" changes nothing and has all
    problems in details["problems"], a line each. Only for the controller's own user and root."""


class ConfigInForce(Message, frozen=True, kw_only=True, tag="config"):
    """-> {"file": str, "text": str, "lines": [[[str], int]]}: what holds now as TOML, and where each key of it stood in the
    file. Only for the controller's own user and root."""


class Shutdown(Message, frozen=True, kw_only=True, tag="shutdown"):
    """-> {}; the controller ends, agents and jobs go on. Only for the controller's own user and root."""


ClientMessage = (
    Hello
    | Status
    | Submit
    | DryRun
    | Forecast
    | HaveTree
    | PutTree
    | Jobs
    | Steps
    | JobInfo
    | Settle
    | JobEnvironment
    | Records
    | Past
    | PastCosts
    | Events
    | Priorities
    | Shares
    | LimitUse
    | Diagnosis
    | Partitions
    | Reservations
    | QosList
    | PluginOptions
    | Cancel
    | Hold
    | Release
    | Requeue
    | Rerun
    | Suspend
    | Resume
    | JobAnnotate
    | JobUpdate
    | CodeRecorded
    | Tell
    | Licenses
    | Settings
    | Nodes
    | NodesAt
    | NodeAdd
    | NodeDrain
    | NodeResume
    | NodeCheck
    | Curves
    | NodeRemove
    | ReservationMake
    | ReservationRemove
    | Log
    | Attach
    | Tunnel
    | Forward
    | Forwards
    | ForwardPage
    | ForwardEnd
    | Resize
    | Ack
    | Close
    | End
    | Run
    | Srun
    | Session
    | SrunAttach
    | Salloc
    | SallocAttach
    | StepOrder
    | Command
    | FileRead
    | Subscribe
    | AwaitEnds
    | AwaitMore
    | Reload
    | Amend
    | ConfigInForce
    | Shutdown
)
