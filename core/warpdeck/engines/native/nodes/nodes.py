"""The nodes and their reservations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

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
from warpdeck.engines.shared.job_lookup import JobLookup
from warpdeck.engines.shared.past_nodes import PastNodes
from warpdeck.engines.shared.timeline import Timelines
from warpdeck.engines.shared.visibility import Visibility
from warpdeck.model import Node, NodeName
from warpdeck.ports.caller import Caller, is_administrator
from warpdeck.ports.engine import Progress
from warpdeck.protocol import requests as ask
from warpdeck.protocol import results
from warpdeck.protocol.node_rows import NodeFacts, NodeRow, PastNodeRow
from warpdeck.protocol.nonces import mark_of

from .health_check import HealthCheck
from .node_joining import NodeJoining


@dataclass(frozen=True, kw_only=True)
class NativeNodes:
    """The `EngineNodes` of the controller."""

    state: State
    apply: Apply
    clock: Callable[[], float]
    lookup: JobLookup
    past_nodes: PastNodes
    timelines: Timelines
    health_check: HealthCheck
    joining: NodeJoining

    async def rows(self, caller: Caller, message: ask.Nodes) -> Rows[NodeRow | NodeFacts]:
        known, seen = self.state.nodes, self.lookup.visibility(caller.who)
        seen.require("nodes")

        def show(nodes: Sequence[Node]) -> Sequence[NodeRow | NodeFacts]:
            there = [known[node.name] for node in nodes if node.name in known]
            if message.facts:
                return node_facts(self.state, there, now=self.clock())
            return [seen.node(node_row(self.state, node), self.state) for node in there]

        return LazyRows(self._named(message.name), show)

    async def past(self, caller: Caller, message: ask.NodesAt) -> Rows[PastNodeRow]:
        seen = self._past(caller)
        rows = await self.past_nodes.rows(self._named(message.name), message.at)
        if not seen.hides_jobs:
            return rows
        return [seen.past_node(row) for row in rows[0 : len(rows)]]

    async def timeline(self, caller: Caller, message: ask.NodeTimeline) -> results.Timeline:
        seen = self._past(caller)
        found = await self.timelines.timeline(message)
        return msgspec.structs.replace(found, events=seen.events(found.events))

    def _past(self, caller: Caller) -> Visibility:
        """Return the part of the history of nodes that the caller may see. Raises UserError if there is none."""
        seen = self.lookup.visibility(caller.who)
        seen.require("nodes")
        seen.require("events")
        return seen

    async def health(self, caller: Caller, message: ask.NodeCheck) -> results.NodeHealth:
        self.lookup.visibility(caller.who).require("nodes")
        names = [node.name for node in self._named(message.name)]
        return results.NodeHealth(
            nodes=await self.health_check.rows(names, anew=is_administrator(caller.who))
        )

    async def add(self, caller: Caller, message: ask.NodeAdd, progress: Progress) -> NodeRow:
        return self._row(await self.joining.add(caller.who, message, progress))

    async def drain(self, caller: Caller, message: ask.NodeDrain) -> NodeRow:
        name = NodeName(message.name)
        event = NodeDrained(name=name, reason=message.reason, gpus=message.gpus, user=caller.who.user)
        await self.apply(event)
        return self._row(name)

    async def resume(self, caller: Caller, message: ask.NodeResume) -> NodeRow:
        await self.apply(NodeResumed(name=NodeName(message.name), gpus=message.gpus))
        return self._row(message.name)

    async def remove(self, caller: Caller, message: ask.NodeRemove) -> results.Result:
        await self.apply(NodeRemoved(name=NodeName(message.name), force=message.force))
        return results.Result()

    async def reserve(self, caller: Caller, message: ask.ReservationMake) -> results.Result:
        event = ReservationMade(
            reservation=message.reservation,
            instead=message.instead,
            uid=caller.who.uid,
            request_id=mark_of(message),
        )
        await self.apply(event)
        return results.Result()

    async def unreserve(self, caller: Caller, message: ask.ReservationRemove) -> results.Result:
        await self.apply(ReservationRemoved(name=message.name))
        return results.Result()

    def _named(self, name: str) -> list[Node]:
        """Return the node with that name, or all nodes sorted by name if it is "". Raises UserError."""
        nodes = self.state.nodes
        if name and NodeName(name) not in nodes:
            raise UserError(f"there is no node {name}", "see `warpdeck node ls`", code="not_found")
        return [nodes[each] for each in ([NodeName(name)] if name else sorted(nodes))]

    def _row(self, name: str) -> NodeRow:
        """Return the row of one node. Raises UserError."""
        return node_row(self.state, self._named(name)[0])
