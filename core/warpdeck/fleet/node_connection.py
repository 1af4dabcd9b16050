"""The connection to one node, and the data that the fleet keeps about the node."""

from __future__ import annotations

import asyncio

from warpdeck.model import Node
from warpdeck.ports.ports import PackedTree

from .channel import Channel
from .token_bucket import TokenBucket
from .transport import Transport, machine_name


class NodeConnection:
    """One node's connection, if it is up, and its data."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.machine = machine_name(node.boot_id, node.hostname)
        self.channel: Channel | None = None
        self.transport: Transport | None = None
        self.task: asyncio.Task[None] | None = None
        self.visible: dict[tuple[str, int], bool] = {}
        """Whether a folder is visible on the node, by folder and uid."""
        self.trees: dict[str, PackedTree] = {}
        self.token_bucket = TokenBucket(asyncio.get_running_loop().time)
        self.was_up = False
        """Whether the node has answered this start of the controller, which then knows its forgotten launches."""
        self.is_removed = False
        """Whether the node was removed. The link is then not restored after its agent has exited."""
