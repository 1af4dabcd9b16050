"""Runs Slurm's commands for users' shells and for processes of jobs.

Each command runs in a fork of one worker process.

The controller only relays. Output of the command goes to the caller within the stream's window. Files that
the command reads are requested from the caller. The command's own requests come in on a separate connection,
with the caller's rights and no others.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.base.fair_semaphore import SemaphoreSlot
from warpdeck.protocol import requests as ask
from warpdeck_agent.wire.frames import (
    JSON,
    MAX_FRAME_BYTES,
    WireError,
    json_frame,
    parse_json,
    read_frame,
    split_data,
)

from .connection import ClientStream, Connection

log = logging.getLogger("warpdeck.api")


class CommandStream(ClientStream):
    """The stream between a running command and its caller."""

    def __init__(self, connection: Connection, number: int, writer: asyncio.StreamWriter) -> None:
        super().__init__(connection, number)
        self._writer = writer

    async def file(self, message: ask.FileRead) -> None:
        """Pass a file's text, or a typed line, to the command."""
        self._writer.write(json_frame({"t": "file", "data": message.data, "error": message.error}))
        await self._writer.drain()

    def end(self, *, finished: bool = False) -> None:
        super().end()
        self._writer.close()


async def run(connection: Connection, message: ask.Command) -> None:
    """Run a command until it has ended or its caller has disconnected."""
    host = connection.server.commands
    turn = await host.turns.acquire(connection.who.uid)
    try:
        control, access = host.begin()
        reader, writer = await asyncio.open_connection(sock=control)
        serving = asyncio.get_running_loop().create_task(_serve(connection, access))
        try:
            stream = CommandStream(connection, message.id, writer)
            writer.write(json_frame({"t": "run", **_request(connection, message)}))
            await _pass_on(connection, stream, reader, turn)
        finally:
            serving.cancel()
            writer.close()
    finally:
        turn.release()


def _request(connection: Connection, message: ask.Command) -> dict[str, Any]:
    return {
        "name": message.name,
        "words": message.words,
        "env": message.env,
        "cwd": message.cwd,
        "host": message.host,
        "columns": message.columns,
        "awaited": message.awaited,
        "nonce": message.nonce,
        "welcome": connection.welcome(),
        "in_job": connection.caller.process is not None,
    }


async def _serve(connection: Connection, access: socket.socket) -> None:
    """Serve the command's own API connection, which has its caller's identity."""
    reader, writer = await asyncio.open_connection(sock=access)
    await connection.server.serve_beside(reader, writer, connection.caller)


async def _pass_on(
    connection: Connection, stream: CommandStream, reader: asyncio.StreamReader, turn: SemaphoreSlot
) -> None:
    try:
        while True:
            kind, payload = await read_frame(reader, MAX_FRAME_BYTES)
            if kind != JSON:
                await stream.send(split_data(payload)[1])
                continue
            said = parse_json(payload)
            if said["t"] == "exit":
                stream.say_end("", {"code": int(said["code"]), "signal": 0})
                return
            if said["t"] == "bug":
                log.error("a bug in a command:\n%s", said["text"])
                raise UserError("an error inside the command", f"see {connection.server.paths.log}")
            if said["t"] == "lingers":
                turn.release()
                continue
            connection.send({**said, "stream": stream.number})
    except (asyncio.IncompleteReadError, ConnectionError, WireError):
        await stream.send(b"\2error: the command was stopped: it took too long or used too much memory\n")
        stream.say_end("", {"code": 1, "signal": 0})
