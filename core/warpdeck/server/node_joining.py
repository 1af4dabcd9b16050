"""A machine becomes a node: it is reached, its agent is started, and only then it is one of ours."""

from __future__ import annotations

import re

from warpdeck.base.errors import UserError
from warpdeck.controller.events.events import NodeAdded, NodeUp
from warpdeck.model import Node, NodeName
from warpdeck.model.created_by_nonce import find_made
from warpdeck.protocol import requests as ask

from .connection import Connection
from .nonces import mark_of

_NODE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


async def add_node(connection: Connection, message: ask.NodeAdd) -> NodeName:
    """The name of the new node, with progress lines until it is there. Raises UserError."""
    controller = connection.server.controller
    target = "" if message.target == "local" else message.target
    name = checked_name(message.name or node_name(message.target))
    uid, mark = connection.who.uid, mark_of(message)
    if find_made(controller.state.made, uid, mark) is not None and name in controller.state.nodes:
        return name
    if name in controller.state.nodes:
        raise UserError(f"there is a node {name} already", "give another --name, or remove the old one first")

    async def progress(line: str) -> None:
        await connection.progress(message.id, line)

    node, welcome = await controller.fleet.add(
        Node(name=name, target=target), accept_host_key=message.accept_host_key, progress=progress
    )
    try:
        await controller.apply(NodeAdded(node=node, uid=uid, mark=mark))
        await controller.apply(NodeUp(name=name, welcome=welcome))
    except UserError:
        await controller.fleet.remove(name)
        raise
    return name


def checked_name(name: str) -> NodeName:
    """A name that goes into hostlists, SLURM_JOB_NODELIST and file names as it is. Raises UserError."""
    if not _NODE_NAME.fullmatch(name):
        raise UserError(
            f"{name!r} is no name for a node",
            "--name takes up to 63 letters, digits, dots, dashes and underscores",
        )
    return NodeName(name)


def node_name(target: str) -> str:
    """The name a node gets if none is given: its host, without user, port and domain."""
    host = target.rpartition("@")[2]
    host = host.partition("]")[0].strip("[") if host.startswith("[") else host.partition(":")[0]
    short = host if host.replace(".", "").isdigit() or ":" in host else host.partition(".")[0]
    return re.sub(r"[^A-Za-z0-9._-]", "-", short)[:63].strip("._-") or "node"
