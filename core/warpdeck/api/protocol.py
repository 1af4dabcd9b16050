"""What clients may ask, as typed messages; on the wire JSON in the frames of warpdeck_agent.wire.

A connection begins with Hello and its answer Welcome. Each request carries an `id` of the client's choice; the answer is
    {"t": "ok", "id": id, "result": {...}}    or
    {"t": "error", "id": id, "message": ..., "hint": ..., "code": ..., "exit_code": 1, "details": {...}}
and some requests send {"t": "progress", "id": id, "line": ...} before it. Requests may overlap; answers may come in any
order. A frame that does not decode is answered with an error (id 0) and the connection is closed.

Streams (log, attach, put_tree) use the request's id as the stream id of their data frames. The receiver of stream data
sends Ack for what it took; a sender stops after STREAM_WINDOW_BYTES unacknowledged. An upload begins when the controller's
first Ack has granted its window. A stream ends with
{"t": "end", "stream": id, "error": "", "exit": {"code": 0, "signal": 0} or null}, or by the client's Close.

A subscription answers `ok` and then pushes Delta (below) whenever something changed, at most a few times a second. What a
slow reader has not taken yet is merged, so its deltas get larger, never more, and nobody else waits.

Jobs are named as users write them: "12" or "12_3" ("12" of an array means the whole array).
"""

from __future__ import annotations

from typing import Any

import msgspec

from warpdeck.model import Request

API_VERSION = 1
MAX_CLIENTS = 256
"""Connections at once; one more is told so and closed."""
MAX_REQUEST_BYTES = 4 * 1024 * 1024
"""Largest message from a client: a script and an environment of a few MB at the most."""


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", forbid_unknown_fields=False):
    """Base of all requests."""

    id: int = 0


class Hello(Message, frozen=True, kw_only=True, tag="hello"):
    version: int
    client: str = ""


class Status(Message, frozen=True, kw_only=True, tag="status"):
    """-> {"pid", "home", "version", "uptime_s", "user", "jobs": {state: n}, "nodes": n, "log": path, "clients": n}"""


class Submit(Message, frozen=True, kw_only=True, tag="submit"):
    """-> {"job_id": int, "label": str, "tasks": int, "notes": [str]}. Answered after the commit."""

    request: Request


class HaveTree(Message, frozen=True, kw_only=True, tag="have_tree"):
    """-> {"have": bool, "sha256": str, "size_bytes": int}: is this user's packed tree in the controller's cache?"""

    tree: str


class PutTree(Message, frozen=True, kw_only=True, tag="put_tree"):
    """Upload a packed tree (tar.gz): data frames on stream `id`, then {"t": "end", "stream": id}. -> {} when it is stored."""

    tree: str
    sha256: str
    size_bytes: int


class Jobs(Message, frozen=True, kw_only=True, tag="jobs"):
    """-> {"jobs": [JobRow]}, oldest first. Default: unfinished jobs of everybody; `finished` adds ended ones."""

    user: str | None = None
    states: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    finished: bool = False
    limit: int = 10_000


class JobInfo(Message, frozen=True, kw_only=True, tag="job"):
    """-> JobDetail"""

    job: str


class Cancel(Message, frozen=True, kw_only=True, tag="cancel"):
    """-> {"jobs": [label], "errors": [str]}. `signal` (a name such as USR1) is sent instead of ending the job."""

    jobs: tuple[str, ...]
    signal: str = ""


class Hold(Message, frozen=True, kw_only=True, tag="hold"):
    """-> as Cancel"""

    jobs: tuple[str, ...]


class Release(Message, frozen=True, kw_only=True, tag="release"):
    """-> as Cancel"""

    jobs: tuple[str, ...]


class Requeue(Message, frozen=True, kw_only=True, tag="requeue"):
    """-> as Cancel. A running job is ended first; a finished one goes back to PENDING."""

    jobs: tuple[str, ...]


class Nodes(Message, frozen=True, kw_only=True, tag="nodes"):
    """-> {"nodes": [NodeRow]}; `name` narrows to one, with an error if there is none."""

    name: str = ""


class NodeAdd(Message, frozen=True, kw_only=True, tag="node_add"):
    """-> NodeRow, after progress lines. Error code "host_key": details {"fingerprint", "key_type", "host"}; ask the user and
    send again with `accept_host_key` set to that fingerprint. `target`: [USER@]HOST[:PORT], or "local"."""

    target: str
    name: str = ""
    accept_host_key: str = ""


class NodeDrain(Message, frozen=True, kw_only=True, tag="node_drain"):
    name: str
    reason: str


class NodeResume(Message, frozen=True, kw_only=True, tag="node_resume"):
    name: str


class NodeRemove(Message, frozen=True, kw_only=True, tag="node_rm"):
    """Refused while jobs run there, unless `force`: they end as NODE_FAIL."""

    name: str
    force: bool = False


class Log(Message, frozen=True, kw_only=True, tag="log"):
    """-> {"offset": int, "size_bytes": int, "path": str, "node": str}, then data from `offset` (negative: that many bytes
    before the end), then, with `follow`, what is written until the job ends; the stream end carries the job's exit."""

    job: str
    channel: str = "out"
    offset: int = 0
    follow: bool = False
    node: str = ""


class Attach(Message, frozen=True, kw_only=True, tag="attach"):
    """To the terminal of an interactive job; waits for its start, telling progress. -> {"node": str}, then bytes both ways.

    Close detaches; the job goes on. The stream end carries the exit when the job ended."""

    job: str
    rows: int = 24
    cols: int = 80
    offset: int = 0


class Resize(Message, frozen=True, kw_only=True, tag="resize"):
    """No answer."""

    stream: int
    rows: int
    cols: int


class Ack(Message, frozen=True, kw_only=True, tag="ack"):
    """No answer."""

    stream: int
    size: int


class Close(Message, frozen=True, kw_only=True, tag="close"):
    """End of a stream or subscription from the client's side. No answer."""

    stream: int


class End(Message, frozen=True, kw_only=True, tag="end"):
    """End of an upload. No answer of its own."""

    stream: int


class Subscribe(Message, frozen=True, kw_only=True, tag="subscribe"):
    """-> {} and then Delta messages. `topics`: jobs, nodes. `finished`: also jobs that ended in the last so many seconds."""

    topics: tuple[str, ...] = ("jobs", "nodes")
    user: str | None = None
    finished_s: float = 3600.0


class Shutdown(Message, frozen=True, kw_only=True, tag="shutdown"):
    """-> {}; the controller ends, agents and jobs go on. Only for the controller's own user and root."""


class Delta(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", tag="delta"):
    """Pushed to a subscriber: rows that are new or changed, and what is gone. The first ones, up to the one with
    `ready`, carry everything there is. `jobs` are rows.JobRow, `nodes` rows.NodeRow, as JSON objects."""

    id: int
    jobs: list[Any] = []
    gone_jobs: list[int] = []
    nodes: list[Any] = []
    gone_nodes: list[str] = []
    ready: bool = False


ClientMessage = (
    Hello
    | Status
    | Submit
    | HaveTree
    | PutTree
    | Jobs
    | JobInfo
    | Cancel
    | Hold
    | Release
    | Requeue
    | Nodes
    | NodeAdd
    | NodeDrain
    | NodeResume
    | NodeRemove
    | Log
    | Attach
    | Resize
    | Ack
    | Close
    | End
    | Subscribe
    | Shutdown
)
