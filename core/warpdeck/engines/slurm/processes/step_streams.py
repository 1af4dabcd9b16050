"""The streams of a running srun: its standard streams, as the frames of one task.

srun itself sorts out the output of several tasks, labels it with --label, writes the files of --output and distributes
the input. Its bytes pass unchanged, so nothing that srun prints is lost or parsed.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from warpdeck.base.background_task import background
from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.cluster.polling import Allowance
from warpdeck.engines.slurm.commands import SlurmCommands
from warpdeck.model import ExitStatus
from warpdeck.ports.engine_streams import StepSink, StreamEnd
from warpdeck.protocol.requests import StepOrder
from warpdeck_agent.wire.frames import DATA_CHUNK_BYTES, STREAM_WINDOW_BYTES
from warpdeck_agent.wire.steps import ERR, EVERY_TASK, OUT, TASK_HEADER

from .launcher import Launcher
from .step_marker import StepId

MAX_INPUT_BYTES = 2 * STREAM_WINDOW_BYTES
"""Maximum number of input bytes that srun has not taken yet: the client's window plus one read ahead."""
READ_BYTES = DATA_CHUNK_BYTES - TASK_HEADER.size


class SlurmStep:
    """The `RunningStep` of a gateway.

    `said` is the text that srun printed on its standard error before the step began. `forget` is called when srun has ended.
    """

    def __init__(
        self,
        launcher: Launcher,
        step: StepId,
        *,
        said: bytes,
        reads: bool,
        commands: SlurmCommands,
        allowance: Allowance,
        forget: Callable[[], None],
    ) -> None:
        self.answer: dict[str, Any] = {
            "job_id": step.job_id,
            "step": step.number,
            "tasks": 1,
            "nodes": [],
            "label": False,
            "quiet": False,
            "quits": False,
            "ignores": [],
            "append": False,
            "pty": False,
            "outputs": {},
            "reads": reads,
            "input_rank": EVERY_TASK,
            "inputs": [],
        }
        self._launcher = launcher
        self._step = step
        self._said = said
        self._commands = commands
        self._allowance = allowance
        self._forget = forget
        self._input: deque[bytes] = deque()  # Bounded by MAX_INPUT_BYTES.
        self._unread_bytes = 0
        self._has_input = asyncio.Event()
        self._sink: StepSink | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, sink: StepSink) -> None:
        """Pass data on until srun has ended, then report its exit status."""
        self._sink = sink
        launcher = self._launcher
        try:
            async with background(self._write_input(sink)):
                async with asyncio.TaskGroup() as group:
                    group.create_task(_pass_on(launcher.stdout, OUT, sink))
                    group.create_task(_pass_on(launcher.stderr, ERR, sink, begin=self._said))
                code = await launcher.wait()
        finally:
            if launcher.has_ended:
                self._forget()
        sink.ended(StreamEnd(exit=ExitStatus(code=max(code, 0), signal=max(-code, 0))))

    def incoming(self, data: bytes) -> None:
        """Take input with its header. Raises UserError if it exceeds the window."""
        if len(data) < TASK_HEADER.size or len(data) > DATA_CHUNK_BYTES:
            return
        self._unread_bytes += len(data)
        if self._unread_bytes > MAX_INPUT_BYTES:
            raise UserError("a step was sent more input than its window", "", code="window")
        self._input.append(data)
        self._has_input.set()

    async def order(self, order: StepOrder) -> None:
        """Signal all tasks, end srun, or tell the number of its step."""
        if order.what == "status":
            if self._sink is not None and self._step.is_known:
                self._sink.note(f"StepId={self._step}: running")
        elif order.what == "end":
            self._launcher.signal(signal.SIGTERM)
        elif order.signal and self._step.is_known:
            self._allowance.count_action(1, time.monotonic())
            await self._commands.change(["scancel", f"--signal={order.signal}", str(self._step)])
        elif order.signal:
            self._launcher.signal(order.signal)

    def left(self) -> None:
        """End srun and its tasks, because the client has disconnected."""
        self._spawn(self._end())

    async def _end(self) -> None:
        await self._launcher.end()
        self._forget()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write_input(self, sink: StepSink) -> None:
        """Pass the input on. After the end of the input, or of srun, the rest is dropped."""
        stdin = self._launcher.stdin
        while True:
            while not self._input:
                self._has_input.clear()
                await self._has_input.wait()
            piece = self._input.popleft()
            data = piece[TASK_HEADER.size :]
            try:
                if data:
                    stdin.write(data)
                    await stdin.drain()
                else:
                    stdin.close()
            except (ConnectionError, RuntimeError):
                stdin.close()
            self._unread_bytes -= len(piece)
            sink.taken(len(piece))


async def _pass_on(stream: asyncio.StreamReader, channel: int, sink: StepSink, *, begin: bytes = b"") -> None:
    offset = 0
    while data := begin[:READ_BYTES] or await stream.read(READ_BYTES):
        begin = begin[READ_BYTES:]
        await sink.data(TASK_HEADER.pack(0, channel, offset) + data)
        offset += len(data)
