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

A subscription answers `ok` and then pushes results.Delta after changes, at most a few times a second.
Changes that a slow reader has not taken yet are merged. Its deltas get larger but not more numerous, and no
other client waits.

In a tunnel both directions obey the window. An empty data frame ends its direction while the other continues.

Jobs are named as users write them: "12" or "12_3" ("12" of an array means the whole array).

In the docstrings of the messages, "Answer:" introduces the `result` of the `ok` message.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from . import results
from .end_requests import AwaitEnds as AwaitEnds
from .end_requests import AwaitMore as AwaitMore
from .end_requests import Settle as Settle
from .job_queries import Forecast as Forecast
from .job_queries import JobEnvironment as JobEnvironment
from .job_queries import JobInfo as JobInfo
from .job_queries import Jobs as Jobs
from .job_queries import Records as Records
from .job_queries import Steps as Steps
from .job_requests import Cancel as Cancel
from .job_requests import CodeRecorded as CodeRecorded
from .job_requests import Hold as Hold
from .job_requests import JobAnnotate as JobAnnotate
from .job_requests import JobUpdate as JobUpdate
from .job_requests import Pause as Pause
from .job_requests import Release as Release
from .job_requests import Requeue as Requeue
from .job_requests import Rerun as Rerun
from .job_requests import Resume as Resume
from .job_requests import Suspend as Suspend
from .job_requests import Tell as Tell
from .node_requests import Curves as Curves
from .node_requests import NodeAdd as NodeAdd
from .node_requests import NodeCheck as NodeCheck
from .node_requests import NodeDrain as NodeDrain
from .node_requests import NodeRemove as NodeRemove
from .node_requests import NodeResume as NodeResume
from .node_requests import Nodes as Nodes
from .node_requests import NodesAt as NodesAt
from .node_requests import NodeTimeline as NodeTimeline
from .node_requests import ReservationMake as ReservationMake
from .node_requests import ReservationRemove as ReservationRemove
from .process_requests import Command as Command
from .process_requests import FileRead as FileRead
from .process_requests import Run as Run
from .process_requests import Salloc as Salloc
from .process_requests import SallocAttach as SallocAttach
from .process_requests import Session as Session
from .process_requests import Srun as Srun
from .process_requests import SrunAttach as SrunAttach
from .process_requests import StepOrder as StepOrder
from .request_base import Message, RequestMessage, message_kinds
from .site_requests import Amend as Amend
from .site_requests import Audit as Audit
from .site_requests import ConfigInForce as ConfigInForce
from .site_requests import Diagnosis as Diagnosis
from .site_requests import Events as Events
from .site_requests import Licenses as Licenses
from .site_requests import LimitUse as LimitUse
from .site_requests import Partitions as Partitions
from .site_requests import Past as Past
from .site_requests import PastCosts as PastCosts
from .site_requests import PluginOptions as PluginOptions
from .site_requests import Priorities as Priorities
from .site_requests import QosList as QosList
from .site_requests import Recover as Recover
from .site_requests import Reload as Reload
from .site_requests import Reservations as Reservations
from .site_requests import Settings as Settings
from .site_requests import Shares as Shares
from .site_requests import Shutdown as Shutdown
from .site_requests import Standby as Standby
from .site_requests import StandbyRemove as StandbyRemove
from .site_requests import StandbySet as StandbySet
from .site_requests import Takeover as Takeover
from .stream_requests import Ack as Ack
from .stream_requests import Attach as Attach
from .stream_requests import Close as Close
from .stream_requests import End as End
from .stream_requests import Forward as Forward
from .stream_requests import ForwardEnd as ForwardEnd
from .stream_requests import ForwardPage as ForwardPage
from .stream_requests import Forwards as Forwards
from .stream_requests import Log as Log
from .stream_requests import Resize as Resize
from .stream_requests import Subscribe as Subscribe
from .stream_requests import Tunnel as Tunnel
from .submit_requests import DryRun as DryRun
from .submit_requests import HaveTree as HaveTree
from .submit_requests import PutTree as PutTree
from .submit_requests import Submit as Submit

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


class Status(RequestMessage[results.ControllerStatus], frozen=True, kw_only=True, tag="status"):
    """Ask for the controller's status.

    Answer: {"pid", "home", "version", "uptime_s", "user", "jobs": {state: n}, "nodes": n, "log": path,
    "clients": n, "engine": site_rows.EngineRow}
    """


ClientMessage: Any = reduce(or_, message_kinds())
"""The union of all messages that clients may send."""
