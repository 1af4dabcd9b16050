"""Send queued calls as arrays of jobs, and set their futures when the jobs end.

It runs in the client's event loop. Answers are read, and futures are set, in threads beside the loop, because
the callbacks of a future may use the client.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from copy import copy
from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.model import has_task
from warpdeck.protocol.job_rows import JobRow

from .asyncjob import AsyncJob
from .callfutures import Bundle, CallFuture, CallRequest
from .calls import (
    MAX_CARRIED_BYTES,
    Answer,
    PackedCall,
    answers_of,
    by_file,
    call_script,
    calls_text,
    carried,
    search_path,
)
from .client import Client, Job
from .outcome import JobFailed, Outcome
from .watch import tasks_of

MAX_TASKS = 10_000
"""Largest number of tasks of one array."""
MAX_SHARED_BYTES = 128 * 1024
"""Largest size of the calls in one array, because all of them go to the node with each task. One larger call
gets its own job.
"""
READS = 16
"""Answers that are requested from the controller at the same time."""
TAIL_BYTES = 4096
"""Part of a job's log that a JobFailed error contains."""
_CLOSED = UserError("the client was closed before the call returned", "close it after the executor")


class CallRunner:
    """Submits calls and collects their answers. `given` contains the arguments of `Client.submit` for every
    job. `load` unpickles an answer.
    """

    def __init__(
        self,
        client: Client,
        *,
        folder: str | os.PathLike[str] | None,
        python: str,
        given: Mapping[str, Any],
        load: Callable[[bytes], Any],
    ) -> None:
        self._client = client
        self._load = load
        self._python = python
        self._given = given
        self._keep = folder is not None
        self._folder = _made(folder, client.paths.calls)
        self._queue: deque[CallRequest] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._sending: asyncio.Task[None] | None = None
        self._on_the_way: list[Bundle] = []
        self._cancels: deque[Future[None]] = deque(maxlen=MAX_TASKS)
        self._asking = asyncio.Semaphore(READS)
        self._files = 0

    def begin(self, asked: Sequence[CallRequest]) -> None:
        """Queue calls. Any thread may call it. Raises RuntimeError if the client was closed."""
        self._client.portal.run_soon(self._enqueue, asked)

    def close(self) -> None:
        """Wait until unwanted jobs are canceled, and remove the folder. Call it after the last future has
        ended.
        """
        with contextlib.suppress(RuntimeError):  # a closed client has no requests in progress
            self._client.portal.call(self._sent())
        wait(self._cancels)
        if not self._keep:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _sent(self) -> None:
        if self._sending is not None:
            await asyncio.wait([self._sending])

    def _cancel(self, job: Job) -> None:
        self._cancels.append(self._client.portal.start(job.behind.cancel()))

    def _enqueue(self, asked: Iterable[CallRequest]) -> None:
        self._queue.extend(asked)
        if self._sending is None or self._sending.done():
            self._sending = self._spawn(self._send_all(), self._unsent)

    def _spawn(
        self, work: Coroutine[Any, Any, None], futures: Callable[[], list[CallFuture[Any]]]
    ) -> asyncio.Task[None]:
        """Start a task on which `futures` depend. If it ends early, also by the end of the client, they get
        the error.
        """
        loop = asyncio.get_running_loop()

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if task.cancelled():
                _refuse(futures(), _CLOSED)
            elif (error := task.exception()) is not None:
                loop.run_in_executor(None, _refuse, futures(), error)

        task = loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(ended)
        return task

    async def _send_all(self) -> None:
        """Send one submission after the other. Calls that arrive in the meantime go into the next one."""
        while self._queue:
            self._on_the_way, tasks = self._next()
            await self._send(self._on_the_way, tasks)

    def _unsent(self) -> list[CallFuture[Any]]:
        return [*_futures(self._on_the_way), *(each.future for each in self._queue)]

    def _next(self) -> tuple[list[Bundle], list[list[PackedCall]]]:
        """Return the bundles of the next array, and the calls of its tasks."""
        bundles: list[Bundle] = []
        tasks: list[list[PackedCall]] = []
        functions: set[str] = set()
        room = MAX_SHARED_BYTES
        while self._queue and len(bundles) < MAX_TASKS:
            asked = self._take()
            new = {each.call.function.text for each in asked} - functions
            functions |= new
            room -= sum(map(len, new)) + sum(len(each.call.arguments) for each in asked)
            if bundles and room < 0:
                self._queue.extendleft(reversed(asked))
                break
            if asked:
                bundles.append(Bundle([each.future for each in asked], cancel=self._cancel))
                tasks.append([each.call for each in asked])
        return bundles, tasks

    def _take(self) -> list[CallRequest]:
        """Take the next calls that share a job: as many as the first one allows, without canceled ones."""
        taken: list[CallRequest] = []
        most = self._queue[0].together
        while self._queue and len(taken) < most and self._queue[0].together == most:
            asked = self._queue.popleft()
            if not asked.future.cancelled():
                taken.append(asked)
        return taken

    async def _send(self, bundles: list[Bundle], tasks: list[list[PackedCall]]) -> None:
        if not bundles:
            return
        try:
            job = await self._submit(tasks)
        except Exception as error:  # every error of the submission becomes the future's error
            await asyncio.to_thread(_refuse, _futures(bundles), error)
            return
        for number, bundle in enumerate(bundles):
            bundle.submitted(Job(self._client, job.task(number) if len(bundles) > 1 else job))
        self._spawn(self._follow(job, bundles), lambda: _futures(bundles))

    async def _submit(self, tasks: Sequence[Sequence[PackedCall]]) -> AsyncJob:
        folder = os.path.abspath(self._given["cwd"] or ".")
        text = calls_text(tasks, search_path(folder, sys.path))
        source = carried(text) if len(text) < MAX_CARRIED_BYTES else by_file(self._written(text))
        name, several = tasks[0][0].function.name, len(tasks) > 1
        array = {"array": f"0-{len(tasks) - 1}"} if several else {}
        pattern = self._path("%A_%a" if several else "%j", "")
        ours = {"output": f"{pattern}answer", "error": f"{pattern}log", "open_mode": "truncate"}
        return await self._client.behind.submit(
            text=call_script(source, python=self._python),
            **{"job_name": name, **self._given, **ours, **array},
        )

    def _path(self, job: str, kind: str) -> str:
        """Return the path of a job's answers or of its log."""
        return os.path.join(self._folder, f"{job}.{kind}")

    def _written(self, text: str) -> str:
        """Write calls that are too large for the script to a file, and return its path."""
        self._files += 1
        path = self._path("calls", str(self._files))
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        return path

    async def _follow(self, job: AsyncJob, bundles: Sequence[Bundle]) -> None:
        """Update the futures as their tasks begin and end, until all have ended."""
        left = dict(enumerate(bundles))
        ends: list[asyncio.Task[None]] = []
        async with contextlib.aclosing(self._client.behind.news(job.id)) as told:
            async for news in told:
                for row in news.begun:
                    for number in _numbers(row, left):
                        left[number].begins()
                ended = [(left.pop(number), row) for row in news.ended for number in _numbers(row, left)]
                if ended:
                    ends.append(asyncio.create_task(self._finish(ended)))
                if not left:
                    break
        await asyncio.gather(*ends)
        if left:
            error = UserError(
                f"job {job.id} is no longer known",
                "its record was removed; `warpdeck queue --all` lists the known jobs",
            )
            await asyncio.to_thread(_refuse, _futures(left.values()), error)

    async def _finish(self, ended: list[tuple[Bundle, JobRow]]) -> None:
        """Collect the answers of ended tasks. Most are files on this machine; the controller provides the
        others.
        """
        for bundle, row in await asyncio.to_thread(self._settle_here, ended):
            await self._settle_asking(bundle, row)

    def _settle_here(self, ended: list[tuple[Bundle, JobRow]]) -> list[tuple[Bundle, JobRow]]:
        """Settle the futures that have an answer in a file, and return the remaining ones."""
        return [each for each in ended if not self._is_settled(*each)]

    def _is_settled(self, bundle: Bundle, row: JobRow) -> bool:
        assert bundle.job is not None
        try:
            with open(self._path(bundle.job.id, "answer"), "rb") as file:
                answers = answers_of(file.read(), self._load)
        except OSError:
            return False
        if len(answers) < len(bundle.futures):
            return False
        _settle(bundle, answers, row)
        return True

    async def _settle_asking(self, bundle: Bundle, row: JobRow) -> None:
        """Settle futures from the controller's copy of the output, or from the way in which the job ended."""
        if not bundle.wanted:
            return
        assert bundle.job is not None
        job, began = bundle.job.behind, row.start is not None
        try:
            async with self._asking:
                answers = answers_of(await job.output(), self._load) if began else {}
                log = await _tail(job) if began and len(answers) < len(bundle.futures) else ""
        except UserError as error:
            await asyncio.to_thread(_refuse, bundle.futures, error)
            return
        await asyncio.to_thread(_settle, bundle, answers, row, log)


def _settle(bundle: Bundle, answers: Mapping[int, Answer], row: JobRow, log: str = "") -> None:
    """Settle each call with its own answer. A call without an answer gets the end of its job as an error."""
    for number, future in enumerate(bundle.futures):
        answer = answers.get(number)
        if answer is None:
            future.settle(error=JobFailed(Outcome(rows=[row]), log))
        else:
            future.settle(result=answer.result, error=answer.error)


def _futures(bundles: Iterable[Bundle]) -> list[CallFuture[Any]]:
    return [future for bundle in bundles for future in bundle.futures]


def _refuse(futures: Iterable[CallFuture[Any]], error: BaseException) -> None:
    """Give each unfinished future its own copy of the error, because raising an error modifies it."""
    for future in futures:
        if not future.done():
            future.settle(error=copy(error) if isinstance(error, UserError) else error)


def _made(folder: str | os.PathLike[str] | None, default: str) -> str:
    """Create the folder for outputs. Only the user can access it, unless the user chose it."""
    if folder is not None:
        os.makedirs(folder, exist_ok=True)
        return os.path.abspath(folder)
    os.makedirs(default, mode=0o700, exist_ok=True)
    return tempfile.mkdtemp(dir=default)


def _numbers(row: JobRow, left: Mapping[int, Bundle]) -> list[int]:
    """Return the bundle numbers of a row: one task, all tasks that waited together, or the only one of a job
    without tasks.
    """
    if row.array_task_id is not None:
        return [row.array_task_id] if row.array_task_id in left else []
    tasks = tasks_of(row)
    return [number for number in left if tasks is None or has_task(tasks, number)]


async def _tail(job: AsyncJob) -> str:
    try:
        written = [line async for line in job.logs(follow=False, stderr=True, offset=-TAIL_BYTES)]
    except UserError:
        return ""  # the error already tells how the job ended
    return "\n".join(written)
