"""Handlers of srun and salloc: the client's ends of steps and of allocations."""

from __future__ import annotations

import asyncio

from warpdeck.base.errors import UserError
from warpdeck.ports.engine_streams import CommandText, EndedStep, HeldAllocation, RunningStep, StreamEnd
from warpdeck.protocol import requests as ask

from .connection import ClientStream, Connection
from .streams import exit_fields


class StepStream(ClientStream):
    """The srun of a step: a StepSink of the engine."""

    def __init__(self, connection: Connection, number: int, step: RunningStep) -> None:
        super().__init__(connection, number)
        self._step = step
        self._task = asyncio.current_task()

    async def data(self, frame: bytes) -> None:
        await self.send(frame)

    def note(self, line: str) -> None:
        self.connection.send({"t": "note", "stream": self.number, "line": line})

    def taken(self, size: int) -> None:
        self.connection.send({"t": "ack", "stream": self.number, "size": size})

    def ended(self, end: StreamEnd) -> None:
        self.say_end(end.error, exit_fields(end.exit))

    async def incoming(self, data: bytes) -> None:
        try:
            self._step.incoming(data)
        except UserError as error:
            self.connection.refuse(error)

    async def order(self, order: ask.StepOrder) -> None:
        await self._step.order(order)

    def end(self, *, finished: bool = False) -> None:
        """Handle the client's disconnect."""
        if not self.is_open:
            return
        super().end()
        self._step.left()
        if self._task is not None:
            self._task.cancel()


async def srun(connection: Connection, message: ask.Srun) -> None:
    """Start a step and pass its streams on."""
    progress = connection.progress_of(message.id)
    found = await connection.server.engine.steps.srun(connection.caller, message, progress)
    match found:
        case CommandText():
            connection.send({"t": "told", "id": message.id, "text": found.text, "code": found.code})
        case EndedStep():
            connection.send({"t": "note", "stream": message.id, "line": found.note})
            ClientStream(connection, message.id).say_end(found.end.error, exit_fields(found.end.exit))
        case _:
            await _pass_on(connection, message.id, found)


async def srun_attach(connection: Connection, message: ask.SrunAttach) -> None:
    """Reconnect an srun to its step."""
    step = await connection.server.engine.steps.srun_attach(connection.caller, message)
    await _pass_on(connection, message.id, step)


async def _pass_on(connection: Connection, number: int, step: RunningStep) -> None:
    stream = StepStream(connection, number, step)
    connection.send_ok(number, step.answer)
    await step.run(stream)


class HeldStream(ClientStream):
    """The stream by which salloc holds its allocation."""

    def __init__(self, connection: Connection, number: int, allocation: HeldAllocation) -> None:
        super().__init__(connection, number)
        self._allocation = allocation
        self._task = asyncio.current_task()

    async def watch(self) -> None:
        """Wait until the allocation has ended, then tell the client."""
        self.say_end(await self._allocation.revoked(), None)

    async def order(self, order: ask.StepOrder) -> None:
        """Release the allocation because the command that ran in it has ended."""
        if order.what == "end":
            await self._allocation.release(order.code)

    def end(self, *, finished: bool = False) -> None:
        """Release the allocation because its client has disconnected."""
        if self.is_open:
            super().end()
            self._allocation.left()
            if self._task is not None:
                self._task.cancel()


async def salloc(connection: Connection, message: ask.Salloc) -> None:
    """Make an allocation for salloc and hold it until the client ends."""
    progress = connection.progress_of(message.id)
    allocation = await connection.server.engine.steps.salloc(connection.caller, message, progress)
    await _hold(connection, message.id, allocation)


async def salloc_attach(connection: Connection, message: ask.SallocAttach) -> None:
    """Reconnect salloc to its allocation."""
    allocation = await connection.server.engine.steps.salloc_attach(connection.caller, message)
    await _hold(connection, message.id, allocation)


async def _hold(connection: Connection, number: int, allocation: HeldAllocation) -> None:
    stream = HeldStream(connection, number, allocation)
    connection.send_ok(number, allocation.answer)
    if allocation.is_held:
        await stream.watch()
    else:
        stream.say_end("", None)
