"""One connection of a controller: dispatches its messages and carries its streams.

The streams are logs, terminals, tunnels and uploaded trees. Invalid data closes only this connection.
"""

from __future__ import annotations

import asyncio
import os
import traceback
from typing import Any, Callable, Dict, Protocol

from warpdeck_agent.attach.inside_job import ProcessStarter
from warpdeck_agent.attach.tunnel import MAX_TUNNELS, TunnelError, TunnelRelay
from warpdeck_agent.code.trees import TreeError, Upload
from warpdeck_agent.code.work_folders import FolderChecks
from warpdeck_agent.launch.background_tasks import BackgroundTasks
from warpdeck_agent.linux.file_reading import LogError, OwnFile
from warpdeck_agent.linux.refusals import LaunchError
from warpdeck_agent.monitor.node_monitor import NodeMonitor
from warpdeck_agent.registry.launch_registry import LaunchRegistry
from warpdeck_agent.streams.log_following import follow
from warpdeck_agent.streams.streams import OutStream
from warpdeck_agent.streams.terminal_relay import Terminal, attach, pump
from warpdeck_agent.users.user_files import UserFileReader
from warpdeck_agent.wire import JSON, WireError, json_frame, read_frame, split_data
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire.fields import limit_sizes
from warpdeck_agent.wire.frames import STREAM_WINDOW_BYTES, parse_json
from warpdeck_agent.wire.messages import PROTOCOL_VERSION, decode, encode
from warpdeck_agent.wire.opening import NOT_KEPT
from warpdeck_agent.wire.outbox import Outbox
from warpdeck_agent.wire.steps import OpenStep

from .step_session import StepSession

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
    entrance: ProcessStarter

    async def welcome(self) -> wire.Welcome: ...
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
        self._out: Dict[int, OutStream] = {}
        self._stream_tasks: Dict[int, asyncio.Task[None]] = {}
        self._terminals: Dict[int, Terminal] = {}
        self._tunnels: Dict[int, TunnelRelay] = {}
        self._draining = asyncio.Lock()
        writer.transport.set_write_buffer_limits(high=STREAM_BUFFER_BYTES)
        self._uploads: Dict[int, Upload] = {}
        self._upload_names: Dict[int, str] = {}
        self._background = BackgroundTasks()
        self.steps = StepSession(
            agent.jobs.steps,
            agent.jobs.node.ports,
            self.tell,
            make_out=self._out_stream,
            drop_out=self._drop_out,
        )
        self._handlers = self._make_handlers()

    async def run(self, take_over: Any) -> None:
        """Exchange Hello and Welcome, then handle messages until the connection ends."""
        try:
            hello = decode(parse_json((await read_frame(self._reader))[1]))
            if not isinstance(hello, wire.Hello):
                raise WireError("the first message must be hello")
            if hello.version != PROTOCOL_VERSION:
                await self._answer_other_version()
                return
            welcome = await self._agent.welcome()
            take_over(self)
            self.tell(welcome)
            self._agent.jobs.steps.repeat_fences()  # nothing may be sent before Welcome
            self._agent.monitor.sample_every(hello.sample_interval_s)
            while True:
                kind, payload = await read_frame(self._reader)
                if kind == JSON:
                    self._dispatch(decode(parse_json(payload)))
                else:
                    self._handle_data(*split_data(payload))
        except (asyncio.IncompleteReadError, ConnectionError, WireError) as error:
            if isinstance(error, WireError):
                self._write(json_frame({"t": "stream_end", "stream": 0, "error": str(error)}))

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
        for terminal in self._terminals.values():
            terminal.close()
        for upload in self._uploads.values():
            upload.abandon()
        self._uploads.clear()
        self.steps.close()
        self._background.cancel()
        for task in self._stream_tasks.values():
            task.cancel()
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
            wire.StreamAck: self._acknowledge,
            wire.OpenLog: lambda request: self._open_out(request, self._send_log),
            wire.OpenPty: lambda request: self._open_out(request, self._send_terminal),
            wire.OpenTunnel: self._open_tunnel,
            OpenStep: self._join_step,
            wire.ResizePty: self._resize,
            wire.PutTree: self._begin_upload,
            wire.StreamEnd: self._end_stream,
            wire.ProbePath: lambda request: self._background.start(self._probe(request)),
            wire.AskHealth: lambda request: self._background.start(self._send_health(request)),
            wire.AskCurves: lambda request: self.tell(agent.monitor.usage.answer(request)),
            wire.AskMoment: lambda request: self.tell(agent.monitor.usage.moment(request)),
            wire.SampleEvery: lambda request: agent.monitor.sample_every(request.interval_s),
            wire.Notice: jobs.control.notify,
            wire.SetLimit: jobs.control.set_limit,
            wire.Quit: lambda request: agent.quit(),
        }

    def _acknowledge(self, message: wire.StreamAck) -> None:
        if message.stream in self._out:
            self._out[message.stream].acknowledge(message.size)

    def _open_out(self, request: Any, send: Callable[[Any], Any]) -> None:
        self._out_stream(request.stream)
        self._open_stream(request.stream, send(request))

    def _join_step(self, request: OpenStep) -> None:
        out = self._out_stream(request.stream)
        self._open_stream(request.stream, self.steps.join_step(request, out))

    def _resize(self, request: wire.ResizePty) -> None:
        if request.stream in self._terminals:
            self._terminals[request.stream].resize(request.rows, request.cols)

    async def _probe(self, request: wire.ProbePath) -> None:
        try:
            found = await self._agent.folders.holds(request.path, request.name, uid=request.uid)
        except LaunchError:
            self.tell(wire.PathProbed(probe=request.probe, found=False, hangs=True))
            return
        self.tell(wire.PathProbed(probe=request.probe, found=found))

    async def _send_health(self, request: wire.AskHealth) -> None:
        self.tell(await self._agent.monitor.health.answer(request))

    def _open_tunnel(self, request: wire.OpenTunnel) -> None:
        if len(self._tunnels) >= MAX_TUNNELS:
            self.tell(
                wire.StreamEnd(
                    stream=request.stream,
                    error=f"{MAX_TUNNELS} tunnels to the node are open, the limit; close one first",
                )
            )
            return
        out = self._out_stream(request.stream)
        tunnel = self._tunnels[request.stream] = TunnelRelay(out, self.tell, entrance=self._agent.entrance)
        launch = self._agent.jobs.launches.find(request.job_id, request.restarts)
        self._open_stream(request.stream, tunnel.serve(request, launch))

    def _out_stream(self, stream: int, window_bytes: int = STREAM_WINDOW_BYTES) -> OutStream:
        out = self._out[stream] = OutStream(
            stream, self._write, self.tell, drain=self._drain, window_bytes=window_bytes
        )
        return out

    def _drop_out(self, stream: int) -> None:
        self._out.pop(stream, None)

    async def _drain(self) -> None:
        async with self._draining:  # before Python 3.11 only one task may wait for a writer
            self._frames.flush()
            await self._writer.drain()

    def _open_stream(self, stream: int, work: Any) -> None:
        self._stream_tasks[stream] = asyncio.get_running_loop().create_task(self._run_stream(stream, work))

    async def _run_stream(self, stream: int, work: Any) -> None:
        error = code = ""
        try:
            await work
        except LogError as problem:
            error, code = str(problem), problem.code
        except (TunnelError, WireError, OSError) as problem:
            error = str(problem)
        except Exception:
            error = "an internal error of the agent; see agent.log in its folder"
            traceback.print_exc()
        finally:
            out = self._out.pop(stream, None)
            self._stream_tasks.pop(stream, None)
            self._tunnels.pop(stream, None)
            terminal = self._terminals.pop(stream, None)
            if terminal is not None:
                terminal.close()
        if out is not None:
            out.end(error, code)

    async def _send_log(self, request: wire.OpenLog) -> None:
        out = self._out[request.stream]
        launch = self._agent.jobs.launches.find(request.job_id, request.restarts)
        if launch is not None:
            path, uid = launch.output(request.channel), launch.meta.uid
            is_own = os.path.dirname(path) == launch.folder.path
        else:
            kept = self._agent.jobs.forgetting.kept_output(request.job_id, request.restarts, request.channel)
            path, uid, is_own = kept or request.path, request.uid, bool(kept)
        over = _long_ago() if launch is None else launch.end.reported
        ended = over if request.follow else _long_ago()
        if not path or path.startswith("spool:"):
            raise LogError("the output was not kept on this node", code=NOT_KEPT)
        file = OwnFile(path) if is_own else UserFileReader(path, uid)
        await follow(out, self.tell, file, path=path, offset=request.offset, ended=ended, over=over)

    async def _send_terminal(self, request: wire.OpenPty) -> None:
        out = self._out[request.stream]
        launch = self._agent.jobs.launches.find(request.job_id, request.restarts)
        if launch is None or not launch.meta.pty or launch.phase != "running":
            raise LogError("the terminal has ended")
        terminal, reader, opened = await attach(launch.folder.path, request, uid=launch.meta.uid)
        self._terminals[request.stream] = terminal
        self.tell(opened)
        await pump(out, reader)

    def _handle_data(self, stream: int, data: bytes) -> None:
        terminal = self._terminals.get(stream)
        if terminal is not None:
            terminal.type(data)
            return
        if stream in self._tunnels:
            self._tunnels[stream].feed(data)
            return
        if self.steps.handle_data(stream, data):
            return
        upload = self._uploads.get(stream)
        if upload is None:
            return
        try:
            upload.write(data)
            self.tell(wire.StreamAck(stream=stream, size=len(data)))
        except (TreeError, OSError) as error:
            self._fail_upload(stream, str(error))

    def _begin_upload(self, put: wire.PutTree) -> None:
        self._upload_names[put.stream] = put.sha256
        try:
            self._uploads[put.stream] = self._agent.upload(put)
        except (TreeError, OSError) as error:
            self._fail_upload(put.stream, str(error))

    def _fail_upload(self, stream: int, error: str) -> None:
        upload = self._uploads.pop(stream, None)
        if upload is not None:
            upload.abandon()
        self.tell(wire.StreamEnd(stream=stream, error=error))
        self._agent.tree_arrived(self._upload_names.pop(stream), f"the job's code did not arrive: {error}")

    def _end_stream(self, message: wire.StreamEnd) -> None:
        if self.steps.close_call(message.stream):
            return
        task = self._stream_tasks.get(message.stream)
        if task is not None:
            task.cancel()
            self._out.pop(message.stream, None)
            return
        upload = self._uploads.pop(message.stream, None)
        if upload is None:
            return
        try:
            upload.finish()
        except (TreeError, OSError) as error:
            self._agent.tree_arrived(self._upload_names.pop(message.stream), str(error))
            return
        self._agent.tree_arrived(self._upload_names.pop(message.stream), "")


def _long_ago() -> asyncio.Event:
    """Return an event that is already set, for jobs that are not running."""
    ended = asyncio.Event()
    ended.set()
    return ended
