"""Requests that only admins may make.

They concern nodes, reservations, the configuration in force, and stopping the controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

from warpdeck.ports.caller import require_admin
from warpdeck.ports.engine import Engine
from warpdeck.protocol import requests as ask
from warpdeck.protocol import results
from warpdeck.protocol.node_rows import NodeRow

from .connection import Connection, Handler, direct
from .services import Services

T = TypeVar("T")


def admin_handlers(engine: Engine) -> dict[type, Handler]:
    """Return the handlers. Each raises UserError if the user is not an admin."""

    async def add_node(connection: Connection, message: ask.NodeAdd) -> NodeRow:
        return await engine.nodes.add(connection.caller, message, connection.progress_of(message.id))

    async def reload(connection: Connection, message: ask.Reload) -> results.Reloaded:
        return await _to_its_end(connection.server, engine.site.reload(connection.caller, message))

    async def amend(connection: Connection, message: ask.Amend) -> results.Reloaded:
        return await _to_its_end(connection.server, engine.site.amend(connection.caller, message))

    handlers: dict[type, Handler] = {
        ask.NodeAdd: add_node,
        ask.NodeDrain: direct(engine.nodes.drain),
        ask.NodeResume: direct(engine.nodes.resume),
        ask.NodeRemove: direct(engine.nodes.remove),
        ask.ReservationMake: direct(engine.nodes.reserve),
        ask.ReservationRemove: direct(engine.nodes.unreserve),
        ask.Reload: reload,
        ask.Amend: amend,
        ask.Recover: direct(engine.site.recover),
        ask.Takeover: direct(engine.site.take_over),
        ask.ConfigInForce: direct(engine.site.config),
        ask.Shutdown: _shutdown,
    }
    return {kind: partial(_for_admins, handler) for kind, handler in handlers.items()}


async def _for_admins(handler: Handler, connection: Connection, message: Any) -> Any:
    require_admin(connection.who)
    return await handler(connection, message)


async def _shutdown(connection: Connection, message: ask.Shutdown) -> results.Result:
    connection.server.stop.set()
    return results.Result()


async def _to_its_end(server: Services, work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end, even if the client disconnects meanwhile, and return its result."""
    task = asyncio.get_running_loop().create_task(work)
    server.reloads.add(task)
    task.add_done_callback(server.reloads.discard)
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    return await asyncio.shield(task)
