"""The controller's end of the clients on the standby's machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable

from .client_relay import CHUNK_BYTES, MAX_CLIENTS, MAX_UNREAD_BYTES
from .messages import ClientClosed, ClientData, ClientOpened, StandbyMessage

ServeClient = Callable[[asyncio.StreamReader, asyncio.StreamWriter, int], Awaitable[None]]
"""Serves a client as the user with this uid."""


class RelayedClients:
    """The clients of one connection to the standby. `send` sends a message to the receiver."""

    def __init__(self, serve: ServeClient, send: Callable[[StandbyMessage], Awaitable[None]]) -> None:
        self._serve = serve
        self._send = send
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def handle(self, message: ClientOpened | ClientData | ClientClosed) -> None:
        """Handle a message of the receiver."""
        writer = self._writers.get(message.stream)
        match message:
            case ClientOpened() if writer is None and len(self._writers) < MAX_CLIENTS:
                await self._open(message)
            case ClientData() if writer is not None:
                writer.write(message.data)
                if writer.transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
                    writer.close()
            case ClientClosed() if writer is not None:
                writer.close()

    async def close(self) -> None:
        """Disconnect all clients."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _open(self, message: ClientOpened) -> None:
        near, far = socket.socketpair()
        reader, writer = await asyncio.open_unix_connection(sock=near)
        far_reader, far_writer = await asyncio.open_unix_connection(sock=far)
        self._writers[message.stream] = writer
        uid = os.geteuid() if message.is_owner else message.uid
        self._spawn(self._serve(far_reader, far_writer, uid))
        self._spawn(self._pump(message.stream, reader, writer))

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pump(self, stream: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send the answers of the server to the client until one side ends."""
        try:
            with contextlib.suppress(ConnectionError):
                while data := await reader.read(CHUNK_BYTES):
                    await self._send(ClientData(stream=stream, data=data))
            await self._send(ClientClosed(stream=stream))
        finally:
            self._writers.pop(stream, None)
            writer.close()
