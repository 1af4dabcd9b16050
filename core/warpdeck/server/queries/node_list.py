"""Lists the nodes for clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from warpdeck.base.errors import UserError
from warpdeck.controller.presenters.node_facts import node_facts
from warpdeck.controller.presenters.node_rows import node_row
from warpdeck.model import Node, NodeName
from warpdeck.protocol.node_rows import NodeFacts, NodeRow

if TYPE_CHECKING:
    from warpdeck.controller.loop.controller import Controller


Show = Callable[[Sequence[Node]], Sequence[NodeRow | NodeFacts]]


def named(controller: Controller, name: str) -> list[Node]:
    """Return the node with that name, or all nodes sorted by name if it is "". Raises UserError."""
    nodes = controller.state.nodes
    if name and NodeName(name) not in nodes:
        raise UserError(f"there is no node {name}", "see `warpdeck node ls`", code="not_found")
    return [nodes[each] for each in ([NodeName(name)] if name else sorted(nodes))]


def shown(controller: Controller, name: str, *, facts: bool = False) -> tuple[list[Node], Show]:
    """Return the nodes with that name, and a function that returns the current rows of some nodes.

    Raises UserError.
    """
    found, state = named(controller, name), controller.state

    def show(nodes: Sequence[Node]) -> Sequence[NodeRow | NodeFacts]:
        there = [state.nodes[node.name] for node in nodes if node.name in state.nodes]
        if facts:
            return list(node_facts(state, there, now=controller.clock()))
        return [node_row(state, node) for node in there]

    return found, show


def row(controller: Controller, name: str) -> NodeRow:
    """Return the row of one node. Raises UserError."""
    return node_row(controller.state, named(controller, name)[0])
