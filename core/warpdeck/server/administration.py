"""Requests that only admins may make.

They concern nodes, reservations, the configuration in force, and stopping the controller.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from warpdeck.base.errors import UserError
from warpdeck.controller.events.events import (
    NodeDrained,
    NodeRemoved,
    NodeResumed,
    ReservationMade,
    ReservationRemoved,
)
from warpdeck.model import NodeName
from warpdeck.protocol import requests as ask
from warpdeck.protocol.nonces import mark_of

from .connection import Connection
from .node_joining import add_node
from .queries import node_list
from .services import Services

log = logging.getLogger("warpdeck.api")
T = TypeVar("T")


async def answer(connection: Connection, message: Any) -> Any:
    """Return the answer to an admin's request. Raises UserError, also if the user is not an admin."""
    if not connection.who.admin:
        raise UserError(
            "only root and the controller's user may do this", "ask an administrator", code="not_admin"
        )
    controller, site = connection.server.controller, connection.server.engine.site
    match message:
        case ask.NodeAdd():
            return node_list.row(controller, await add_node(connection, message))
        case ask.NodeDrain():
            drained = NodeDrained(name=NodeName(message.name), reason=message.reason, gpus=message.gpus)
            await controller.apply(drained)
            return node_list.row(controller, message.name)
        case ask.NodeResume():
            await controller.apply(NodeResumed(name=NodeName(message.name), gpus=message.gpus))
            return node_list.row(controller, message.name)
        case ask.NodeRemove():
            await controller.apply(NodeRemoved(name=NodeName(message.name), force=message.force))
        case ask.ReservationMake():
            uid, mark = connection.who.uid, mark_of(message)
            made = ReservationMade(
                reservation=message.reservation, instead=message.instead, uid=uid, request_id=mark
            )
            await controller.apply(made)
        case ask.ReservationRemove():
            await controller.apply(ReservationRemoved(name=message.name))
        case ask.Reload():
            return await _to_its_end(connection.server, site.reload(connection.client, message))
        case ask.Amend():
            return await _to_its_end(connection.server, site.amend(connection.client, message))
        case ask.ConfigInForce():
            return await site.config(connection.client, message)
        case ask.Shutdown():
            connection.server.stop.set()
        case _:
            raise UserError("this request is not supported here", "see warpdeck.protocol.requests")
    return {}


async def _to_its_end(server: Services, work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end, even if the client disconnects meanwhile, and return its result."""
    task = asyncio.get_running_loop().create_task(work)
    server.reloads.add(task)
    task.add_done_callback(server.reloads.discard)
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    return await asyncio.shield(task)
