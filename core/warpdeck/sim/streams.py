"""Streams of a simulated node: a job's output as it would be up to now, or its terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from warpdeck.ports.ports import StreamSink
from warpdeck_agent.wire import messages as wire

from . import output
from .shell import SimShell

LOOK_S = 0.25
Written = tuple[wire.Launch, wire.JobReport]


class LogStream:
    """Output of one line per second from the job's start to its end."""

    def __init__(
        self, written: Written | None, asked: wire.OpenLog, sink: StreamSink, clock: Callable[[], float]
    ) -> None:
        self._written = written
        self._asked = asked
        self._sink = sink
        self._clock = clock
        self._closed = False

    async def run(self, look: Callable[[], Written | None]) -> None:
        """Write the existing output, then new lines until the job ends. `look` returns the present launch."""
        await self._sink.opened(0, 0, "simulated")
        told = 0
        while self._written is not None and not self._closed:
            launch, said = self._written
            lines = self._lines(launch, said, after=told)
            told += len(lines)
            if lines:
                await self._sink.data("".join(f"{line}\n" for line in lines).encode())
            if said.phase == "exited" or not self._asked.follow:
                break
            await asyncio.sleep(LOOK_S)
            self._written = look()
        await self._sink.ended("")

    def _lines(self, launch: wire.Launch, said: wire.JobReport, *, after: int) -> list[str]:
        name = launch.env.get("SLURM_JOB_NAME", "")
        host = launch.env.get("SLURMD_NODENAME", "")
        head = output.opening(name, host=host, gpus=len(launch.gpus))
        ended = said.phase == "exited"
        until = said.ended_at if ended else self._clock()
        written = int(max(0.0, until - said.started_at) / output.LINE_S)
        first = max(0, after - len(head))
        lines = head[after:] + [
            output.line(name, launch.job_id, number + 1) for number in range(first, written)
        ]
        return lines + output.ending(name, code=said.exit_code, cause=said.cause) if ended else lines

    async def write(self, data: bytes) -> None:
        return None

    async def resize(self, rows: int, cols: int) -> None:
        return None

    async def close(self) -> None:
        self._closed = True


class TerminalStream:
    """One client that is attached to a simulated shell."""

    def __init__(self, shell: SimShell, sink: StreamSink, *, on_exit: Callable[[], None]) -> None:
        self._shell = shell
        self._sink = sink
        self._on_exit = on_exit
        self._closed = False

    async def run(self, runs: Callable[[], bool]) -> None:
        """Show the terminal's output. The stream ends with the shell, or when `runs` returns False."""
        await self._sink.opened(0, len(self._shell.scrollback), "")
        await self._sink.data(self._shell.scrollback)
        while not self._closed and not self._shell.ended and runs():
            await asyncio.sleep(LOOK_S)
        await self._sink.ended("")

    async def write(self, data: bytes) -> None:
        await self._sink.data(self._shell.feed(data))
        if self._shell.ended:
            self._on_exit()

    async def resize(self, rows: int, cols: int) -> None:
        return None

    async def close(self) -> None:
        self._closed = True
