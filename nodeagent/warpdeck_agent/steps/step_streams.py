"""The streams of a step's tasks on this node: output to the controller, and input from it.

Each piece of data carries its rank, channel and offset, so that a client that was cut off can ask for the
rest and gets nothing twice. Disk space of output that was acknowledged long ago is freed. If the reader of a
task's output is too far behind, the task is stopped until the reader has caught up, as with a full pipe.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import deque
from typing import Callable, Deque, Dict, List, Tuple

from warpdeck_agent.isolation import job_processes
from warpdeck_agent.launch.launch import LocalStep
from warpdeck_agent.linux.file_watch import FileWatch, punch_hole
from warpdeck_agent.streams.streams import OutStream
from warpdeck_agent.tasks.task import OUTPUTS, Task
from warpdeck_agent.wire.frames import DATA_CHUNK_BYTES, STREAM_WINDOW_BYTES
from warpdeck_agent.wire.messages import StreamAck, StreamOpened
from warpdeck_agent.wire.steps import EVERY_TASK, TASK_HEADER, OpenStep

CHUNK_BYTES = DATA_CHUNK_BYTES - TASK_HEADER.size
POLL_S = 0.02
"""Interval in seconds between checks of files if the kernel does not report their changes."""
IDLE_S = 1.0
"""Interval in seconds between checks if the kernel reports changes."""
KEEP_BYTES = 8 * STREAM_WINDOW_BYTES
"""How much acknowledged output is kept. It is more than the amount that can be in transit when an
acknowledgment arrives.
"""
MAX_BEHIND_BYTES = 256 * 1024 * 1024
"""The most unsent output of a step in bytes; its processes are stopped when it is exceeded."""
CHECK_S = 0.1
"""Interval in seconds between checks of the unsent output. In that time a task writes 200 MB at the most."""


class _TaskOutput:
    """One output of one task."""

    def __init__(self, task: Task, channel: int, at: int) -> None:
        self.task = task
        self.channel = channel
        self.at = at
        self.punched = 0
        self.descriptor = os.open(task.folder.file(OUTPUTS[channel]), os.O_RDWR | os.O_CLOEXEC)


class StepOutput:
    """Sends all output of the step's tasks, until all have ended and everything is sent."""

    def __init__(self, step: LocalStep, out: OutStream, request: OpenStep) -> None:
        self._step = step
        self._out = out
        self._changed = asyncio.Event()
        self._watch = FileWatch(self._changed)
        self._sent = 0
        self._pieces: Deque[Tuple[int, _TaskOutput, int]] = deque()
        self._stopped: List[int] = []
        self._is_sending = asyncio.Event()
        """Set while there may be unsent output."""
        self._files = [
            _TaskOutput(task, channel, int(request.have.get(f"{rank}.{channel}", 0)))
            for rank, task in sorted(step.tasks.items())
            for channel in OUTPUTS
        ]

    async def run(self, opened: Callable[[StreamOpened], None]) -> None:
        """Send the output until the end of the step."""
        self._step.progress.listeners.add(self._changed)
        limit = asyncio.ensure_future(self._limit_backlog())
        try:
            for file in self._files:
                self._watch.add(file.task.folder.file(OUTPUTS[file.channel]))
            opened(StreamOpened(stream=self._out.stream))
            while True:
                self._changed.clear()
                over = self._step.is_done
                moved = await self._send_round()
                self._free_acknowledged()
                if not moved and over:
                    return
                if not moved:
                    await self._pause()
        finally:
            limit.cancel()
            self._step.progress.listeners.discard(self._changed)
            self._watch.close()
            self._continue_tasks()
            for file in self._files:
                os.close(file.descriptor)

    async def _pause(self) -> None:
        self._is_sending.clear()
        try:
            await asyncio.wait_for(self._changed.wait(), IDLE_S if self._watch.works else POLL_S)
        except asyncio.TimeoutError:
            return

    async def _send_round(self) -> bool:
        """Send one piece of every file that has unsent data. Returns whether there was any."""
        moved = False
        self._is_sending.set()
        for file in self._files:
            chunk = os.pread(file.descriptor, CHUNK_BYTES, file.at)
            if not chunk:
                continue
            moved = True
            header = TASK_HEADER.pack(file.task.rank, file.channel, file.at)
            await self._out.send_piece(header + chunk)
            file.at += len(chunk)
            self._sent += len(header) + len(chunk)
            self._pieces.append((self._sent, file, file.at))
        return moved

    async def _limit_backlog(self) -> None:
        """Stop the tasks while too much of their output is unsent, and let them continue afterwards.

        This is a task of its own, because sending waits for as long as the reader takes nothing.
        """
        while True:
            if not self._stopped:
                await self._is_sending.wait()
            await asyncio.sleep(CHECK_S)
            behind = sum(os.fstat(file.descriptor).st_size - file.at for file in self._files)
            if behind > MAX_BEHIND_BYTES:
                self._stop_tasks()
            elif self._stopped and behind < MAX_BEHIND_BYTES // 2:
                self._continue_tasks()

    def _stop_tasks(self) -> None:
        if not self._stopped:
            self._stopped = self._step.pids()
            job_processes.send(self._stopped, signal.SIGSTOP)

    def _continue_tasks(self) -> None:
        job_processes.send(self._stopped, signal.SIGCONT)
        self._stopped = []

    def _free_acknowledged(self) -> None:
        safe = self._sent - self._out.unacknowledged - KEEP_BYTES
        done: Dict[int, Tuple[_TaskOutput, int]] = {}
        while self._pieces and self._pieces[0][0] <= safe:
            _, file, at = self._pieces.popleft()
            done[id(file)] = (file, at)
        for file, at in done.values():
            if at - file.punched >= KEEP_BYTES:
                punch_hole(file.descriptor, at)
                file.punched = at


class StepInput:
    """Writes the received input to the tasks.

    While a task does not read, its pieces wait here. Their number is bounded by the stream's window.
    """

    def __init__(self, step: LocalStep, stream: int, tell: Callable[[StreamAck], None]) -> None:
        self._step = step
        self._stream = stream
        self._tell = tell
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()

    def feed(self, piece: bytes) -> None:
        """Queue a piece with its header."""
        self._pieces.put_nowait(piece)

    async def run(self) -> None:
        """Write the queued pieces to the tasks, in order."""
        while True:
            piece = await self._pieces.get()
            if len(piece) >= TASK_HEADER.size:
                rank, _, offset = TASK_HEADER.unpack_from(piece)
                for task in self._tasks(rank):
                    await self._write(task, piece[TASK_HEADER.size :], offset)
            self._tell(StreamAck(stream=self._stream, size=len(piece)))

    def _tasks(self, rank: int) -> List[Task]:
        if rank == EVERY_TASK:
            return [task for _, task in sorted(self._step.tasks.items())]
        found = self._step.tasks.get(rank)
        return [] if found is None else [found]

    async def _write(self, task: Task, data: bytes, offset: int) -> None:
        """Write the data that the task has not received yet. Empty data ends its input."""
        if not data:
            task.close_input()
        fresh = memoryview(data)[max(0, task.taken_bytes - offset) :]
        while fresh and task.ended is None and task.input_fd >= 0:
            try:
                size = os.write(task.input_fd, fresh)
            except BlockingIOError:
                await _writable_or_over(task)
                continue
            except BrokenPipeError:
                task.close_input()
                return
            task.taken_bytes += size
            fresh = fresh[size:]


async def _writable_or_over(task: Task) -> None:
    loop = asyncio.get_running_loop()
    writable = asyncio.Event()
    descriptor = task.input_fd
    loop.add_writer(descriptor, writable.set)
    waits = [loop.create_task(writable.wait()), loop.create_task(task.over.wait())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        loop.remove_writer(descriptor)
        for wait in waits:
            wait.cancel()
