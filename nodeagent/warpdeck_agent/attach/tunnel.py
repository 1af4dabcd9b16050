"""Tunnels: two-way streams between the controller and a port of this node, or a process inside a job.

The port is one of the loopback interface. Both directions have flow control: data that the job does not read
stops the client, and vice versa. Each direction ends separately, with an empty data frame, like shutdown(2) on
a socket. The stream ends with the job or when the controller closes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import socket
from typing import Any, Callable, Iterator, Optional

from warpdeck_agent.launch.launch import LocalLaunch
from warpdeck_agent.linux.refusals import LaunchError
from warpdeck_agent.streams.streams import OutStream
from warpdeck_agent.wire import WireError
from warpdeck_agent.wire.frames import STREAM_WINDOW_BYTES
from warpdeck_agent.wire.messages import OpenTunnel, StreamAck, StreamOpened

from .inside_job import JobProcess, ProcessStarter

CONNECT_S = 10.0
"""Connection timeout in seconds. A local port that does not answer in this time has a full backlog."""
EXIT_S = 2.0
"""How long a process may take to exit after its output has ended, in seconds. A process that takes longer is
left running in the job.
"""
MAX_TUNNELS = 512
"""The most tunnels of one controller on this node; each costs a few descriptors."""
READ_BYTES = 256 * 1024


class TunnelError(Exception):
    """A tunnel that cannot be opened, described in one sentence."""


class TunnelRelay:
    """One tunnel.

    `feed` accepts data from the controller from the start. `serve` runs the tunnel to its end.
    """

    def __init__(
        self, out: OutStream, tell: Callable[[Any], None], *, process_starter: ProcessStarter
    ) -> None:
        self._out = out
        self._tell = tell
        self._process_starter = process_starter
        self._incoming: asyncio.Queue[bytes] = asyncio.Queue()
        self._held = 0

    def feed(self, data: bytes) -> None:
        """Queue bytes from the controller. Raises WireError if they exceed the window."""
        self._held += len(data)
        if self._held > STREAM_WINDOW_BYTES:
            raise WireError("the tunnel received more bytes than its window allows")
        self._incoming.put_nowait(data)

    async def serve(self, request: OpenTunnel, launch: Optional[LocalLaunch]) -> None:
        """Open the tunnel and relay its data. Raises TunnelError."""
        if launch is None or launch.phase != "running" or launch.end.cause:
            raise TunnelError("the job does not run on this node")
        ended = asyncio.get_running_loop().create_task(launch.end.reported.wait())
        work = asyncio.get_running_loop().create_task(
            self._to_port(request.port, launch) if request.port else self._to_process(request, launch)
        )
        try:
            await asyncio.wait([ended, work], return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise TunnelError("the job has ended")
            work.result()
        finally:
            for task in (ended, work):
                task.cancel()
            await asyncio.gather(ended, work, return_exceptions=True)

    async def _to_port(self, port: int, launch: LocalLaunch) -> None:
        link = await _connect(port, launch.meta.uid)
        with contextlib.closing(link):
            self._tell(StreamOpened(stream=self._out.stream))
            await self._relay(link, until_both=True)

    async def _to_process(self, request: OpenTunnel, launch: LocalLaunch) -> None:
        if launch.limit is not None and launch.limit.suspended:
            raise TunnelError("the job is suspended; resume it first")
        loop = asyncio.get_running_loop()
        try:
            process = await self._process_starter.start(launch, request.argv, request.env)
        except (OSError, ValueError, LaunchError) as error:
            raise TunnelError(f"cannot start a process in the job: {error}") from error
        listening = loop.create_task(process.listen())
        try:
            if launch.phase != "running":
                raise TunnelError("the job has ended")
            self._tell(StreamOpened(stream=self._out.stream))
            await self._relay(process.link, until_both=False)
            if launch.end.cause or launch.phase != "running":
                raise TunnelError("the job has ended")
            await _raise_if_failed(process)
        finally:
            listening.cancel()
            self._process_starter.release(process)

    async def _relay(self, link: socket.socket, *, until_both: bool) -> None:
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


async def _raise_if_failed(process: JobProcess) -> None:
    """Raise TunnelError if the process failed, with the last line of its standard error."""
    try:
        code = await asyncio.wait_for(process.reap(), EXIT_S)
    except asyncio.TimeoutError:
        return
    if code:
        reason = process.last_error_line() or (f"exit code {code}" if code > 0 else f"signal {-code}")
        raise TunnelError(reason)


async def _connect(port: int, uid: int) -> socket.socket:
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
