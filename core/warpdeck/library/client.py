"""warpdeck.Client: jobs and nodes from a program or a notebook. Every call is AsyncClient's, run in a loop of the client's own.

    with warpdeck.Client() as deck:
        job = deck.submit("train.sh", "--lr", "0.1", gpus=2, time="4:00:00")
        for line in job.logs():
            print(line)
        job.wait().check()

Several threads may share a client. Interrupting a call (Ctrl-C) ends the call, not the job.
"""

from __future__ import annotations

import os
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar

from warpdeck.base.paths import Paths
from warpdeck.client.client import Changed, Status
from warpdeck.model import Snapshot
from warpdeck.protocol.job_rows import Curves, JobDetail, JobRow
from warpdeck.protocol.node_rows import NodeRow
from warpdeck.protocol.site_rows import ForecastRow

from .asyncclient import AsyncClient
from .asyncjob import AsyncJob
from .drafting import Snapshots
from .outcome import Outcome
from .portal import Portal

T = TypeVar("T")


class Job:
    """A job, an array, or a task of one; AsyncJob's methods without `await`."""

    def __init__(self, client: Client, behind: AsyncJob) -> None:
        self._client = client
        self.behind = behind
        """The same job for who has an event loop: the client's own."""

    @property
    def id(self) -> str:
        """As Slurm writes it: 12, 12_3."""
        return self.behind.id

    @property
    def notes(self) -> tuple[str, ...]:
        """What submitting had to say."""
        return self.behind.notes

    def __repr__(self) -> str:
        return repr(self.behind)

    def task(self, index: int) -> Job:
        """A task of this array."""
        return Job(self._client, self.behind.task(index))

    def detail(self) -> JobDetail:
        """All there is to say of it."""
        return self._client.run(self.behind.detail())

    def row(self) -> JobRow:
        """Its line of the queue."""
        return self._client.run(self.behind.row())

    def state(self) -> str:
        """Slurm's name of its state."""
        return self._client.run(self.behind.state())

    def why(self) -> ForecastRow:
        """Why it waits, when it starts, and what would start it now."""
        return self._client.run(self.behind.why())

    def wait(self, *, timeout_s: float | None = None) -> Outcome:
        """Until it, or every task of the array, has ended. Raises TimeoutError; the job goes on."""
        return self._client.run(self.behind.wait(timeout_s=timeout_s))

    def cancel(self, *, signal: str = "") -> None:
        """Ends it, or sends it a signal by name. Raises UserError where it cannot be."""
        self._client.run(self.behind.cancel(signal=signal))

    def metrics(self) -> Curves:
        """Its use of GPUs, CPUs and memory over its life, and in sum."""
        return self._client.run(self.behind.metrics())

    def snapshot(self) -> Snapshot | None:
        """The code that it runs; None: it was submitted without."""
        return self._client.run(self.behind.snapshot())

    def logs(self, *, follow: bool = True, stderr: bool = False, offset: int = 0) -> Iterator[str]:
        """The lines of its output; AsyncJob.logs."""
        lines = self.behind.logs(follow=follow, stderr=stderr, offset=offset)
        return self._client.portal.iterate(lines)

    def output(self, *, follow: bool = False, stderr: bool = False) -> bytes:
        """What it has written, as it is."""
        return self._client.run(self.behind.output(follow=follow, stderr=stderr))


class Client:
    """A connection that comes back by itself. `home`: whose controller; default $WARPDECK_HOME, the site's, or your own.

    `start` starts one if none runs. Ends with `close` or its `with`; jobs go on.
    """

    def __init__(self, home: str | os.PathLike[str] | None = None, *, start: bool = True) -> None:
        self.portal = Portal()
        self.behind = AsyncClient(home, start=start)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def paths(self) -> Paths:
        """The controller's files."""
        return self.behind.paths

    def close(self) -> None:
        """Ends the connection; jobs go on."""
        if not self.portal.loop.is_closed():
            self.run(self.behind.aclose())
            self.portal.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What an asynchronous call to `behind` gives."""
        return self.portal.call(work)

    def submit(
        self,
        script: str | os.PathLike[str] | None = None,
        *args: str,
        text: str | None = None,
        command: str | Sequence[str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        snapshot: Snapshots = "auto",
        **options: Any,
    ) -> Job:
        """Submits a batch script (a path and its arguments, or its `text`) or a `command` (shell text, or words).

        `options` are sbatch's with _ for -: gpus=2, time="4:00:00", array="0-9". `env`: what the job inherits in place of
        this process's variables. `snapshot`: of the code in `cwd`; auto takes one if it can, require raises, none does not.
        """
        given: dict[str, Any] = {
            "text": text,
            "command": command,
            "cwd": cwd,
            "env": env,
            "snapshot": snapshot,
        }
        return Job(self, self.run(self.behind.submit(script, *args, **given, **options)))

    def job(self, job: str | int) -> Job:
        """A job or task that was submitted before: 12, "12_3". Raises UserError for what is no job id."""
        return Job(self, self.behind.job(job))

    def jobs(
        self,
        *,
        user: str | None = None,
        states: Sequence[str] = (),
        ids: Sequence[str | int] = (),
        finished: bool = False,
    ) -> list[JobRow]:
        """The queue: unfinished jobs, oldest first; `finished` adds ended ones, and so do `states` and `ids`."""
        return self.run(self.behind.jobs(user=user, states=states, ids=ids, finished=finished))

    def wait(self, jobs: Sequence[Job | str | int], *, timeout_s: float | None = None) -> list[Outcome]:
        """Until all of these have ended; their outcomes in this order. Raises TimeoutError; the jobs go on."""
        return self.run(self.behind.wait([_reference(job) for job in jobs], timeout_s=timeout_s))

    def cancel(self, *jobs: Job | str | int, signal: str = "") -> Changed:
        """Ends jobs, or sends them a signal by its name ("USR1"). What is wrong with one job is raised, a UserError; with some
        of several, it is in the answer's `errors`."""
        return self.run(self.behind.cancel(*(_reference(job) for job in jobs), signal=signal))

    def metrics(self, job: Job | str | int = "", *, node: str = "", step_s: float = 1.0) -> Curves:
        """What a job used over its life, or a node lately in steps of 1, 10 or 60 s."""
        return self.run(self.behind.metrics(_reference(job), node=node, step_s=step_s))

    def diff(self, job: Job | str | int, other: Job | str | int = "") -> str:
        """From the code of another job, or (by default) of this one, to this one's, or its folder as it is now."""
        return self.run(self.behind.diff(_reference(job), _reference(other)))

    def files(self, job: Job | str | int) -> list[str]:
        """The paths in a job's snapshot."""
        return self.run(self.behind.files(_reference(job)))

    def nodes(self) -> list[NodeRow]:
        """All nodes, by name: state, CPUs, memory and GPUs with their last readings. [] on a cluster without."""
        return self.run(self.behind.nodes())

    def node(self, name: str) -> NodeRow:
        """One node. Raises UserError if there is none of this name."""
        return self.run(self.behind.node(name))

    def status(self) -> Status:
        """The controller: who one is to it, how many nodes, and jobs by state."""
        return self.run(self.behind.status())


def _reference(job: Job | str | int) -> str:
    return job.id if isinstance(job, Job) else str(job)
