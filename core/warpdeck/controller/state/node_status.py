"""Volatile facts about nodes: links, readings, health. They are learned again after a restart."""

from __future__ import annotations

from warpdeck.model import Condition, Link, NodeHealth, NodeName, Reading

from .suspect_nodes import SuspectNodes


class NodeStatus:
    """The present status of each node."""

    def __init__(self) -> None:
        self.links: dict[NodeName, Link] = {}
        self.link_reasons: dict[NodeName, str] = {}
        self.readings: dict[NodeName, Reading] = {}
        self.health: dict[NodeName, NodeHealth] = {}
        self.conditions: dict[NodeName, Condition] = {}
        """The last recorded condition of each node."""
        self.suspects = SuspectNodes()
        """Nodes on which jobs fail at once."""

    def drop(self, name: NodeName) -> None:
        """Forget a node, so that a later node of the same name starts without a history."""
        for table in (self.links, self.link_reasons, self.readings, self.health, self.conditions):
            table.pop(name, None)
