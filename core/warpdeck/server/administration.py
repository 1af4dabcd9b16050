"""Requests that need rights on the site.

They concern nodes, reservations, the configuration in force, the standby, and stopping the controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from warpdeck.ports.caller import Principal, require_admin, require_operator, require_root
from warpdeck.ports.engine import Engine
from warpdeck.protocol import requests as ask
from warpdeck.protocol import results
from warpdeck.protocol.node_rows import NodeRow

from .connection import Connection, Handler
from .direct_handlers import direct
from .services import Services

T = TypeVar("T")


def admin_handlers(engine: Engine) -> dict[type, Handler]:
    """Return the handlers. Each raises UserError if the user does not have the right."""

    async def add_node(connection: Connection, message: ask.NodeAdd) -> NodeRow:
        return await engine.nodes.add(connection.caller, message, connection.progress_of(message.id))

    async def reload(connection: Connection, message: ask.Reload) -> results.Reloaded:
        return await _to_its_end(connection.server, engine.site.reload(connection.caller, message))

    async def amend(connection: Connection, message: ask.Amend) -> results.Reloaded:
        return await _to_its_end(connection.server, engine.site.amend(connection.caller, message))

    async def set_standby(connection: Connection, message: ask.StandbySet) -> results.StandbyInfo:
        return await engine.standby.set_up(connection.caller, message, connection.progress_of(message.id))

    of_root: dict[type, Handler] = {
        # They copy the database and the keys, decide which controller the nodes obey, or bring jobs to another machine.
        ask.NodeAdd: add_node,
        ask.StandbySet: set_standby,
        ask.StandbyRemove: direct(engine.standby.remove),
        ask.Takeover: direct(engine.site.take_over),
        ask.Recover: direct(engine.site.recover),
    }
    of_administrators: dict[type, Handler] = {
        ask.NodeDrain: direct(engine.nodes.drain),
        ask.NodeResume: direct(engine.nodes.resume),
        ask.NodeRemove: direct(engine.nodes.remove),
        ask.Reload: reload,
        ask.Shutdown: _shutdown,
    }
    of_operators = {
        ask.ReservationMake: direct(engine.nodes.reserve),
        ask.ReservationRemove: direct(engine.nodes.unreserve),
    }
    return {
        **{kind: partial(_checked, require_root, each) for kind, each in of_root.items()},
        **{kind: partial(_checked, require_admin, each) for kind, each in of_administrators.items()},
        **{kind: partial(_checked, require_operator, each) for kind, each in of_operators.items()},
        # The engine decides which tables the caller may read and change.
        ask.Amend: amend,
        ask.ConfigInForce: direct(engine.site.config),
    }


async def _checked(
    require: Callable[[Principal], None], handler: Handler, connection: Connection, message: Any
) -> Any:
    require(connection.caller.who)
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
