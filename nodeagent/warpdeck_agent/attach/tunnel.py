"""Tunnels: two-way streams between the controller and a port of this node, or a process inside a job.

The port is one of the loopback interface. Both directions have flow control: data that the job does not read
stops the client, and vice versa. Each direction ends separately, with an empty data frame, like shutdown(2) on
a socket. The stream ends with the job or when the controller closes it.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Callable, Optional

from warpdeck_agent.launch.launch import LocalLaunch
from warpdeck_agent.linux.refusals import LaunchError
from warpdeck_agent.streams.byte_relay import ByteRelay, TunnelError, connect_to_port
from warpdeck_agent.streams.streams import OutStream
from warpdeck_agent.wire.messages import OpenTunnel, StreamOpened

from .inside_job import ProcessStarter
from .joined_process import raise_if_failed

MAX_TUNNELS = 512
"""The most tunnels of one controller on this node; each costs a few descriptors."""


class TunnelRelay(ByteRelay):
    """One tunnel. `serve` runs it to its end."""

    def __init__(
        self, out: OutStream, tell: Callable[[Any], None], *, process_starter: ProcessStarter
    ) -> None:
        super().__init__(out, tell)
        self._process_starter = process_starter

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
        link = await connect_to_port(port, launch.meta.uid)
        with contextlib.closing(link):
            self._tell(StreamOpened(stream=self._out.stream))
            await self.relay(link, until_both=True)

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
            await self.relay(process.link, until_both=False)
            if launch.end.cause or launch.phase != "running":
                raise TunnelError("the job has ended")
            await raise_if_failed(process)
        finally:
            listening.cancel()
            self._process_starter.release(process)
