"""Calls on their way: from a queue into arrays, from the jobs' ends back into futures. All of it runs in the client's loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from typing import Any

from warpdeck.api.rows import JobRow
from warpdeck.errors import UserError
from warpdeck.model import JobState

from .asyncjob import AsyncJob
from .calls import MAX_CARRIED_BYTES, Call, answer_of, by_file, call_script, calls_text, carried, search_path
from .client import Client, Job
from .outcome import JobFailed, Outcome

MAX_TASKS = 10_000
"""Of one array: what has to be taken apart by each of its tasks stays small."""
READS = 16
"""Answers that are read at once."""
TAIL_BYTES = 4096
"""Of what a job wrote, in the error that tells of its end."""
_NOT_BEGUN = frozenset({JobState.PENDING, JobState.CONFIGURING})


class CallFuture(Future[Any]):
    """A future whose call is a job: `job`, once it was submitted."""

    def __init__(self, call: Call, *, several: bool) -> None:
        super().__init__()
        self.call = call
        self.several = several
        """Whether its result is a list of results."""
        self.job: Job | None = None

        self._turn = threading.RLock()
        """A future may be told that it begins, or that it is cancelled, once in all."""

    def begins(self) -> None:
        """It runs; from now on it cannot be cancelled."""
        with self._turn:
            if not self.running() and not self.done():
                self.set_running_or_notify_cancel()

    def cancel(self) -> bool:
        """Cancels the job too, unless it was seen to run. One that began this moment is ended all the same."""
        with self._turn:
            if self.cancelled():
                return True
            if not super().cancel():
                return False
            self.set_running_or_notify_cancel()
        if self.job is not None:
            self.job.begin_cancel()
        return True


class CallRunner:
    """Submits calls and brings their answers. `given`: what Client.submit is told of every job."""

    def __init__(
        self, client: Client, *, folder: str | os.PathLike[str] | None, python: str, given: Mapping[str, Any]
    ) -> None:
        self._client = client
        self._python = python
        self._given = given
        self._keep = folder is not None
        self._folder = _made(folder, client.paths.calls)
        self._queue: deque[CallFuture] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._sending = False
        self._reading = asyncio.Semaphore(READS)
        self._files = 0

    def begin(self, future: CallFuture) -> None:
        """Any thread's."""
        self._client.portal.loop.call_soon_threadsafe(self._enqueue, future)

    def close(self) -> None:
        """After the last future has ended."""
        if not self._keep:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _enqueue(self, future: CallFuture) -> None:
        self._queue.append(future)
        if not self._sending:
            self._sending = True
            self._spawn(self._send_all())

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send_all(self) -> None:
        """One submission after another; what is queued meanwhile goes into the next."""
        try:
            while self._queue:
                await self._send(self._next())
        finally:
            self._sending = False

    def _next(self) -> list[CallFuture]:
        """What goes into the next array: as much as a script carries, or one that none does."""
        taken: list[CallFuture] = []
        room = MAX_CARRIED_BYTES
        while self._queue and len(taken) < MAX_TASKS:
            room -= self._queue[0].call.size_bytes
            if taken and room < 0:
                break
            future = self._queue.popleft()
            if not future.cancelled():
                taken.append(future)
        return taken

    async def _send(self, futures: list[CallFuture]) -> None:
        if not futures:
            return
        try:
            job = await self._submit([future.call for future in futures])
        except Exception as error:  # the world's answer to the call, whatever it is, is the future's
            for future in futures:
                _settle(future, error=error)
            return
        tasks = dict(enumerate(futures))
        for number, future in tasks.items():
            future.job = Job(self._client, job.task(number) if len(futures) > 1 else job)
            if future.cancelled():
                future.job.begin_cancel()
        self._spawn(self._follow(job, tasks))

    async def _submit(self, calls: Sequence[Call]) -> AsyncJob:
        folder = os.path.abspath(self._given["cwd"] or ".")
        text = calls_text(calls, search_path(folder, sys.path))
        source = carried(text) if len(text) < MAX_CARRIED_BYTES else by_file(self._written(text))
        name, several = calls[0].name, len(calls) > 1
        pattern = os.path.join(self._folder, "%A_%a" if several else "%j")
        array = {"array": f"0-{len(calls) - 1}"} if several else {}
        ours = {"output": f"{pattern}.answer", "error": f"{pattern}.log", "open_mode": "truncate"}
        return await self._client.behind.submit(
            text=call_script(source, python=self._python),
            **{"job_name": name, **self._given, **ours, **array},
        )

    def _written(self, text: str) -> str:
        """The file of calls that no script carries."""
        self._files += 1
        path = os.path.join(self._folder, f"calls.{self._files}")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        return path

    async def _follow(self, job: AsyncJob, tasks: dict[int, CallFuture]) -> None:
        """Tells the futures what becomes of their tasks, until all have ended."""
        left = dict(tasks)
        ends: list[asyncio.Task[None]] = []
        try:
            async with contextlib.aclosing(self._client.behind.families(job.id)) as families:
                async for family in families:
                    for row in family.values():
                        for number in _numbers(row, left):
                            if row.end is not None:
                                ends.append(asyncio.create_task(self._finish(left.pop(number), row)))
                            elif row.state not in _NOT_BEGUN:
                                left[number].begins()
                    if not left:
                        break
            await asyncio.gather(*ends)
        except UserError as error:
            for future in tasks.values():
                _settle(future, error=error)

    async def _finish(self, future: CallFuture, row: JobRow) -> None:
        """The answer of a task that has ended, or how it ended without one."""
        if future.cancelled():
            return
        assert future.job is not None
        job = future.job.behind
        try:
            async with self._reading:
                answer = answer_of(await job.output()) if row.start is not None else None
                log = await _tail(job) if answer is None and row.start is not None else ""
        except UserError as error:
            _settle(future, error=error)
            return
        if answer is None:
            _settle(future, error=JobFailed(Outcome(rows=[row]), log))
        elif answer[1] is not None:
            _settle(future, error=answer[1])
        else:
            results = answer[0] or []
            _settle(future, result=results if future.several else results[0])


def _made(folder: str | os.PathLike[str] | None, default: str) -> str:
    """The folder of outputs, the user's alone unless they chose it."""
    if folder is not None:
        os.makedirs(folder, exist_ok=True)
        return os.path.abspath(folder)
    os.makedirs(default, mode=0o700, exist_ok=True)
    return tempfile.mkdtemp(dir=default)


def _numbers(row: JobRow, left: Mapping[int, CallFuture]) -> list[int]:
    """Whose row it is: that of one task, or of all that have not begun. Of a job without tasks the only one."""
    if row.array_task_id is not None:
        return [row.array_task_id] if row.array_task_id in left else []
    return list(left) if row.end is not None or not row.tasks_pending else []


async def _tail(job: AsyncJob) -> str:
    try:
        written = [line async for line in job.logs(follow=False, stderr=True, offset=-TAIL_BYTES)]
    except UserError:
        return ""  # the error itself tells of the end; there is no more to be had
    return "\n".join(written)


def _settle(future: CallFuture, *, result: Any = None, error: BaseException | None = None) -> None:
    """Says the end, unless the caller has cancelled it meanwhile."""
    with contextlib.suppress(InvalidStateError):
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)
