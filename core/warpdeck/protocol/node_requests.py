"""What clients ask of nodes and of reservations of them; a part of protocol."""

from __future__ import annotations

from typing import Annotated

import msgspec

from warpdeck.model import Reservation

from .request_base import Creating, GpuIndices, Message, Name, Reference


class Nodes(Message, frozen=True, kw_only=True, tag="nodes"):
    """-> {"nodes": [NodeRow]}, with `facts` [NodeFacts]; `name` narrows to one, with an error if there is none."""

    name: str = ""
    facts: bool = False


class NodesAt(Message, frozen=True, kw_only=True, tag="nodes_at"):
    """What the nodes were like at that moment, by unix time. -> {"nodes": [PastNodeRow]}; `name` narrows to one."""

    at: Annotated[float, msgspec.Meta(ge=0, le=2**40)]
    name: Name = ""


class NodeAdd(Creating, frozen=True, kw_only=True, tag="node_add"):
    """-> NodeRow, after progress lines. Error code "host_key": details {"fingerprint", "key_type", "host"}; ask the user and
    send again with `accept_host_key` set to that fingerprint. `target`: [USER@]HOST[:PORT], or "local"."""

    target: Reference
    name: Name = ""
    accept_host_key: Name = ""


class Curves(Message, frozen=True, kw_only=True, tag="curves"):
    """-> {"curves": [rows.CurveRow], "used": rows.UsageRow | None, "parts": [{"node", "cpu_seconds", "peak_mem_bytes"}],
    "errors": [str]}: what was measured over time.

    Of a job (`job`), or a step of it (12.0, 12.batch): one curve for each of its nodes, whole, what it has used, and while it
    runs how much of that on each node. Of a node
    (`node`): one for the node and one for each GPU, in steps of `step_s`: 1 (the last ten minutes), 10 (two hours), 60 (a
    day).
    """

    job: Reference = ""
    node: Name = ""
    step_s: Annotated[float, msgspec.Meta(ge=1, le=60)] = 1.0


class NodeDrain(Message, frozen=True, kw_only=True, tag="node_drain"):
    """With `gpus` only these of its GPUs."""

    name: Name
    reason: Reference
    gpus: GpuIndices = ()


class NodeResume(Message, frozen=True, kw_only=True, tag="node_resume"):
    """With `gpus` only these of its GPUs; else the node with all of them."""

    name: Name
    gpus: GpuIndices = ()


class NodeCheck(Message, frozen=True, kw_only=True, tag="node_check"):
    """-> {"nodes": [NodeHealthRow]}: the health of one node or (name "") of all. For admins everything is looked at anew, for
    others it is what was last found."""

    name: Name = ""


class ReservationMake(Creating, frozen=True, kw_only=True, tag="reservation_make"):
    """Sets nodes aside (admins). With `instead` the reservation of that name becomes this one. -> {}"""

    reservation: Reservation
    instead: bool = False


class ReservationRemove(Message, frozen=True, kw_only=True, tag="reservation_rm"):
    """-> {}"""

    name: Name


class NodeRemove(Message, frozen=True, kw_only=True, tag="node_rm"):
    """Refused while jobs run there, unless `force`: they end as NODE_FAIL."""

    name: Name
    force: bool = False
