"""Serves the terminals and tunnels of one job to a gateway to Slurm, on standard input and output.

  gateway FOLDER

The gateway runs this program as a step of the job. It uses the messages of the agent (OpenPty, OpenTunnel, ResizePty,
StreamAck, StreamEnd) and one connection for all streams, because each step costs slurmctld a request. Programs of tunnels
start in the folder. The program ends with its standard input.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import threading
from typing import Any, Callable, Coroutine, Dict, List

from warpdeck_agent.linux.file_reading import LogError
from warpdeck_agent.streams.byte_relay import ByteRelay, TunnelError, connect_to_port
from warpdeck_agent.streams.streams import OutStream
from warpdeck_agent.streams.terminal_relay import Terminal, attach, pump
from warpdeck_agent.wire import WireError
from warpdeck_agent.wire.frames import JSON, SENTINEL, json_frame, parse_json, read_frame, split_data
from warpdeck_agent.wire.messages import (
    OpenPty,
    OpenTunnel,
    ResizePty,
    StreamAck,
    StreamEnd,
    StreamOpened,
    decode,
    encode,
)
from warpdeck_agent.wire.outbox import Outbox

from . import terminal_folder
from .joined_process import JobProcess, raise_if_failed

START_S = 20.0
"""How long the terminal of a job that has just begun may take to appear, in seconds."""
LOOK_S = 0.1
READ_BYTES = 64 * 1024
MAX_STREAMS = 512
"""The most streams of one gateway; each costs a few descriptors."""


class GatewaySession:
    """The streams of one gateway. `folder` is where programs start."""

    def __init__(self, writer: asyncio.StreamWriter, folder: str) -> None:
        self._writer = writer
        self._folder = folder
        self._outbox = Outbox(writer.write)
        self._draining = asyncio.Lock()
        self._out: Dict[int, OutStream] = {}
        self._tasks: Dict[int, asyncio.Task[None]] = {}
        self._terminals: Dict[int, Terminal] = {}
        self._relays: Dict[int, ByteRelay] = {}

    async def serve(self, reader: asyncio.StreamReader) -> None:
        """Handle messages until the input ends."""
        try:
            while True:
                kind, payload = await read_frame(reader)
                if kind == JSON:
                    self._handle(decode(parse_json(payload)))
                else:
                    self._handle_data(*split_data(payload))
        except (asyncio.IncompleteReadError, ConnectionError, WireError):
            return
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _tell(self, message: Any) -> None:
        self._outbox.add(json_frame(encode(message)))

    async def _drain(self) -> None:
        async with self._draining:  # before Python 3.11 only one task may wait for a writer
            self._outbox.flush()
            await self._writer.drain()

    def _handle(self, message: Any) -> None:
        if isinstance(message, OpenPty):
            self._start(message.stream, lambda out: self._join_terminal(message, out))
        elif isinstance(message, OpenTunnel):
            self._start(message.stream, lambda out: self._open_tunnel(message, self._new_relay(out)))
        elif isinstance(message, ResizePty) and message.stream in self._terminals:
            self._terminals[message.stream].resize(message.rows, message.cols)
        elif isinstance(message, StreamAck) and message.stream in self._out:
            self._out[message.stream].acknowledge(message.size)
        elif isinstance(message, StreamEnd) and message.stream in self._tasks:
            self._out.pop(message.stream, None)
            self._tasks[message.stream].cancel()

    def _handle_data(self, stream: int, data: bytes) -> None:
        if stream in self._terminals:
            self._terminals[stream].type(data)
        elif stream in self._relays:
            self._relays[stream].feed(data)

    def _start(self, stream: int, work: Callable[[OutStream], Coroutine[Any, Any, None]]) -> None:
        if len(self._tasks) >= MAX_STREAMS:
            error = f"{MAX_STREAMS} streams to the job are open, the limit; close one first"
            self._tell(StreamEnd(stream=stream, error=error))
            return
        out = self._out[stream] = OutStream(stream, self._outbox.add, self._tell, drain=self._drain)
        self._tasks[stream] = asyncio.get_running_loop().create_task(self._run(stream, work(out)))

    async def _run(self, stream: int, work: Coroutine[Any, Any, None]) -> None:
        error = code = ""
        try:
            await work
        except LogError as problem:
            error, code = str(problem), problem.code
        except (TunnelError, WireError, OSError) as problem:
            error = str(problem)
        finally:
            out = self._out.pop(stream, None)
            self._tasks.pop(stream, None)
            self._relays.pop(stream, None)
            terminal = self._terminals.pop(stream, None)
            if terminal is not None:
                terminal.close()
        if out is not None:
            out.end(error, code)

    async def _join_terminal(self, request: OpenPty, out: OutStream) -> None:
        folder = await _terminal_of_this_job()
        terminal, reader, opened = await attach(folder, request, uid=os.getuid())
        self._terminals[request.stream] = terminal
        self._tell(opened)
        await pump(out, reader)

    def _new_relay(self, out: OutStream) -> ByteRelay:
        """Return a relay that takes data from now on."""
        relay = self._relays[out.stream] = ByteRelay(out, self._tell)
        return relay

    async def _open_tunnel(self, request: OpenTunnel, relay: ByteRelay) -> None:
        if request.port:
            link = await connect_to_port(request.port, os.getuid())
            with contextlib.closing(link):
                self._tell(StreamOpened(stream=request.stream))
                await relay.relay(link, until_both=True)
            return
        process = self._start_process(request)
        listening = asyncio.get_running_loop().create_task(process.listen())
        try:
            self._tell(StreamOpened(stream=request.stream))
            await relay.relay(process.link, until_both=False)
            await raise_if_failed(process)
        finally:
            listening.cancel()
            process.hang_up()
            process.close()

    def _start_process(self, request: OpenTunnel) -> JobProcess:
        """Start the program of a tunnel. Raises TunnelError."""
        given, own = request.env or dict(os.environ), dict(os.environ)
        env = {
            **given,
            **{name: value for name, value in own.items() if name.startswith(("SLURM_", "CUDA_"))},
        }
        ours, theirs = socket.socketpair()
        errors, their_errors = socket.socketpair()
        try:
            process = subprocess.Popen(
                request.argv,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=their_errors.fileno(),
                start_new_session=True,
                env=env,
                cwd=self._folder if os.path.isdir(self._folder) else "/",
            )
        except (OSError, ValueError) as error:
            ours.close()
            errors.close()
            raise TunnelError(f"cannot start a process in the job: {error}") from error
        finally:
            theirs.close()
            their_errors.close()
        for link in (ours, errors):
            link.setblocking(False)
        return JobProcess(process, ours, errors)


async def _terminal_of_this_job() -> str:
    """Return the folder of the job's terminal, and wait for it if the job has just begun. Raises LogError."""
    key = terminal_folder.key_of(os.environ)
    deadline = asyncio.get_running_loop().time() + START_S
    while True:
        folder = terminal_folder.find(key)
        if folder is not None:
            return folder
        if asyncio.get_running_loop().time() > deadline:
            raise LogError("the terminal has ended, or it could not be started on this node")
        await asyncio.sleep(LOOK_S)


async def _serve(link: socket.socket, folder: str) -> None:
    reader, writer = await asyncio.open_connection(sock=link)
    # A task prolog may have printed something before.
    writer.write(f"\n{SENTINEL}ready\n".encode())
    try:
        await GatewaySession(writer, folder).serve(reader)
        await writer.drain()
    except ConnectionError:
        return
    finally:
        writer.close()


def main(argv: List[str]) -> int:
    """Serve until the input ends.

    Threads copy between the standard streams and a socket, because the event loop cannot use every kind of file.
    """
    ours, theirs = socket.socketpair()
    incoming = threading.Thread(target=_copy_input, args=(theirs,), daemon=True)
    outgoing = threading.Thread(target=_copy_output, args=(theirs,), daemon=True)
    for thread in (incoming, outgoing):
        thread.start()
    asyncio.run(_serve(ours, argv[0]))
    outgoing.join()
    return 0


def _copy_input(link: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := os.read(0, READ_BYTES):
            link.sendall(data)
    with contextlib.suppress(OSError):
        link.shutdown(socket.SHUT_WR)


def _copy_output(link: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := link.recv(READ_BYTES):
            view = memoryview(data)
            while view:
                view = view[os.write(1, view) :]
    with contextlib.suppress(OSError):  # Nobody reads the output, so the session must end.
        link.shutdown(socket.SHUT_RDWR)
