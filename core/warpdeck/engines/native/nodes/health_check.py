"""Health checks of nodes on request. A user may ask at any time, in addition to the periodic checks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from warpdeck.base.chunking import in_slices
from warpdeck.base.errors import RemoteError
from warpdeck.config import Config
from warpdeck.controller.events.events import HealthReported
from warpdeck.controller.presenters.node_rows import node_health_row
from warpdeck.controller.reducers.node_health import health_request
from warpdeck.controller.state.state import State
from warpdeck.engines.native.outcomes import Apply
from warpdeck.model import Link, NodeName
from warpdeck.ports.ports import Fleet
from warpdeck.protocol.node_rows import NodeHealthRow

MAX_AT_ONCE = 64
"""Maximum number of nodes that check at the same time, because their answers arrive together."""


@dataclass(frozen=True, kw_only=True)
class HealthCheck:
    """Runs the health checks of nodes. `config` returns the configuration in force."""

    state: State
    fleet: Fleet
    apply: Apply
    config: Callable[[], Config]
    clock: Callable[[], float]

    async def rows(self, names: Sequence[NodeName], *, anew: bool) -> list[NodeHealthRow]:
        """Return the health rows of these nodes. With `anew` every node checks again."""
        state = self.state
        errors: dict[NodeName, str] = {}
        limit = asyncio.Semaphore(MAX_AT_ONCE)

        async def check(name: NodeName) -> None:
            async with limit:
                errors[name] = await self._check(name) if anew else self._absence(name)

        await asyncio.gather(*(check(name) for name in names))

        def show(some: Sequence[NodeName]) -> list[NodeHealthRow]:
            there = [state.nodes[name] for name in some if name in state.nodes]
            return [node_health_row(state, node, error=errors[node.name]) for node in there]

        return await in_slices(names, show)

    def _absence(self, name: NodeName) -> str:
        status = self.state.node_status
        if status.links.get(name) is Link.UP:
            return ""
        reason = status.link_reasons.get(name, "")
        return f"the node does not answer: {reason}" if reason else "the node does not answer"

    async def _check(self, name: NodeName) -> str:
        """Run the node's health checks. Return why that failed, or "" if it succeeded."""
        try:
            told = await self.fleet.check_health(name, health_request(self.config(), now=self.clock()))
        except RemoteError as error:
            return self._absence(name) or f"the node does not answer: {error.cause}"
        await self.apply(HealthReported(name=name, health=told, received_unix=self.clock()))
        return ""
