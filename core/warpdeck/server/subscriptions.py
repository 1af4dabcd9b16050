"""Handlers of subscriptions: to changes of jobs and nodes, and to the ends of submissions."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.ports.engine import EndsOfJobs
from warpdeck.protocol import requests as ask
from warpdeck.protocol.request_base import MAX_REFERENCES

from .connection import ClientStream, Connection


class SubscriptionStream(ClientStream):
    """A subscription's entry among the open streams, so that the client's Close can end it."""

    is_subscription = True

    def __init__(self, connection: Connection, number: int) -> None:
        super().__init__(connection, number)
        self.task = asyncio.current_task()

    def end(self, *, finished: bool = False) -> None:
        super().end()
        if self.task is not None:
            self.task.cancel()


async def subscribe(connection: Connection, message: ask.Subscribe) -> None:
    """Send all rows, then changes, for as long as the client stays connected."""
    changes = connection.server.engine.jobs.changes(connection.caller, message)
    SubscriptionStream(connection, message.id)
    connection.send_ok(message.id, {})
    async with contextlib.aclosing(changes):
        async for build in changes:
            async with connection.page():
                delta = await build()
            connection.send({"t": "delta", "id": message.id, **msgspec.structs.asdict(delta)})
            await asyncio.sleep(0)


class EndsStream(ClientStream):
    """A client's wait for the ends of submissions."""

    def __init__(self, connection: Connection, number: int, ends: EndsOfJobs) -> None:
        super().__init__(connection, number)
        self._ends = ends
        self._task = asyncio.current_task()

    def more(self, message: ask.AwaitMore) -> None:
        if len(self._ends) + len(message.jobs) <= MAX_REFERENCES:
            self._ends.add(message.jobs)
            return
        error = UserError(
            f"cannot wait for more than {MAX_REFERENCES:,} submissions at once", "wait for fewer"
        )
        self.connection.send_error(self.number, error)
        self.end()

    def end(self, *, finished: bool = False) -> None:
        super().end()
        if self._task is not None:
            self._task.cancel()


async def tell_ends(connection: Connection, message: ask.AwaitEnds) -> None:
    """Report each end once, for as long as the client stays connected.

    Raises UserError for an unknown field.
    """
    ends = connection.server.engine.jobs.ends(connection.caller, message)
    EndsStream(connection, message.id, ends)
    connection.send_ok(message.id, {})
    try:
        async with contextlib.aclosing(ends.messages()) as messages:
            async for each in messages:
                connection.send({"t": "ends", "id": message.id, **msgspec.structs.asdict(each)})
                await connection.drain()
    finally:
        ends.close()
