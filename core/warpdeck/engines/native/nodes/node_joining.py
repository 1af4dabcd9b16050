"""Adds a machine as a node.

The node is added only after the machine was reached and its agent has started.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from warpdeck.base.errors import UserError
from warpdeck.controller.events.events import NodeAdded, NodeUp
from warpdeck.controller.state.state import State
from warpdeck.engines.native.outcomes import Apply
from warpdeck.model import Node, NodeName
from warpdeck.model.created_by_nonce import find_created
from warpdeck.ports.caller import Principal
from warpdeck.ports.engine import Progress
from warpdeck.ports.ports import Fleet
from warpdeck.protocol import requests as ask
from warpdeck.protocol.nonces import mark_of

_NODE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True, kw_only=True)
class NodeJoining:
    """Adds machines as nodes."""

    state: State
    fleet: Fleet
    apply: Apply

    async def add(self, who: Principal, message: ask.NodeAdd, progress: Progress) -> NodeName:
        """Add a node, report the progress meanwhile, and return its name. Raises UserError."""
        nodes = self.state.nodes
        target = "" if message.target == "local" else message.target
        name = checked_name(message.name or node_name(message.target))
        mark = mark_of(message)
        if find_created(self.state.created, who.uid, mark) is not None and name in nodes:
            return name
        if name in nodes:
            raise UserError(
                f"node {name} already exists", "choose another --name, or remove the old node first"
            )
        node, welcome = await self.fleet.add(
            Node(name=name, target=target), accept_host_key=message.accept_host_key, progress=progress
        )
        try:
            await self.apply(NodeAdded(node=node, uid=who.uid, request_id=mark))
            await self.apply(NodeUp(name=name, welcome=welcome))
        except UserError:
            await self.fleet.remove(name)
            raise
        return name


def checked_name(name: str) -> NodeName:
    """Return a name that can be used unchanged in hostlists, SLURM_JOB_NODELIST and file names.

    Raises UserError.
    """
    if not _NODE_NAME.fullmatch(name):
        raise UserError(
            f"{name!r} is not a valid node name",
            "use up to 63 letters, digits, dots, dashes and underscores",
        )
    return NodeName(name)


def node_name(target: str) -> str:
    """Return the default name of a node: its host without user, port and domain."""
    host = target.rpartition("@")[2]
    host = host.partition("]")[0].strip("[") if host.startswith("[") else host.partition(":")[0]
    short = host if host.replace(".", "").isdigit() or ":" in host else host.partition(".")[0]
    return re.sub(r"[^A-Za-z0-9._-]", "-", short)[:63].strip("._-") or "node"
