"""Relays between a stream of the controller and a socket on this node, with flow control in both directions.

Data that the socket does not take stops the controller, and vice versa. Each direction ends separately, with an empty
data frame, like shutdown(2) on a socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import socket
from typing import Any, Callable, Iterator, Optional

from warpdeck_agent.wire import WireError
from warpdeck_agent.wire.frames import STREAM_WINDOW_BYTES
from warpdeck_agent.wire.messages import StreamAck

from .streams import OutStream

CONNECT_S = 10.0
"""Connection timeout in seconds. A local port that does not answer in this time has a full backlog."""
READ_BYTES = 256 * 1024


class TunnelError(Exception):
    """A tunnel that cannot be opened, described in one sentence."""


class ByteRelay:
    """One relay. `feed` accepts data from the controller from the start."""

    def __init__(self, out: OutStream, tell: Callable[[Any], None]) -> None:
        self._out = out
        self._tell = tell
        self._incoming: asyncio.Queue[bytes] = asyncio.Queue()
        self._held = 0

    def feed(self, data: bytes) -> None:
        """Queue bytes from the controller. Raises WireError if they exceed the window."""
        self._held += len(data)
        if self._held > STREAM_WINDOW_BYTES:
            raise WireError("the tunnel received more bytes than its window allows")
        self._incoming.put_nowait(data)

    async def relay(self, link: socket.socket, *, until_both: bool) -> None:
        """Relay data until the job's side has ended, or with `until_both` until both sides have ended."""
        reader, writer = await asyncio.open_connection(sock=link)
        to_job = asyncio.get_running_loop().create_task(self._relay_to_job(writer))
        try:
            await self._relay_to_controller(reader)
            if until_both:
                await to_job
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            to_job.cancel()
            await asyncio.gather(to_job, return_exceptions=True)
            writer.transport.abort()

    async def _relay_to_controller(self, reader: asyncio.StreamReader) -> None:
        while True:
            data = await reader.read(READ_BYTES)
            if not data:
                self._out.finish()
                return
            await self._out.send(data)

    async def _relay_to_job(self, writer: asyncio.StreamWriter) -> None:
        while True:
            data = await self._incoming.get()
            if not data:
                writer.write_eof()
                return
            writer.write(data)
            await writer.drain()
            self._held -= len(data)
            self._tell(StreamAck(stream=self._out.stream, size=len(data)))


async def connect_to_port(port: int, uid: int) -> socket.socket:
    """Return a connection to the loopback port.

    The socket belongs to the user, so that firewalls with rules per user apply.
    """
    loop = asyncio.get_running_loop()
    refused: Optional[OSError] = None
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        try:
            with _files_as(uid):
                link = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:  # IPv6 may be missing
            refused = refused or error
            continue
        link.setblocking(False)
        try:
            await asyncio.wait_for(loop.sock_connect(link, (address, port)), CONNECT_S)
            return link
        except asyncio.TimeoutError as error:
            link.close()
            raise TunnelError(f"port {port} did not accept a connection within {CONNECT_S:.0f} s") from error
        except OSError as error:
            link.close()
            refused = refused or error
        except BaseException:
            link.close()
            raise
    if isinstance(refused, ConnectionRefusedError):
        raise TunnelError(f"nothing listens on port {port} of the node's loopback interface")
    raise TunnelError(f"port {port} cannot be reached: {refused}")


@contextlib.contextmanager
def _files_as(uid: int) -> Iterator[None]:
    """Set the file system uid of this thread, so that a socket created meanwhile belongs to the user."""
    if os.geteuid() != 0 or uid == 0:
        yield
        return
    libc = ctypes.CDLL(None)
    libc.setfsuid(uid)
    try:
        yield
    finally:
        libc.setfsuid(0)
