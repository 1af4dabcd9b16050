"""The streams of a running srun: its standard streams, as the frames of one task.

srun itself sorts out the output of several tasks, labels it with --label, writes the files of --output and distributes
the input. Its bytes pass unchanged, so nothing that srun prints is lost or parsed. The keeper of the srun counts them,
so that a client continues at the same byte after this gateway has ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.cluster.polling import Allowance
from warpdeck.engines.slurm.commands import SlurmCommands
from warpdeck.model import ExitStatus
from warpdeck.ports.engine_streams import StepSink, StreamEnd
from warpdeck.protocol.requests import StepOrder
from warpdeck_agent.wire.frames import DATA_CHUNK_BYTES, STREAM_WINDOW_BYTES
from warpdeck_agent.wire.steps import EVERY_TASK, TASK_HEADER

from .kept_commands import KeptCommand, StepId

MAX_INPUT_BYTES = 2 * STREAM_WINDOW_BYTES
"""Maximum number of input bytes that srun has not taken yet: the client's window plus one read ahead."""
END_S = 15.0
"""Seconds to wait for the end of an srun after its client has left. Its keeper kills it sooner."""


class SlurmStep:
    """The `RunningStep` of a gateway.

    `leaves` tells whether a client that leaves ends its step, which it does not while the gateway stops. `forget` is
    called when srun has ended.
    """

    def __init__(
        self,
        kept: KeptCommand,
        step: StepId,
        *,
        reads: bool,
        has_terminal: bool,
        commands: SlurmCommands,
        allowance: Allowance,
        leaves: Callable[[], bool],
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
            "pty": has_terminal,
            "outputs": {},
            "reads": reads,
            "input_rank": EVERY_TASK,
            "inputs": [],
        }
        self._kept = kept
        self._step = step
        self._commands = commands
        self._allowance = allowance
        self._leaves = leaves
        self._forget = forget
        self._unread_bytes = 0
        self._sink: StepSink | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, sink: StepSink) -> None:
        """Pass data on until srun has ended, then report its exit status."""
        self._sink = sink
        try:
            exited = await self._pass_on(sink)
        except UserError as error:
            self._finish()
            sink.ended(StreamEnd(error.message, exit=ExitStatus(code=1)))
            return
        sink.ended(StreamEnd(exit=exited))
        self._finish()

    async def _pass_on(self, sink: StepSink) -> ExitStatus:
        """Pass data on, and return how srun ended. Raises UserError if its keeper was killed."""
        while True:
            match await self._kept.read():
                case bytes() as piece:
                    await sink.data(piece)
                case {"t": "taken", "size": int() as size}:
                    self._unread_bytes -= size
                    sink.taken(size)
                case {"t": "exit", "code": int() as code, "signal": int() as number}:
                    return ExitStatus(code=code, signal=number)

    def _finish(self) -> None:
        self._kept.tell("forget")
        self._kept.close()
        self._forget()

    def incoming(self, data: bytes) -> None:
        """Take input with its header. Raises UserError if it exceeds the window."""
        if len(data) < TASK_HEADER.size or len(data) > DATA_CHUNK_BYTES:
            return
        self._unread_bytes += len(data)
        if self._unread_bytes > MAX_INPUT_BYTES:
            raise UserError("a step was sent more input than its window", "", code="window")
        self._kept.give(data)

    async def order(self, order: StepOrder) -> None:
        """Signal all tasks, end srun, or tell the number of its step."""
        if order.what == "status":
            if self._sink is not None and self._step.is_known:
                self._sink.note(f"StepId={self._step}: running")
        elif order.what == "end":
            self._kept.tell("end")
        elif order.signal and self._step.is_known:
            self._allowance.count_action(1, time.monotonic())
            await self._commands.change(["scancel", f"--signal={order.signal}", str(self._step)])
        elif order.signal:
            self._kept.tell("signal", number=order.signal)

    def left(self) -> None:
        """End srun and its tasks, because the client has disconnected. While the gateway stops, srun is kept."""
        if self._leaves():
            self._spawn(self._end())
        else:
            self._kept.close()

    async def _end(self) -> None:
        self._kept.tell("leave")
        with suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await self._kept.ended()
        self._kept.close()
        self._forget()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
