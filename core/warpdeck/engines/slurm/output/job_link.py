"""A connection to a running job: a step of srun that carries frames in its standard streams.

The program of the step is `gateway` of the agent. All streams to one node of a job share one step, because each step costs
slurmctld a request. Its bytes flow between srun and the node, so they need no slurmctld.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import os
import signal
from collections.abc import Callable
from contextlib import suppress

from warpdeck.base.background_task import cancel
from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.commands import UNREACHABLE, SlurmCommands, command_error
from warpdeck.fleet.channel_streams import ChannelStream, ChannelStreams
from warpdeck.fleet.frame_writer import FrameWriter
from warpdeck.fleet.inbound import decode
from warpdeck.ports.ports import StreamSink
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire.frames import JSON, SENTINEL, WireError, read_frame, split_data

OPEN_S = 90.0
"""Seconds that srun may take to start the step. slurmctld may answer after 10 s, and a node may be slow."""
CLOSE_S = 5.0
IDLE_S = 30.0
"""Seconds for which a step without streams is kept, because a page of a notebook opens many streams one after the other."""
YIELD_BYTES = 64 * 1024
"""Bytes that are processed without yielding to the event loop."""
MAX_ERROR_BYTES = 16 * 1024
MAX_NOISE_LINES = 500
"""Maximum number of lines that a task prolog may print before the program's first line."""
_NOISE = ("lacks support for cpu binding", "step creation temporarily disabled, retrying")


class JobLink:
    """One open connection. `on_end` is called when it has ended or was closed."""

    def __init__(self, process: asyncio.subprocess.Process, on_end: Callable[[], None]) -> None:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self._process = process
        self._stdout, self._stderr = process.stdout, process.stderr
        self._frames = FrameWriter(process.stdin, process.stdin.transport)
        self._streams = ChannelStreams(self._frames)
        self._ids = itertools.count(1)
        self._on_end = on_end
        self._users = 0
        self._errors = bytearray()
        self._tasks: list[asyncio.Task[None]] = []
        self._closing: asyncio.TimerHandle | None = None
        self._is_closing = False

    async def begin(self) -> None:
        """Wait until the program runs on the node. Raises UserError in Slurm's words."""
        self._tasks.append(asyncio.create_task(self._read_errors()))
        try:
            async with asyncio.timeout(OPEN_S):
                for _ in range(MAX_NOISE_LINES):
                    line = await self._stdout.readline()
                    if line.startswith(SENTINEL.encode()):
                        break
                    if not line:
                        await self._process.wait()
                        await asyncio.wait(self._tasks)
                        raise self.error()
        except TimeoutError as error:
            said = f": {self.error().message}" if self._errors else ""
            raise UserError(
                f"srun did not start a step within {OPEN_S:.0f} s{said}",
                "The node or slurmctld may be overloaded.",
                code=UNREACHABLE,
            ) from error
        except ValueError as error:
            raise UserError("a task prolog printed a line that is too long") from error
        self._tasks.append(asyncio.create_task(self._read()))

    @property
    def has_ended(self) -> bool:
        """Whether no more streams can be opened."""
        return self._is_closing or self._streams.has_ended

    def open(self, message: wire.OpenPty | wire.OpenTunnel, sink: StreamSink) -> ChannelStream:
        """Open a terminal or a tunnel. `release` must be called when it has ended."""
        self._users += 1
        if self._closing is not None:
            self._closing.cancel()
        stream = next(self._ids)
        if isinstance(message, wire.OpenTunnel):
            self._streams.add_credit(stream)
        self._frames.send(dataclasses.replace(message, stream=stream))
        return self._streams.accept(stream, sink)

    def release(self) -> None:
        """Note that a stream has ended. The connection is closed if it stays without streams."""
        self._users -= 1
        if not self._users and not self.has_ended:
            self._closing = asyncio.get_running_loop().call_later(IDLE_S, self._end_input)

    def _end_input(self) -> None:
        """Close the input of the program, which then ends."""
        self._is_closing = True
        self._frames.close()

    def error(self) -> UserError:
        """Return the error for a step that has ended, in srun's words."""
        lines = self._errors.decode(errors="replace").splitlines()
        return command_error(
            "srun", "\n".join(line for line in lines if not any(each in line for each in _NOISE))
        )

    async def close(self) -> None:
        """End the step."""
        if self._closing is not None:
            self._closing.cancel()
        self._end_input()
        await self._end_process()
        await cancel(*self._tasks)

    async def _read(self) -> None:
        read_bytes = 0
        try:
            while True:
                kind, payload = await read_frame(self._stdout)
                read_bytes += len(payload)
                if read_bytes > YIELD_BYTES:  # A reader with buffered data returns without suspending.
                    read_bytes = 0
                    await asyncio.sleep(0)
                if kind == JSON:
                    self._take(decode(payload))
                else:
                    stream, data = split_data(payload)
                    self._streams.put(stream, data, len(data))
        except (asyncio.IncompleteReadError, OSError, WireError):
            pass
        finally:
            self._streams.end_all()
            self._on_end()
        await self._end_process()

    def _take(self, message: object) -> None:
        match message:
            case wire.StreamOpened(stream=stream) | wire.StreamEnd(stream=stream):
                self._streams.put(stream, message, 0)
            case wire.StreamAck(stream=stream, size=size):
                self._streams.acknowledge(stream, size)
            case _:
                raise WireError(f"an unexpected message {message!r}"[:200])

    async def _read_errors(self) -> None:
        while data := await self._stderr.read(MAX_ERROR_BYTES):
            self._errors += data
            del self._errors[:-MAX_ERROR_BYTES]

    async def _end_process(self) -> None:
        """Wait until srun has ended, and end it if it takes too long."""
        for number in (0, signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                if number:
                    os.killpg(self._process.pid, number)
            try:
                async with asyncio.timeout(CLOSE_S):
                    await self._process.wait()
                return
            except TimeoutError:
                continue


def srun_arguments(job_id: int, node: str, *, shares_gpus: bool) -> list[str]:
    """Return the arguments of srun for a step beside all others of the job, which starts at once.

    --mem=0 uses the memory of the job without reserving it. Without `shares_gpus` the step has no GPUs, because it would
    wait for those that another step has.
    """
    gpus = [] if shares_gpus else ["--gres=none"]
    return [
        "srun",
        f"--jobid={job_id}",
        f"--nodelist={node}",
        *("--nodes=1", "--ntasks=1", "--overlap", "--mem=0", "--mpi=none", "--cpu-bind=none", *gpus),
        *("--unbuffered", "--quiet", "--chdir=/", "--job-name=warpdeck"),
    ]


async def start_link(commands: SlurmCommands, argv: list[str], on_end: Callable[[], None]) -> JobLink:
    """Start srun and wait until its program runs. Raises UserError."""
    link = JobLink(await commands.connect(argv, environ=commands.plain_environ()), on_end)
    try:
        await link.begin()
    except BaseException:
        await link.close()
        raise
    return link
