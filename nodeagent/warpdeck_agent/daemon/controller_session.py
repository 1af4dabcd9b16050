"""One connection of a controller: dispatches its messages and carries its streams.

The streams are logs, terminals, tunnels and uploaded trees. Invalid data closes only this connection.
"""

from __future__ import annotations

import asyncio
from typing import Any, Callable, Dict, Protocol

from warpdeck_agent.attach.inside_job import ProcessStarter
from warpdeck_agent.code.trees import Upload
from warpdeck_agent.code.work_folders import FolderChecks
from warpdeck_agent.launch.background_tasks import BackgroundTasks
from warpdeck_agent.linux.refusals import LaunchError
from warpdeck_agent.monitor.node_monitor import NodeMonitor
from warpdeck_agent.registry.launch_registry import LaunchRegistry
from warpdeck_agent.wire import JSON, WireError, json_frame, read_frame, split_data
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire.fields import limit_sizes
from warpdeck_agent.wire.frames import parse_json
from warpdeck_agent.wire.messages import PROTOCOL_VERSION, decode, encode
from warpdeck_agent.wire.outbox import Outbox
from warpdeck_agent.wire.steps import OpenStep

from .idle_end import IdleEnd
from .job_streams import JobStreams
from .obeyed_controller import ObeyedController, refusal
from .step_session import StepSession
from .tree_uploads import TreeUploads

STREAM_BUFFER_BYTES = 4 * 1024 * 1024
"""Streams pause while the controller has this many unread bytes. Messages do not pause."""
MAX_WRITE_BUFFER = 64 * 1024 * 1024
"""A controller with this many unread bytes is disconnected. It asks for everything again after it
reconnects.
"""


class SessionHost(Protocol):
    """The parts of the agent that a session uses."""

    jobs: LaunchRegistry
    monitor: NodeMonitor
    folders: FolderChecks
    process_starter: ProcessStarter

    controller: ObeyedController
    idle_end: IdleEnd

    async def welcome(self, *, with_past: bool = False) -> wire.Welcome: ...
    def end_replaced(self, start: wire.ControllerStart) -> None: ...
    def quit(self) -> None: ...
    def launch(self, request: wire.Launch) -> None: ...
    def upload(self, put: wire.PutTree) -> Upload: ...
    def tree_arrived(self, sha256: str, error: str) -> None: ...


class ControllerSession:
    """One connection of a controller, with its streams."""

    def __init__(
        self, agent: SessionHost, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._agent = agent
        self._reader = reader
        self._writer = writer
        self._frames = Outbox(writer.write)
        self._draining = asyncio.Lock()
        self._is_closed = False
        self.start = wire.ControllerStart()
        """The start of the controller, once it has sent Hello."""
        writer.transport.set_write_buffer_limits(high=STREAM_BUFFER_BYTES)
        self._streams = JobStreams(
            agent.jobs, agent.process_starter, self._write, self.tell, drain=self._drain
        )
        self._uploads = TreeUploads(agent, self.tell)
        self._background = BackgroundTasks()
        self.steps = StepSession(
            agent.jobs.steps,
            agent.jobs.node.ports,
            self.tell,
            make_out=self._streams.make_out,
            drop_out=self._streams.drop_out,
        )
        self._handlers = self._make_handlers()

    async def run(self, take_over: Any) -> None:
        """Exchange Hello and Welcome, then handle messages until the connection ends."""
        try:
            hello = decode(parse_json((await read_frame(self._reader))[1]))
            if not isinstance(hello, wire.Hello):
                raise WireError("the first message must be hello")
            self.start = hello.start
            if self._refuses(hello):
                return
            if hello.version != PROTOCOL_VERSION:
                await self._answer_other_version()
                return
            welcome = await self._agent.welcome(with_past=hello.wants_past)
            if not self._agent.controller.obeys(hello) and self._refuses(hello):
                return  # Another controller has come while the inventory was taken.
            take_over(self)
            self.tell(welcome)
            self._agent.jobs.steps.repeat_fences()  # nothing may be sent before Welcome
            self._agent.monitor.sample_every(hello.sample_interval_s)
            while not self._is_closed:  # A controller that was replaced may have sent more frames before.
                kind, payload = await read_frame(self._reader)
                if self._is_closed:
                    return
                if kind == JSON:
                    self._dispatch(decode(parse_json(payload)))
                else:
                    self._handle_data(*split_data(payload))
        except (asyncio.IncompleteReadError, ConnectionError, WireError) as error:
            if isinstance(error, WireError):
                self._write(json_frame({"t": "stream_end", "stream": 0, "error": str(error)}))

    def _refuses(self, hello: wire.Hello) -> bool:
        """Refuse a controller that the agent does not obey, and return whether it was refused."""
        holder = self._agent.controller.refuses(hello)
        if holder is None:
            self._agent.end_replaced(hello.start)
            return False
        error = refusal(holder, hello.start)
        if hello.start.epoch:
            self.tell(wire.Refused(holder=holder, error=error))
        else:  # An older controller does not know the message.
            self.tell(wire.StreamEnd(stream=0, error=error))
        return True

    async def _answer_other_version(self) -> None:
        """Handle a controller with another protocol version.

        It gets our Welcome, which shows the agent's version. The only message accepted from it is Quit.
        """
        self.tell(await self._agent.welcome())
        message = decode(parse_json((await read_frame(self._reader))[1]))
        if isinstance(message, wire.Quit):
            self._agent.quit()

    def tell(self, message: Any) -> None:
        """Send a message."""
        self._write(json_frame(limit_sizes(encode(message))))

    def close(self) -> None:
        """Close the connection and its streams."""
        self._is_closed = True
        self._streams.close()
        self._uploads.abandon()
        self.steps.close()
        self._background.cancel()
        if not self._writer.is_closing():
            self._frames.flush()
        self._writer.close()

    def _write(self, frame: bytes) -> None:
        if self._writer.is_closing():
            return
        if self._writer.transport.get_write_buffer_size() > MAX_WRITE_BUFFER:
            self._writer.transport.abort()
            return
        self._frames.add(frame)

    def _dispatch(self, message: Any) -> None:
        if not self.steps.handle(message):
            handler = self._handlers.get(type(message))
            if handler is not None:
                handler(message)

    def _make_handlers(self) -> Dict[type, Callable[[Any], object]]:
        """Return the function for each kind of message."""
        agent, jobs = self._agent, self._agent.jobs
        return {
            wire.Launch: agent.launch,
            wire.Kill: jobs.control.kill,
            wire.TakeBack: jobs.queue.revoke,
            wire.Forget: jobs.forgetting.forget,
            wire.StreamAck: self._streams.acknowledge,
            wire.OpenLog: self._streams.open_log,
            wire.OpenPty: self._streams.open_terminal,
            wire.OpenTunnel: self._streams.open_tunnel,
            OpenStep: self._join_step,
            wire.ResizePty: self._streams.resize,
            wire.PutTree: self._uploads.begin,
            wire.StreamEnd: self._end_stream,
            wire.ProbePath: lambda request: self._background.start(self._probe(request)),
            wire.AskHealth: lambda request: self._background.start(self._send_health(request)),
            wire.AskCurves: lambda request: self.tell(agent.monitor.usage.answer(request)),
            wire.AskEvidence: lambda request: self._background.start(self._send_evidence(request)),
            wire.AskLaunches: lambda request: self.tell(jobs.forgetting.answer(request)),
            wire.AskMoment: lambda request: self.tell(agent.monitor.usage.moment(request)),
            wire.SampleEvery: lambda request: agent.monitor.sample_every(request.interval_s),
            wire.Notice: jobs.control.notify,
            wire.SetLimit: jobs.control.set_limit,
            wire.Quit: lambda request: agent.quit(),
            wire.ControllerStops: lambda request: agent.idle_end.controller_stops(),
        }

    def _join_step(self, request: OpenStep) -> None:
        out = self._streams.make_out(request.stream)
        self._streams.run(request.stream, self.steps.join_step(request, out))

    async def _probe(self, request: wire.ProbePath) -> None:
        try:
            found = await self._agent.folders.holds(request.path, request.name, uid=request.uid)
        except LaunchError:
            self.tell(wire.PathProbed(probe=request.probe, found=False, hangs=True))
            return
        self.tell(wire.PathProbed(probe=request.probe, found=found))

    async def _send_health(self, request: wire.AskHealth) -> None:
        self.tell(await self._agent.monitor.health.answer(request))

    async def _send_evidence(self, request: wire.AskEvidence) -> None:
        self.tell(await self._agent.monitor.progress.evidence.answer(request))

    async def _drain(self) -> None:
        async with self._draining:  # before Python 3.11 only one task may wait for a writer
            self._frames.flush()
            await self._writer.drain()

    def _handle_data(self, stream: int, data: bytes) -> None:
        if not self._streams.handle_data(stream, data) and not self.steps.handle_data(stream, data):
            self._uploads.write(stream, data)

    def _end_stream(self, message: wire.StreamEnd) -> None:
        if not self.steps.close_call(message.stream) and not self._streams.cancel(message.stream):
            self._uploads.finish(message.stream)
