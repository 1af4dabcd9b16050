"""`warpdeck.AsyncClient`: jobs and nodes from a program with an event loop. `warpdeck.Client` is the same
without one.

    async with warpdeck.AsyncClient() as deck:
        job = await deck.submit("train.sh", "--lr", "0.1", gpus=2, time="4:00:00")
        async for line in job.logs():
            print(line)
        (await job.wait()).check()

All requests go through `client.asyncio_client`, as those of the app. After a lost connection the next call reconnects.
Requests that read are repeated automatically. Submissions are repeated, too, and create nothing twice (see
`client.blocking_client`). Calls raise UserError.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Self, TypeVar

from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths, default_paths, known_engine
from warpdeck.client import code
from warpdeck.client.asyncio_client import GONE, AsyncioClient
from warpdeck.client.blocking_client import SyncClient
from warpdeck.client.submission import SubmissionResult, submit
from warpdeck.model import split_ranges
from warpdeck.notation.values.job_ids import TaskRanges, parse_job_id
from warpdeck.protocol import requests
from warpdeck.protocol.job_rows import JobDetail, JobRow, UsageCurves
from warpdeck.protocol.node_rows import NodeRow
from warpdeck.protocol.request_base import RequestMessage
from warpdeck.protocol.results import Changed, ControllerStatus

from .asyncjob import AnyJob, AsyncJob
from .drafting import Snapshots, draft
from .outcome import Outcome
from .watch import News, SubmissionWatch, tasks_of

T = TypeVar("T")
Engine = Literal["warpdeck", "slurm"]
ATTEMPTS = 5
"""Attempts for a request whose connection is lost. A controller that crashed is started again between them.
"""
RETRY_S = 0.2


class AsyncClient:
    """A connection to a controller that reconnects by itself.

    `home` chooses the controller. The default is $WARPDECK_HOME, then the site's home, then the user's own.
    `engine` is "warpdeck" for our own scheduler or "slurm" for a real Slurm. The default is $WARPDECK_ENGINE, then
    the choice that `warpdeck --engine NAME --save` saved, then "warpdeck". A home belongs to one engine, so a `home`
    that exists needs no `engine`.
    With `start`, the client starts a controller if none runs. The first call connects; `aclose` or the end of
    `async with` disconnects. Raises UserError if the home belongs to another engine.
    """

    def __init__(
        self, home: str | os.PathLike[str] | None = None, *, engine: Engine | None = None, start: bool = True
    ) -> None:
        self.paths = _paths(home, engine)
        self._start = start
        self._client: AsyncioClient | None = None
        self._connecting = asyncio.Lock()
        self._closed = False
        self._rng = random.Random()
        self._watch = SubmissionWatch(self._link, rng=self._rng)

    async def __aenter__(self) -> Self:
        await self._link()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the connection. Jobs continue."""
        self._closed = True
        await self._watch.close()
        if self._client is not None:
            await self._client.close()

    # Jobs

    async def submit(
        self,
        /,
        script: str | os.PathLike[str] | None = None,
        *args: str,
        text: str | None = None,
        command: str | Sequence[str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        snapshot: Snapshots = "auto",
        **options: Any,
    ) -> AsyncJob:
        """Submit a batch script (a path with arguments, or its `text`) or a `command` (shell text, or a list
        of arguments).

        `options` are those of sbatch with _ for -, such as gpus=2, time="4:00:00" or array="0-9". `env`
        replaces this process's variables in the job's environment. `snapshot` controls the snapshot of the
        code in `cwd`: "auto" takes one if possible, "require" raises UserError if not, and "none" takes none.
        """
        drafted = await asyncio.to_thread(
            draft,
            script,
            args,
            text=text,
            command=command,
            cwd=cwd,
            env=env,
            options=options,
            now=time.time(),
        )

        def send() -> SubmissionResult | UserError:
            # The thread that connects also closes the connection, even if the caller was cancelled meanwhile.
            with SyncClient.connect(self.paths, start=False) as client:
                try:
                    return submit(client, drafted, paths=self.paths, snapshot=snapshot)
                except UserError as error:
                    # It must not be repeated, because the controller may have taken the job.
                    return error

        # The client's own connection also starts the controller, if it has to be started.
        done = await self.ask(lambda _: asyncio.to_thread(send))
        if isinstance(done, UserError):
            raise done
        return AsyncJob(self, str(done.job_id), notes=tuple(done.notes))

    def job(self, job: str | int) -> AsyncJob:
        """Return a job or task that was submitted before, such as 12 or "12_3". Raises UserError if the id is
        malformed.
        """
        parse_job_id(str(job))
        return AsyncJob(self, str(job))

    async def jobs(
        self,
        *,
        user: str | None = None,
        states: Sequence[str] = (),
        ids: Sequence[str | int] = (),
        finished: bool = False,
    ) -> list[JobRow]:
        """Return the unfinished jobs, oldest first. `finished`, `states` and `ids` include ended jobs, too."""
        words = (str(each) for each in ids)
        users = () if user is None else (user,)
        wanted = requests.Jobs(users=users, states=tuple(states), ids=tuple(words), finished=finished)
        return (await self._result(wanted)).jobs

    async def wait(
        self, jobs: Sequence[AnyJob | str | int], *, timeout_s: float | None = None
    ) -> list[Outcome]:
        """Wait until all of these jobs have ended and return their outcomes in this order. Raises
        TimeoutError; the jobs continue.
        """
        async with asyncio.timeout(timeout_s):
            return await asyncio.gather(*(self._outcome(_id_of(job)) for job in jobs))

    async def cancel(self, *jobs: AnyJob | str | int, signal: str = "") -> Changed:
        """Cancel jobs, or send them a signal by name ("USR1").

        Raises UserError if there is one job and it fails. With several jobs, the answer's `errors` contains
        the failures. A signal whose answer is lost is not sent again; this raises UserError, too.
        """
        order = requests.Cancel(jobs=tuple(_id_of(job) for job in jobs), signal=signal)
        if signal:
            await self.status()  # This request ensures that the connection works.
            return await (await self._link()).ask(order)
        return await self._result(order)

    async def detail(self, job: str | int) -> JobDetail:
        """Return all details of a job of any age."""
        return await self._result(requests.JobInfo(job=str(job)))

    async def metrics(
        self, job: AnyJob | str | int = "", *, node: str = "", step_s: float = 1.0
    ) -> UsageCurves:
        """Return the resource use of a job over its life, or of a node lately in steps of 1, 10 or 60 s."""
        return await self._result(requests.Curves(job=_id_of(job), node=node, step_s=step_s))

    async def diff(self, job: AnyJob | str | int, other: AnyJob | str | int = "") -> str:
        """Return the difference from the code of job `other` to the code of `job`. Without `other`, compare
        with the folder as it is now.
        """
        mine = await self._snapshot(job)
        if other == "":
            return await asyncio.to_thread(code.diff_with_now, mine)
        return await asyncio.to_thread(code.diff, await self._snapshot(other), mine)

    async def files(self, job: AnyJob | str | int) -> list[str]:
        """Return the paths in a job's snapshot."""
        return await asyncio.to_thread(code.files, await self._snapshot(job))

    # The cluster

    async def nodes(self) -> list[NodeRow]:
        """Return all nodes by name, with state, CPUs, memory, and GPUs with their last readings. Empty on a
        cluster without nodes.
        """
        return (await self._result(requests.Nodes())).nodes

    async def node(self, name: str) -> NodeRow:
        """Return one node. Raises UserError if no node has this name."""
        return (await self._result(requests.Nodes(name=name))).nodes[0]

    async def status(self) -> ControllerStatus:
        """Return the controller's status: the caller's identity, the number of nodes, and the jobs by state."""
        return await self._result(requests.Status())

    # The connection

    async def ask(self, question: Callable[[AsyncioClient], Awaitable[T]]) -> T:
        """Return the answer to a request that may be repeated safely. Reconnects if necessary. Raises
        UserError.
        """
        for attempt in range(ATTEMPTS):
            try:
                return await question(await self._link())
            except UserError as error:
                if error.code != GONE or attempt + 1 == ATTEMPTS:
                    raise
            await asyncio.sleep(RETRY_S * 2**attempt * self._rng.uniform(0.5, 1.0))
        raise AssertionError("the last attempt returns or raises")

    async def news(self, job: str) -> AsyncGenerator[News]:
        """Yield the changes of a job's submission until all of it has ended. See `watch`. Raises UserError."""
        row = (await self.detail(job)).row
        async with contextlib.aclosing(self._watch.news(row.array_job_id)) as told:
            async for news in told:
                yield news

    async def _result(self, request: RequestMessage[T]) -> T:
        return await self.ask(lambda link: link.ask(request))

    async def _link(self) -> AsyncioClient:
        """Return the connection. A controller that was stopped on purpose is not started again."""
        async with self._connecting:
            if self._closed:
                raise UserError("the client was closed", "create a new client")
            if self._client is not None and not self._client.lost:
                return self._client
            start = self._start and (self._client is None or os.path.exists(self.paths.socket))
            if self._client is not None:
                await self._client.close()
            client = await AsyncioClient.connect(self.paths, start=start, name="library")
            if self._closed:
                await client.close()
                raise UserError("the client was closed", "create a new client")
            self._client = client
            return client

    async def _outcome(self, job: str) -> Outcome:
        _, tasks = parse_job_id(job)
        ended: dict[int, JobRow] = {}
        left = tasks
        async with contextlib.aclosing(self.news(job)) as told:
            async for news in told:
                ended.update((row.id, row) for row in news.ended)
                if left is not None and not (left := _without(left, news.ended)):
                    break
        rows = [row for row in ended.values() if tasks is None or _is_of(row, tasks)]
        if not rows:
            raise UserError(
                f"job {job} is no longer known",
                "its record was removed; `warpdeck queue --all` lists the known jobs",
            )
        return Outcome(rows=sorted(rows, key=lambda row: (row.array_task_id or 0, row.id)))

    async def _snapshot(self, job: AnyJob | str | int) -> Mapping[str, object]:
        found = (await self.detail(_id_of(job))).snapshot
        if not found:
            raise UserError(
                f"job {_id_of(job)} has no snapshot",
                "it ran in its folder; to get snapshots, submit from a git repository",
            )
        return found


def _id_of(job: AnyJob | str | int) -> str:
    return str(job) if isinstance(job, str | int) else job.id


def _is_of(row: JobRow, tasks: TaskRanges) -> bool:
    return bool(split_ranges(tasks_of(row) or (), tasks)[0])


def _without(tasks: TaskRanges, rows: Iterable[JobRow]) -> TaskRanges:
    """Return the tasks without those that the rows cover."""
    for row in rows:
        tasks = split_ranges(tasks, tasks_of(row) or ())[1]
    return tasks


def _paths(home: str | os.PathLike[str] | None, engine: str | None) -> Paths:
    wanted = known_engine(engine, source="engine") if engine is not None else ""
    if home is None:
        return default_paths(engine=wanted)
    paths = Paths(os.path.abspath(os.path.expanduser(home)), wanted_engine=wanted)
    paths.check_engine()
    return paths
