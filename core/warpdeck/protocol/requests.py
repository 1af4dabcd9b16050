"""Requests that clients may send, as typed messages.

On the wire they are JSON in the frames of warpdeck_agent.wire.

A connection begins with Hello and its answer Welcome. Each request carries an `id` that the client chooses.
The answer is
    {"t": "ok", "id": id, "result": {...}}    or
    {"t": "error", "id": id, "message": ..., "hint": ..., "code": ..., "exit_code": 1, "details": {...}}
Some requests send {"t": "progress", "id": id, "line": ...} before their answer. A long list of rows is sent
in pages: the first pages as {"t": "rows", "id": id, "part": {...}}, the last one as the result. Requests may
overlap if their ids differ; answers may come in any order. A frame that cannot be decoded is answered with an
error (id 0), and the connection is closed.

Streams (log, attach, tunnel, put_tree) use the request's id as the stream id of their data frames. The
receiver of stream data sends Ack for the bytes that it took. A sender pauses after STREAM_WINDOW_BYTES
unacknowledged bytes. An upload begins when the controller's first Ack has granted its window. A stream ends
with
{"t": "end", "stream": id, "error": "", "code": "", "exit": {"code": 0, "signal": 0} or null}, or with the
client's Close. The code "lost" reports a broken link to the node; the job or command behind the stream keeps
running.

A subscription answers `ok` and then pushes Delta (see messages) after changes, at most a few times a second.
Changes that a slow reader has not taken yet are merged. Its deltas get larger but not more numerous, and no
other client waits.

In a tunnel both directions obey the window. An empty data frame ends its direction while the other continues.

Jobs are named as users write them: "12" or "12_3" ("12" of an array means the whole array).

In the docstrings of the messages, "Answer:" introduces the `result` of the `ok` message.
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
"""Requests that are defined in other modules and exported from here."""

API_VERSION = 1
LOST = "lost"
ENDED = "ended"
"""Error code for an attempt to join the terminal of a job that has ended."""
NODE_PAGE_ROWS = 100
"""Number of nodes in one frame.

The largest rows (long names, many processes) then stay below the frame limit.
"""
MAX_CLIENTS = 4096
MAX_CLIENTS_OF_USER = 256
"""Maximum numbers of connections, overall and per user. A further connection gets an error and is closed."""


class Hello(Message, frozen=True, kw_only=True, tag="hello"):
    version: int
    client: str = ""


class Status(Message, frozen=True, kw_only=True, tag="status"):
    """Ask for the controller's status.

    Answer: {"pid", "home", "version", "uptime_s", "user", "jobs": {state: n}, "nodes": n, "log": path,
    "clients": n}
    """


class Submit(Creating, frozen=True, kw_only=True, tag="submit"):
    """Submit a job. It is answered after the database commit.

    Answer: {"job_id": int, "label": str, "tasks": int, "notes": [str]}
    """

    request: Request
    components: tuple[Request, ...] = ()
    """The second and later components of a heterogeneous job. All components are submitted or none."""


class DryRun(Message, frozen=True, kw_only=True, tag="dry_run"):
    """Ask for the expected outcome of a Submit now.

    Nothing is submitted, and the snapshot need not be uploaded.

    Answer: siterows.ForecastRow
    """

    request: Request
    components: tuple[Request, ...] = ()


class Forecast(Message, frozen=True, kw_only=True, tag="forecast"):
    """Ask when a job is expected to start, and which changes would start it now.

    Answer: siterows.ForecastRow
    """

    job: Reference


class HaveTree(Message, frozen=True, kw_only=True, tag="have_tree"):
    """Ask whether this user's packed tree is in the controller's cache.

    Answer: {"have": bool, "sha256": str, "size_bytes": int}
    """

    tree: Name


class PutTree(Message, frozen=True, kw_only=True, tag="put_tree"):
    """Upload a packed tree (tar.gz) in data frames on stream `id`, followed by {"t": "end", "stream": id}.

    Answer, when the tree is stored: {}
    """

    tree: Name
    sha256: Name
    size_bytes: Size


class Jobs(Message, frozen=True, kw_only=True, tag="jobs"):
    """Ask for jobs, oldest first.

    By default these are the unfinished jobs of all users; `finished` adds finished ones.

    Answer: {"jobs": [JobRow]}
    """

    users: Names = ()
    """User names or numeric uids."""
    states: tuple[Name, ...] = ()
    """State names or squeue's state codes. This filter and `ids` also find finished jobs in memory."""
    ids: References = ()
    names: Names = ()
    names_in_any_case: bool = False
    partitions: Names = ()
    accounts: Names = ()
    qos: Names = ()
    reservations: Names = ()
    licenses: Names = ()
    """Select jobs that request one of these licenses, in any number."""
    nodes: Names = ()
    """Select jobs that run on one of these nodes."""
    finished: bool = False
    limit: Annotated[int, msgspec.Meta(ge=1)] = 10_000
    fields: tuple[Name, ...] = ()
    """Fields to send for each row; () means all.

    A client needs longer to decode 10,000 whole rows than for anything else.
    """


class Steps(Message, frozen=True, kw_only=True, tag="steps"):
    """Ask for the running job steps, ordered by job and step.

    Answer: {"steps": [LiveStep]}
    """

    users: Names = ()
    ids: References = ()
    partitions: Names = ()
    nodes: Names = ()


class JobInfo(Message, frozen=True, kw_only=True, tag="job"):
    """Ask for the details of a job. Answer: JobDetail"""

    job: Reference


class JobEnvironment(Message, frozen=True, kw_only=True, tag="job_environment"):
    """Ask for the environment with which a job was submitted.

    Only its owner gets it, because it may hold secrets.

    Answer: JobVariables
    """

    job: Reference


class Records(Message, frozen=True, kw_only=True, tag="records"):
    """Ask for job records, ordered by id and sent in pages.

    They cover the jobs in memory and, with `ended`, all jobs ever recorded. An empty list filters nothing.
    `since` and `until` bound the time in which a job ran, or was in one of the `states`: see api.history.
    `fields` works as in Jobs. `steps` adds [records.StepRecord]. `scripts` adds the scripts of the caller's
    own jobs. `runs` adds a row for each earlier start of a job, before the job's own row.

    Answer: {"jobs": [JobRow and JobFacts]}
    """

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
    """Read a job's log, beginning at `offset`. A negative offset counts bytes back from the end.

    With `follow` the stream continues with new output until the job ends. The stream's end carries the job's
    exit status.

    Answer: {"offset": int, "size_bytes": int, "path": str, "node": str}, followed by the data
    """

    job: Reference
    channel: Channel = "out"
    offset: Offset = 0
    follow: bool = False
    node: Name = ""


class Attach(Message, frozen=True, kw_only=True, tag="attach"):
    """Join the terminal of an interactive job. The request waits for the job's start and reports progress.

    Close detaches, and the job keeps running. The stream's end carries the exit status if the job ended. With
    `watch` the client only reads; other users may also watch if the site allows it.

    Answer: {"node": str}, followed by bytes in both directions
    """

    job: Reference
    watch: bool = False
    rows: PtySide = 24
    cols: PtySide = 80
    offset: Size = 0


class Tunnel(Message, frozen=True, kw_only=True, tag="tunnel"):
    """Open a byte stream to a job's node. The request waits for the job's start and reports progress.

    The stream leads to a port on the node's loopback. Without a port it leads to `argv`, started inside the
    job as the job's user. It ends with the job.

    Answer: {"node": str}, followed by bytes in both directions
    """

    job: Reference
    node: Name = ""
    """Node of a multi-node job; "" means its first node."""
    port: Port | None = None
    argv: Annotated[tuple[Word, ...], msgspec.Meta(max_length=MAX_WORDS)] = ()
    forward: Size = 0
    """Number of the caller's own Forward to which this connection belongs."""


class Forward(Message, frozen=True, kw_only=True, tag="forward"):
    """Register that the client forwards its own loopback's `local_port` to the job's `port`.

    The user's other clients can then list it. The stream ends with the job or after a ForwardEnd request.

    Answer: {"number": int, "node": str}
    """

    job: Reference
    node: Name = ""
    port: Port
    local_port: Port
    host: Name = ""
    """Host name of the client's machine."""
    purpose: Name = ""
    """Program that listens there, such as "jupyter"; "" if unknown."""
    page: Page = ""
    """Part of its URL after the host, with its token. Only the user who owns the forward can read it."""


class Forwards(Message, frozen=True, kw_only=True, tag="forwards"):
    """Ask for the caller's own forwards. An admin gets the forwards of all users.

    Answer: {"forwards": [rows.ForwardRow]}
    """


class ForwardPage(Message, frozen=True, kw_only=True, tag="forward_page"):
    """Ask for the part of a URL after the host, with its token, of one of the caller's own forwards.

    Answer: {"page": str}
    """

    number: Size


class ForwardEnd(Message, frozen=True, kw_only=True, tag="forward_end"):
    """End a forward of this user, whichever client keeps it. Answer: {}"""

    number: Size


class Resize(Message, frozen=True, kw_only=True, tag="resize"):
    """Set the size of a stream's terminal. It has no answer."""

    stream: Number
    rows: PtySide
    cols: PtySide


class Ack(Message, frozen=True, kw_only=True, tag="ack"):
    """Acknowledge bytes of a stream. It has no answer."""

    stream: Number
    size: Size


class Close(Message, frozen=True, kw_only=True, tag="close"):
    """End a stream or subscription from the client's side. It has no answer."""

    stream: Number


class End(Message, frozen=True, kw_only=True, tag="end"):
    """Mark the end of an upload. It has no answer of its own."""

    stream: Number


class Subscribe(Message, frozen=True, kw_only=True, tag="subscribe"):
    """Subscribe to changes of the `topics` "jobs" and "nodes".

    Rows of finished jobs are included if they ended within the last `finished_s` seconds.

    Answer: {}, followed by Delta messages
    """

    topics: tuple[str, ...] = ("jobs", "nodes")
    user: str | None = None
    finished_s: float = 3600.0


class Reload(Message, frozen=True, kw_only=True, tag="reload"):
    """Put config.toml into force. Only the controller's own user and root may ask.

    An error with the code "config" changes nothing. Its details["problems"] lists all problems, one per line.

    Answer: {"changes": [str], "warnings": [str]}
    """


class ConfigInForce(Message, frozen=True, kw_only=True, tag="config"):
    """Ask for the configuration in force as TOML, and the line of the file on which each key stood.

    Only the controller's own user and root may ask.

    Answer: {"file": str, "text": str, "lines": [[[str], int]]}
    """


class Shutdown(Message, frozen=True, kw_only=True, tag="shutdown"):
    """Stop the controller; agents and jobs keep running.

    Only the controller's own user and root may ask. Answer: {}
    """


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
