"""Requests about nodes and about reservations of nodes; part of the protocol."""

from __future__ import annotations

from typing import Annotated

import msgspec

from warpdeck.model import Reservation

from . import job_rows, results
from .node_rows import NodeRow
from .request_base import Creating, GpuIndices, Name, Reference, RequestMessage


class Nodes(RequestMessage[results.NodeList], frozen=True, kw_only=True, tag="nodes"):
    """Ask for the nodes. `name` selects one node; an unknown name is an error.

    Answer: {"nodes": [NodeRow]}, or with `facts` {"nodes": [NodeFacts]}
    """

    name: str = ""
    facts: bool = False


class NodesAt(RequestMessage[results.PastNodes], frozen=True, kw_only=True, tag="nodes_at"):
    """Ask for the state of the nodes at the time `at` (Unix seconds). `name` selects one node.

    Answer: {"nodes": [PastNodeRow]}
    """

    at: Annotated[float, msgspec.Meta(ge=0, le=2**40)]
    name: Name = ""


class NodeTimeline(RequestMessage[results.Timeline], frozen=True, kw_only=True, tag="timeline"):
    """Ask for the events of nodes, and for the use of all GPUs, in a range of at most seven days (Unix seconds).

    The use is divided into `steps` equal parts of the range.

    Answer: results.Timeline
    """

    since: Annotated[float, msgspec.Meta(ge=0, le=2**40)]
    until: Annotated[float, msgspec.Meta(ge=0, le=2**40)]
    steps: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100


class NodeAdd(Creating[NodeRow], frozen=True, kw_only=True, tag="node_add"):
    """Add the node `target`: [USER@]HOST[:PORT], or "local". Progress lines come before the answer.

    The error code "host_key" has the details {"fingerprint", "key_type", "host"}. Ask the user to confirm the
    key, then send the request again with `accept_host_key` set to that fingerprint.

    Answer: NodeRow
    """

    target: Reference
    name: Name = ""
    accept_host_key: Name = ""


class Curves(RequestMessage[job_rows.UsageCurves], frozen=True, kw_only=True, tag="curves"):
    """Ask for resource usage over time.

    For a `job`, or a step of it (12.0, 12.batch), the answer has one complete curve per node and the total
    usage. While it runs, `parts` has the usage on each node. For a `node` the answer has one curve for the
    node and one per GPU, in steps of `step_s` seconds: 1 (the last ten minutes), 10 (two hours) or 60 (a
    day).

    Answer: {"curves": [rows.CurveRow], "used": rows.UsageRow | None,
        "parts": [{"node", "cpu_seconds", "peak_mem_bytes"}], "errors": [str]}
    """

    job: Reference = ""
    node: Name = ""
    step_s: Annotated[float, msgspec.Meta(ge=1, le=60)] = 1.0


class NodeDrain(RequestMessage[NodeRow], frozen=True, kw_only=True, tag="node_drain"):
    """Drain a node, or with `gpus` only these of its GPUs."""

    name: Name
    reason: Reference
    gpus: GpuIndices = ()


class NodeResume(RequestMessage[NodeRow], frozen=True, kw_only=True, tag="node_resume"):
    """Resume a node with all of its GPUs, or with `gpus` only these of its GPUs."""

    name: Name
    gpus: GpuIndices = ()


class NodeCheck(RequestMessage[results.NodeHealth], frozen=True, kw_only=True, tag="node_check"):
    """Ask for the health of one node, or with `name` "" of all nodes.

    For admins all checks run again. Other users get the last results.

    Answer: {"nodes": [NodeHealthRow]}
    """

    name: Name = ""


class ReservationMake(Creating[results.Result], frozen=True, kw_only=True, tag="reservation_make"):
    """Make a reservation of nodes; only admins may ask.

    With `instead` it replaces the one with the same name. Answer: {}
    """

    reservation: Reservation
    instead: bool = False


class ReservationRemove(RequestMessage[results.Result], frozen=True, kw_only=True, tag="reservation_rm"):
    """Remove a reservation; only admins may ask. Answer: {}"""

    name: Name


class NodeRemove(RequestMessage[results.Result], frozen=True, kw_only=True, tag="node_rm"):
    """Remove a node.

    This is refused while jobs run there, unless `force` is set: they then end as NODE_FAIL.
    """

    name: Name
    force: bool = False
