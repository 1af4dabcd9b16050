"""Streams of a simulated node: the output of a job up to now, or its terminal.

The output consists of lines of a training, an evaluation or a data preparation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from warpdeck.ports.ports import StreamSink
from warpdeck_agent.wire import messages as wire

from .shell import SimShell

POLL_S = 0.25
LINE_S = 1.0
"""Time between two lines."""
Written = tuple[wire.Launch, wire.JobReport]


def first_lines(name: str, *, host: str, gpus: int) -> list[str]:
    """Return the first lines of a job's output."""
    devices = f"{gpus} x NVIDIA H100 80GB HBM3" if gpus else "CPU only"
    return [f"{host}: {name} on {devices}", "\x1b[2mconfig   seed=7 precision=bf16 compile=on\x1b[0m"]


def output_line(name: str, job_id: int, number: int) -> str:
    """Return the line of second `number`, counted from 1. It is deterministic."""
    noise = ((number * 37 + job_id * 11) % 13) / 13
    if name.startswith("eval"):
        return f"question {number * 8:>6}/14042   accuracy {0.58 + 0.06 * noise:.3f}"
    if name.startswith("tokenize"):
        return f"shard {number:>4}/2048   {1.9 + noise:.2f} GB/s   {number * 31.4:.0f} M tokens"
    loss = 0.35 + 2.4 / (1 + 0.015 * number) + 0.05 * noise
    if number % 60 == 0:
        return f"\x1b[36meval  \x1b[0m step {number * 4:>6}   loss {loss + 0.04:.4f}   saved checkpoints/step-{number * 4}.pt"
    rate = 3.1 + noise
    return f"\x1b[32mtrain \x1b[0m step {number * 4:>6}   loss {loss:.4f}   lr {3e-4 / (1 + number / 900):.2e}   {rate:.1f} it/s"


def last_lines(name: str, *, code: int, cause: str) -> list[str]:
    """Return the last lines of a job's output."""
    if cause:
        return [f"*** {cause}: received signal 15, saving and leaving"]
    if code == 0:
        return ["\x1b[1mdone\x1b[0m: all written, leaving"]
    return [
        "Traceback (most recent call last):",
        f'  File "{name.partition("-")[0]}/train.py", line 212, in <module>',
        "    loss.backward()",
        "\x1b[31mtorch.OutOfMemoryError\x1b[0m: CUDA out of memory. Tried to allocate 2.50 GiB.",
    ]


class SimLogStream:
    """Output of one line per second from the job's start to its end."""

    def __init__(
        self, written: Written | None, request: wire.OpenLog, sink: StreamSink, clock: Callable[[], float]
    ) -> None:
        self._written = written
        self._request = request
        self._sink = sink
        self._clock = clock
        self._closed = False

    async def run(self, current: Callable[[], Written | None]) -> None:
        """Write the existing output, then new lines until the job ends. `current` returns the present launch
        and report.
        """
        await self._sink.opened(0, 0, "simulated")
        written_count = 0
        while self._written is not None and not self._closed:
            launch, report = self._written
            lines = self._lines(launch, report, after=written_count)
            written_count += len(lines)
            if lines:
                await self._sink.data("".join(f"{line}\n" for line in lines).encode())
            if report.phase == "exited" or not self._request.follow:
                break
            await asyncio.sleep(POLL_S)
            self._written = current()
        await self._sink.ended("")

    def _lines(self, launch: wire.Launch, report: wire.JobReport, *, after: int) -> list[str]:
        name = launch.env.get("SLURM_JOB_NAME", "")
        host = launch.env.get("SLURMD_NODENAME", "")
        head = first_lines(name, host=host, gpus=len(launch.gpus))
        ended = report.phase == "exited"
        until = report.ended_at if ended else self._clock()
        written = int(max(0.0, until - report.started_at) / LINE_S)
        first = max(0, after - len(head))
        lines = head[after:] + [
            output_line(name, launch.job_id, number + 1) for number in range(first, written)
        ]
        return lines + last_lines(name, code=report.exit_code, cause=report.cause) if ended else lines

    async def write(self, data: bytes) -> None:
        return None

    async def resize(self, rows: int, cols: int) -> None:
        return None

    async def close(self) -> None:
        self._closed = True


class SimTerminalStream:
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
            await asyncio.sleep(POLL_S)
        await self._sink.ended("")

    async def write(self, data: bytes) -> None:
        await self._sink.data(self._shell.feed(data))
        if self._shell.ended:
            self._on_exit()

    async def resize(self, rows: int, cols: int) -> None:
        return None

    async def close(self) -> None:
        self._closed = True
