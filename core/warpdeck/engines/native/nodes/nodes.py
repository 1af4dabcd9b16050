"""The nodes and their reservations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from warpdeck.base.chunking import LazyRows, Rows
from warpdeck.base.errors import UserError
from warpdeck.controller.events.events import (
    NodeDrained,
    NodeRemoved,
    NodeResumed,
    ReservationMade,
    ReservationRemoved,
)
from warpdeck.controller.presenters.node_facts import node_facts
from warpdeck.controller.presenters.node_rows import node_row
from warpdeck.controller.state.state import State
from warpdeck.engines.native.outcomes import Apply
from warpdeck.model import Node, NodeName
from warpdeck.ports.caller import ClientIdentity
from warpdeck.ports.engine import Progress
from warpdeck.protocol import requests as ask
from warpdeck.protocol import results
from warpdeck.protocol.node_rows import NodeFacts, NodeRow, PastNodeRow
from warpdeck.protocol.nonces import mark_of

from .health_check import HealthCheck
from .node_joining import NodeJoining
from .past_nodes import PastNodes


class NativeNodes:
    """The `EngineNodes` of the controller."""

    def __init__(
        self,
        state: State,
        *,
        apply: Apply,
        clock: Callable[[], float],
        past: PastNodes,
        health: HealthCheck,
        joining: NodeJoining,
    ) -> None:
        self._state = state
        self._apply = apply
        self._clock = clock
        self._past = past
        self._health = health
        self._joining = joining

    async def rows(self, client: ClientIdentity, message: ask.Nodes) -> Rows[NodeRow | NodeFacts]:
        known = self._state.nodes

        def show(nodes: Sequence[Node]) -> Sequence[NodeRow | NodeFacts]:
            there = [known[node.name] for node in nodes if node.name in known]
            if message.facts:
                return node_facts(self._state, there, now=self._clock())
            return [node_row(self._state, node) for node in there]

        return LazyRows(self._named(message.name), show)

    async def past(self, client: ClientIdentity, message: ask.NodesAt) -> Rows[PastNodeRow]:
        return await self._past.rows(self._named(message.name), message.at)

    async def health(self, client: ClientIdentity, message: ask.NodeCheck) -> results.NodeHealth:
        names = [node.name for node in self._named(message.name)]
        return results.NodeHealth(nodes=await self._health.rows(names, anew=client.who.admin))

    async def add(self, client: ClientIdentity, message: ask.NodeAdd, progress: Progress) -> NodeRow:
        return self._row(await self._joining.add(client.who, message, progress))

    async def drain(self, client: ClientIdentity, message: ask.NodeDrain) -> NodeRow:
        name = NodeName(message.name)
        await self._apply(NodeDrained(name=name, reason=message.reason, gpus=message.gpus))
        return self._row(name)

    async def resume(self, client: ClientIdentity, message: ask.NodeResume) -> NodeRow:
        await self._apply(NodeResumed(name=NodeName(message.name), gpus=message.gpus))
        return self._row(message.name)

    async def remove(self, client: ClientIdentity, message: ask.NodeRemove) -> results.Result:
        await self._apply(NodeRemoved(name=NodeName(message.name), force=message.force))
        return results.Result()

    async def reserve(self, client: ClientIdentity, message: ask.ReservationMake) -> results.Result:
        event = ReservationMade(
            reservation=message.reservation,
            instead=message.instead,
            uid=client.who.uid,
            mark=mark_of(message),
        )
        await self._apply(event)
        return results.Result()

    async def unreserve(self, client: ClientIdentity, message: ask.ReservationRemove) -> results.Result:
        await self._apply(ReservationRemoved(name=message.name))
        return results.Result()

    def _named(self, name: str) -> list[Node]:
        """Return the node with that name, or all nodes sorted by name if it is "". Raises UserError."""
        nodes = self._state.nodes
        if name and NodeName(name) not in nodes:
            raise UserError(f"there is no node {name}", "see `warpdeck node ls`", code="not_found")
        return [nodes[each] for each in ([NodeName(name)] if name else sorted(nodes))]

    def _row(self, name: str) -> NodeRow:
        """Return the row of one node. Raises UserError."""
        return node_row(self._state, self._named(name)[0])
