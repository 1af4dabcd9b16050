"""The streams of one controller connection that carry the output, terminals, tunnels and steps of jobs."""

from __future__ import annotations

import asyncio
import os
import traceback
from typing import Any, Awaitable, Callable, Coroutine, Dict

from warpdeck_agent.attach.inside_job import ProcessStarter
from warpdeck_agent.attach.tunnel import MAX_TUNNELS, TunnelRelay
from warpdeck_agent.linux.file_reading import LogError, OwnFile
from warpdeck_agent.registry.launch_registry import LaunchRegistry
from warpdeck_agent.streams.byte_relay import TunnelError
from warpdeck_agent.streams.log_following import follow
from warpdeck_agent.streams.streams import OutStream
from warpdeck_agent.streams.terminal_relay import Terminal, attach, pump
from warpdeck_agent.users.user_files import UserFileReader
from warpdeck_agent.wire import WireError
from warpdeck_agent.wire.frames import STREAM_WINDOW_BYTES
from warpdeck_agent.wire.messages import OpenLog, OpenPty, OpenTunnel, ResizePty, StreamAck, StreamEnd
from warpdeck_agent.wire.opening import NOT_KEPT


class JobStreams:
    """The open streams. `write` sends a frame, `tell` a message, and `drain` waits until there is space."""

    def __init__(
        self,
        jobs: LaunchRegistry,
        process_starter: ProcessStarter,
        write: Callable[[bytes], None],
        tell: Callable[[Any], None],
        *,
        drain: Callable[[], Awaitable[None]],
    ) -> None:
        self._jobs = jobs
        self._process_starter = process_starter
        self._write = write
        self._tell = tell
        self._drain = drain
        self._out: Dict[int, OutStream] = {}
        self._tasks: Dict[int, asyncio.Task[None]] = {}
        self._terminals: Dict[int, Terminal] = {}
        self._tunnels: Dict[int, TunnelRelay] = {}

    def make_out(self, stream: int, window_bytes: int = STREAM_WINDOW_BYTES) -> OutStream:
        """Return a new outgoing stream with this id."""
        out = self._out[stream] = OutStream(
            stream, self._write, self._tell, drain=self._drain, window_bytes=window_bytes
        )
        return out

    def drop_out(self, stream: int) -> None:
        """Forget an outgoing stream."""
        self._out.pop(stream, None)

    def acknowledge(self, message: StreamAck) -> None:
        """Handle the acknowledgment of data on an outgoing stream."""
        if message.stream in self._out:
            self._out[message.stream].acknowledge(message.size)

    def open_log(self, request: OpenLog) -> None:
        """Stream the output of a job."""
        self.run(request.stream, self._send_log(request, self.make_out(request.stream)))

    def open_terminal(self, request: OpenPty) -> None:
        """Attach a viewer to the terminal of a job."""
        self.run(request.stream, self._send_terminal(request, self.make_out(request.stream)))

    def open_tunnel(self, request: OpenTunnel) -> None:
        """Open a tunnel to a port of the node, or to a new process in a job."""
        if len(self._tunnels) >= MAX_TUNNELS:
            error = f"{MAX_TUNNELS} tunnels to the node are open, the limit; close one first"
            self._tell(StreamEnd(stream=request.stream, error=error))
            return
        out = self.make_out(request.stream)
        tunnel = TunnelRelay(out, self._tell, process_starter=self._process_starter)
        self._tunnels[request.stream] = tunnel
        launch = self._jobs.launches.find(request.job_id, request.restarts)
        self.run(request.stream, tunnel.serve(request, launch))

    def resize(self, request: ResizePty) -> None:
        """Set the size of a viewer's terminal."""
        if request.stream in self._terminals:
            self._terminals[request.stream].resize(request.rows, request.cols)

    def handle_data(self, stream: int, data: bytes) -> bool:
        """Pass data on if its stream is a terminal or a tunnel. Returns whether it is."""
        if stream in self._terminals:
            self._terminals[stream].type(data)
        elif stream in self._tunnels:
            self._tunnels[stream].feed(data)
        else:
            return False
        return True

    def run(self, stream: int, work: Coroutine[Any, Any, None]) -> None:
        """Run the work of a stream as a task. The stream ends with it."""
        self._tasks[stream] = asyncio.get_running_loop().create_task(self._run(stream, work))

    def cancel(self, stream: int) -> bool:
        """End a stream at the controller's request. Returns False if there is no stream with this id."""
        task = self._tasks.get(stream)
        if task is None:
            return False
        task.cancel()
        self._out.pop(stream, None)
        return True

    def close(self) -> None:
        """End all streams, because the connection has ended."""
        for terminal in self._terminals.values():
            terminal.close()
        for task in self._tasks.values():
            task.cancel()

    async def _run(self, stream: int, work: Coroutine[Any, Any, None]) -> None:
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
            self._tasks.pop(stream, None)
            self._tunnels.pop(stream, None)
            terminal = self._terminals.pop(stream, None)
            if terminal is not None:
                terminal.close()
        if out is not None:
            out.end(error, code)

    async def _send_log(self, request: OpenLog, out: OutStream) -> None:
        launch = self._jobs.launches.find(request.job_id, request.restarts)
        if launch is not None:
            path, uid = launch.output(request.channel), launch.meta.uid
            is_own = os.path.dirname(path) == launch.folder.path
        else:
            kept = self._jobs.forgetting.kept_output(request.job_id, request.restarts, request.channel)
            path, uid, is_own = kept or request.path, request.uid, bool(kept)
        over = _event_that_is_set() if launch is None else launch.end.reported
        ended = over if request.follow else _event_that_is_set()
        if not path or path.startswith("spool:"):
            raise LogError("the output was not kept on this node", code=NOT_KEPT)
        file = OwnFile(path) if is_own else UserFileReader(path, uid)
        await follow(out, self._tell, file, path=path, offset=request.offset, ended=ended, over=over)

    async def _send_terminal(self, request: OpenPty, out: OutStream) -> None:
        launch = self._jobs.launches.find(request.job_id, request.restarts)
        if launch is None or not launch.meta.pty or launch.phase != "running":
            raise LogError("the terminal has ended")
        terminal, reader, opened = await attach(launch.folder.path, request, uid=launch.meta.uid)
        self._terminals[request.stream] = terminal
        self._tell(opened)
        await pump(out, reader)


def _event_that_is_set() -> asyncio.Event:
    """Return the event "the job has ended" of a job that is not running."""
    ended = asyncio.Event()
    ended.set()
    return ended
