"""Calls: connections of jobs' processes to the controller's API, which the agents forward.

The API server gets one end of a socket pair, as if the process had connected directly. Bytes are copied in
both directions between the other end and the agent's stream, within the window of each receiver. The agent
only names the job; the controller itself looks up the job's owner.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from warpdeck.model import JobId, NodeName
from warpdeck_agent.wire.frames import DATA_CHUNK_BYTES
from warpdeck_agent.wire.steps import CALL_WINDOW_BYTES, CallOpened

from .channel import Channel

CallServer = Callable[
    [asyncio.StreamReader, asyncio.StreamWriter, JobId, int, NodeName, asyncio.Event], Awaitable[None]
]
"""Serves one call of a job (id, restarts) on a node.

The event is set if the link, and not the process, ended the call.
"""


class _Sink:
    """Receives the agent's data and writes it to our end of the socket pair as soon as that end exists."""

    def __init__(self) -> None:
        self.writer: asyncio.Future[asyncio.StreamWriter] = asyncio.get_running_loop().create_future()
        self.lost = asyncio.Event()

    async def opened(self, offset: int, size_bytes: int, path: str) -> None:
        return None

    async def data(self, chunk: bytes) -> None:
        writer = await self.writer
        writer.write(chunk)
        await writer.drain()

    async def ended(self, error: str, code: str = "") -> None:
        """Close the connection.

        An error means that the link broke; otherwise the process has disconnected.
        """
        if error:
            self.lost.set()
        (await self.writer).close()


def accept_call(
    channel: Channel, node: NodeName, opened: CallOpened, server: CallServer
) -> Coroutine[Any, Any, None]:
    """Accept a call at once, so that no data is lost, and return the coroutine that serves it.

    Raises WireError.
    """
    sink = _Sink()
    channel.accept_call(opened.stream, sink)
    return _serve(channel, node, opened, server, sink)


async def _serve(
    channel: Channel, node: NodeName, opened: CallOpened, server: CallServer, sink: _Sink
) -> None:
    """Serve a call until the process, the server or the link ends it."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    server_reader, server_writer = await asyncio.open_connection(sock=theirs)
    sink.writer.set_result(writer)
    copying = asyncio.get_running_loop().create_task(_copy_to_agent(channel, opened.stream, reader))
    try:
        await server(server_reader, server_writer, JobId(opened.job_id), opened.restarts, node, sink.lost)
        await copying  # Pass on the server's last data.
    except OSError:
        return
    finally:
        copying.cancel()
        writer.close()
        channel.close_stream(opened.stream)


async def _copy_to_agent(channel: Channel, stream: int, reader: asyncio.StreamReader) -> None:
    with channel.credit(stream, CALL_WINDOW_BYTES) as credit:
        while chunk := await reader.read(DATA_CHUNK_BYTES):
            await credit.spend(len(chunk))
            channel.write_piece(stream, chunk)
