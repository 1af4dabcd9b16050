"""Slurm's commands for users' shells and processes of jobs: each runs in a fork of one worker process, and is joined to who
asked for it.

The controller only passes on: what the command prints goes to the caller within the stream's window, what it wants to read is
asked of the caller, and its questions come in on a connection of their own, as the caller and no more.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import sys
from typing import Any

from warpdeck.errors import UserError
from warpdeck_agent.wire.frames import (
    JSON,
    MAX_FRAME_BYTES,
    WireError,
    json_frame,
    parse_json,
    read_frame,
    split_data,
)

from . import protocol as ask
from .connection import ClientStream, Connection
from .turns import Turn, Turns

log = logging.getLogger("warpdeck.api")

MAX_COMMANDS = 64
MAX_COMMANDS_OF_USER = 16
"""Commands that work at once, of all and of one user; one more waits for its turn."""
BUSY = "away"
"""The code on which a caller tries again."""


class CommandHost:
    """The worker process, started when it is first needed and again if it was killed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self.turns = Turns(MAX_COMMANDS, MAX_COMMANDS_OF_USER)

    def begin(self) -> tuple[socket.socket, socket.socket]:
        """(the command's caller's side, its connection to us): a new command that waits for its request."""
        controls, accesses = socket.socketpair(), socket.socketpair()
        channel = self._ready()
        try:
            socket.send_fds(channel, [b"c"], [controls[1].fileno(), accesses[1].fileno()])
        except OSError as error:
            self.close()
            for each in (controls[0], accesses[0]):
                each.close()
            raise UserError("commands cannot be started now", "try again", code=BUSY) from error
        finally:
            controls[1].close()
            accesses[1].close()
        return controls[0], accesses[0]

    def _ready(self) -> socket.socket:
        if self._channel is not None and self._process is not None and self._process.poll() is None:
            return self._channel
        self.close()
        ours, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "warpdeck.slurm.worker"],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        theirs.close()
        self._channel = ours
        return ours

    def close(self) -> None:
        """The worker ends; commands that run go on until their sockets close."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class CommandStream(ClientStream):
    """A running command and who asked for it."""

    def __init__(self, connection: Connection, number: int, writer: asyncio.StreamWriter) -> None:
        super().__init__(connection, number)
        self._writer = writer

    async def file(self, message: ask.FileRead) -> None:
        """A file's text, or a line that was typed."""
        self._writer.write(json_frame({"t": "file", "data": message.data, "error": message.error}))
        await self._writer.drain()

    def end(self, *, finished: bool = False) -> None:
        super().end()
        self._writer.close()


async def run(connection: Connection, message: ask.Command) -> None:
    """Until the command has ended or its caller has left."""
    host = connection.server.commands
    turn = await host.turns.take(connection.who.uid)
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
        turn.leave()


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
        "in_job": connection.caller is not None,
    }


async def _serve(connection: Connection, access: socket.socket) -> None:
    """The command's own connection: it is who its caller is."""
    reader, writer = await asyncio.open_connection(sock=access)
    await connection.server.serve_beside(reader, writer, connection)


async def _pass_on(
    connection: Connection, stream: CommandStream, reader: asyncio.StreamReader, turn: Turn
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
                turn.leave()
                continue
            connection.send({**said, "stream": stream.number})
    except (asyncio.IncompleteReadError, ConnectionError, WireError):
        await stream.send(b"\2error: the command was ended: it took too long, or too much memory\n")
        stream.say_end("", {"code": 1, "signal": 0})
