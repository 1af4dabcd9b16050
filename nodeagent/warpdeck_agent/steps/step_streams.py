"""The streams of a step's tasks on this node: what they write goes to the controller as it is written, what it sends is read.

Each piece says whose it is and where in its stream it lies, so that whoever was cut off asks for the rest and gets nothing
twice. What was taken long ago is given back to the disk. A task whose reader is too far behind is stopped until that has
caught up, as a full pipe would stop it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import deque
from typing import Callable, Deque, Dict, List, Tuple

from warpdeck_agent.isolation import job_processes
from warpdeck_agent.launch.launch import Step
from warpdeck_agent.linux.file_watch import FileWatch, punch_hole
from warpdeck_agent.streams.streams import OutStream
from warpdeck_agent.tasks.task import OUTPUTS, Task
from warpdeck_agent.wire.frames import DATA_CHUNK_BYTES, STREAM_WINDOW_BYTES
from warpdeck_agent.wire.messages import StreamAck, StreamOpened
from warpdeck_agent.wire.steps import EVERY_TASK, TASK_HEADER, OpenStep

CHUNK_BYTES = DATA_CHUNK_BYTES - TASK_HEADER.size
POLL_S = 0.02
"""How often files are looked at where the kernel does not tell of them."""
IDLE_S = 1.0
"""A look now and then even where it does."""
KEEP_BYTES = 8 * STREAM_WINDOW_BYTES
"""How much of what was acknowledged is kept: more than can be under way behind the acknowledgement."""
MAX_BEHIND_BYTES = 256 * 1024 * 1024
"""What a task may have written before it is taken; beyond it the task waits."""


class _File:
    """One output of one task."""

    def __init__(self, task: Task, channel: int, at: int) -> None:
        self.task = task
        self.channel = channel
        self.at = at
        self.punched = 0
        self.descriptor = os.open(task.folder.file(OUTPUTS[channel]), os.O_RDWR | os.O_CLOEXEC)


class StepOutput:
    """Sends everything that the step's tasks write, until all have ended and all is sent."""

    def __init__(self, step: Step, out: OutStream, asked: OpenStep) -> None:
        self._step = step
        self._out = out
        self._changed = asyncio.Event()
        self._watch = FileWatch(self._changed)
        self._sent = 0
        self._pieces: Deque[Tuple[int, _File, int]] = deque()
        self._stopped: List[int] = []
        self._files = [
            _File(task, channel, int(asked.have.get(f"{rank}.{channel}", 0)))
            for rank, task in sorted(step.tasks.items())
            for channel in OUTPUTS
        ]

    async def run(self, opened: Callable[[StreamOpened], None]) -> None:
        """Until the end."""
        self._step.listeners.add(self._changed)
        try:
            for file in self._files:
                self._watch.add(file.task.folder.file(OUTPUTS[file.channel]))
            opened(StreamOpened(stream=self._out.stream))
            while True:
                self._changed.clear()
                over = self._step.done.is_set()
                moved = await self._send_round()
                self._give_back()
                if not moved and over:
                    return
                if not moved:
                    await self._pause()
        finally:
            self._step.listeners.discard(self._changed)
            self._watch.close()
            self._let_go()
            for file in self._files:
                os.close(file.descriptor)

    async def _pause(self) -> None:
        try:
            await asyncio.wait_for(self._changed.wait(), IDLE_S if self._watch.works else POLL_S)
        except asyncio.TimeoutError:
            return

    async def _send_round(self) -> bool:
        """A piece of every file that has more; whether there was any."""
        moved = False
        behind = 0
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
            behind += os.fstat(file.descriptor).st_size - file.at
        if behind > MAX_BEHIND_BYTES:
            self._stop()
        elif self._stopped and behind < MAX_BEHIND_BYTES // 2:
            self._let_go()
        return moved

    def _stop(self) -> None:
        if not self._stopped:
            self._stopped = self._step.members()
            job_processes.send(self._stopped, signal.SIGSTOP)

    def _let_go(self) -> None:
        job_processes.send(self._stopped, signal.SIGCONT)
        self._stopped = []

    def _give_back(self) -> None:
        safe = self._sent - self._out.unacknowledged - KEEP_BYTES
        done: Dict[int, Tuple[_File, int]] = {}
        while self._pieces and self._pieces[0][0] <= safe:
            _, file, at = self._pieces.popleft()
            done[id(file)] = (file, at)
        for file, at in done.values():
            if at - file.punched >= KEEP_BYTES:
                punch_hole(file.descriptor, at)
                file.punched = at


class StepInput:
    """Gives tasks what is sent for them. Pieces wait here, bounded by the stream's window, while a task does not read."""

    def __init__(self, step: Step, stream: int, tell: Callable[[StreamAck], None]) -> None:
        self._step = step
        self._stream = stream
        self._tell = tell
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()

    def take(self, piece: bytes) -> None:
        """A piece with its header."""
        self._pieces.put_nowait(piece)

    async def run(self) -> None:
        """Passes on what comes, in order."""
        while True:
            piece = await self._pieces.get()
            if len(piece) >= TASK_HEADER.size:
                rank, _, offset = TASK_HEADER.unpack_from(piece)
                for task in self._tasks(rank):
                    await self._give(task, piece[TASK_HEADER.size :], offset)
            self._tell(StreamAck(stream=self._stream, size=len(piece)))

    def _tasks(self, rank: int) -> List[Task]:
        if rank == EVERY_TASK:
            return [task for _, task in sorted(self._step.tasks.items())]
        found = self._step.tasks.get(rank)
        return [] if found is None else [found]

    async def _give(self, task: Task, data: bytes, offset: int) -> None:
        """What the task has not had yet; no bytes are the end."""
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
