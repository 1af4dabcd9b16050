"""`warpdeck.Client`: jobs and nodes from a program or a notebook. Each call runs `AsyncClient`'s in the
client's own event loop.

    with warpdeck.Client() as deck:
        job = deck.submit("train.sh", "--lr", "0.1", gpus=2, time="4:00:00")
        for line in job.logs():
            print(line)
        job.wait().check()

Several threads may share a client. Interrupting a call (Ctrl-C) ends the call, not the job.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from warpdeck.base.paths import Paths

from .asyncclient import AsyncClient, Engine
from .asyncjob import AsyncJob
from .portal import Portal

T = TypeVar("T")
P = ParamSpec("P")


def _of_job(
    method: Callable[Concatenate[AsyncJob, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Job, P], T]:
    """Return a method of `AsyncJob` as a method of `Job`, which waits for the result."""

    @functools.wraps(method)
    def call(job: Job, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return job.client.run(method(job.behind, *args, **kwargs))

    return call


def _of_client(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Client, P], T]:
    """Return a method of `AsyncClient` as a method of `Client`, which waits for the result."""

    @functools.wraps(method)
    def call(client: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return client.run(method(client.behind, *args, **kwargs))

    return call


def _submitting(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, AsyncJob]],
) -> Callable[Concatenate[Client, P], Job]:
    """Return a method of `AsyncClient` that returns a job as a method of `Client`."""

    @functools.wraps(method)
    def call(client: Client, /, *args: P.args, **kwargs: P.kwargs) -> Job:
        return Job(client, client.run(method(client.behind, *args, **kwargs)))

    call.__signature__ = inspect.signature(method).replace(return_annotation="Job")  # type: ignore[attr-defined]
    return call


class Job:
    """A job, an array, or a task of an array. It has the methods of `AsyncJob`, without `await`."""

    def __init__(self, client: Client, behind: AsyncJob) -> None:
        self.client = client
        self.behind = behind
        """The same job for programs with an event loop. It uses the client's own loop."""

    @property
    def id(self) -> str:
        """The job id as Slurm writes it, such as 12 or 12_3."""
        return self.behind.id

    @property
    def notes(self) -> tuple[str, ...]:
        """Messages from the submission."""
        return self.behind.notes

    def __repr__(self) -> str:
        return repr(self.behind)

    def task(self, index: int) -> Job:
        """Return a task of this array."""
        return Job(self.client, self.behind.task(index))

    detail = _of_job(AsyncJob.detail)
    row = _of_job(AsyncJob.row)
    state = _of_job(AsyncJob.state)
    why = _of_job(AsyncJob.why)
    wait = _of_job(AsyncJob.wait)
    cancel = _of_job(AsyncJob.cancel)
    metrics = _of_job(AsyncJob.metrics)
    snapshot = _of_job(AsyncJob.snapshot)
    output = _of_job(AsyncJob.output)

    def logs(self, *, follow: bool = True, stderr: bool = False, offset: int = 0) -> Iterator[str]:
        """Yield the lines of the job's output. See `AsyncJob.logs`."""
        lines = self.behind.logs(follow=follow, stderr=stderr, offset=offset)
        return self.client.portal.iterate(lines)


class Client:
    """A connection to a controller that reconnects by itself.

    `home` chooses the controller. The default is $WARPDECK_HOME, then the site's home, then the user's own.
    `engine` is "warpdeck" for our own scheduler or "slurm" for a real Slurm; see `AsyncClient`.
    With `start`, the client starts a controller if none runs. `close` or the end of the `with` block ends the
    connection; jobs continue.
    """

    def __init__(
        self, home: str | os.PathLike[str] | None = None, *, engine: Engine | None = None, start: bool = True
    ) -> None:
        behind = AsyncClient(home, engine=engine, start=start)  # It raises before a thread is started.
        self.portal = Portal()
        self.behind = behind

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def paths(self) -> Paths:
        """The paths of the controller's files."""
        return self.behind.paths

    def close(self) -> None:
        """End the connection. Jobs continue."""
        if not self.portal.loop.is_closed():
            self.run(self.behind.aclose())
            self.portal.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of `behind` and return its result."""
        return self.portal.call(work)

    submit = _submitting(AsyncClient.submit)

    def job(self, job: str | int) -> Job:
        """Return a job or task that was submitted before, such as 12 or "12_3". Raises UserError if the id is
        malformed.
        """
        return Job(self, self.behind.job(job))

    jobs = _of_client(AsyncClient.jobs)
    wait = _of_client(AsyncClient.wait)
    cancel = _of_client(AsyncClient.cancel)
    metrics = _of_client(AsyncClient.metrics)
    diff = _of_client(AsyncClient.diff)
    files = _of_client(AsyncClient.files)
    nodes = _of_client(AsyncClient.nodes)
    node = _of_client(AsyncClient.node)
    status = _of_client(AsyncClient.status)
