"""Health checks of nodes on request. A user may ask at any time, in addition to the periodic checks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from warpdeck.base.chunking import in_slices
from warpdeck.base.errors import RemoteError, UserError
from warpdeck.controller.events.events import HealthReported
from warpdeck.controller.presenters.node_rows import node_health_row
from warpdeck.controller.reducers.node_health import health_request
from warpdeck.model import Link, NodeName
from warpdeck.protocol.node_rows import NodeHealthRow
from warpdeck.protocol.requests import NodeCheck

if TYPE_CHECKING:
    from warpdeck.controller.loop.controller import Controller

MAX_AT_ONCE = 64
"""Maximum number of nodes that check at the same time, because their answers arrive together."""


async def answer(controller: Controller, asked: NodeCheck, *, anew: bool) -> dict[str, Any]:
    """Return the health rows. With `anew` every node checks again. Raises UserError for an unknown node."""
    state = controller.state
    if asked.name and NodeName(asked.name) not in state.nodes:
        raise UserError(f"there is no node {asked.name}", "see `warpdeck node ls`", code="not_found")
    names = [NodeName(asked.name)] if asked.name else sorted(state.nodes)
    errors: dict[NodeName, str] = {}
    room = asyncio.Semaphore(MAX_AT_ONCE)

    async def look(name: NodeName) -> None:
        async with room:
            errors[name] = await _look(controller, name) if anew else _absence(controller, name)

    await asyncio.gather(*(look(name) for name in names))

    def show(some: Sequence[NodeName]) -> list[NodeHealthRow]:
        there = [state.nodes[name] for name in some if name in state.nodes]
        return [node_health_row(state, node, error=errors[node.name]) for node in there]

    return {"nodes": await in_slices(names, show)}


def _absence(controller: Controller, name: NodeName) -> str:
    if controller.state.node_status.links.get(name) is Link.UP:
        return ""
    reason = controller.state.node_status.link_reasons.get(name, "")
    return f"the node does not answer: {reason}" if reason else "the node does not answer"


async def _look(controller: Controller, name: NodeName) -> str:
    """Run the node's health checks. Return why that failed, or "" if it succeeded."""
    try:
        told = await controller.fleet.check_health(
            name, health_request(controller.config, now=controller.clock())
        )
    except RemoteError as error:
        return _absence(controller, name) or f"the node does not answer: {error.cause}"
    await controller.apply(HealthReported(name=name, health=told, received_unix=controller.clock()))
    return ""
