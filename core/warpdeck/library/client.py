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

import os
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar

from warpdeck.base.paths import Paths
from warpdeck.model import Snapshot
from warpdeck.protocol.job_rows import Curves, JobDetail, JobRow
from warpdeck.protocol.node_rows import NodeRow
from warpdeck.protocol.results import Changed, Status
from warpdeck.protocol.site_rows import ForecastRow

from .asyncclient import AsyncClient
from .asyncjob import AsyncJob
from .drafting import Snapshots
from .outcome import Outcome
from .portal import Portal

T = TypeVar("T")


class Job:
    """A job, an array, or a task of an array. It has the methods of `AsyncJob`, without `await`."""

    def __init__(self, client: Client, behind: AsyncJob) -> None:
        self._client = client
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
        return Job(self._client, self.behind.task(index))

    def detail(self) -> JobDetail:
        """Return all details of the job."""
        return self._client.run(self.behind.detail())

    def row(self) -> JobRow:
        """Return the job's row of the queue."""
        return self._client.run(self.behind.row())

    def state(self) -> str:
        """Return Slurm's name of the job's state."""
        return self._client.run(self.behind.state())

    def why(self) -> ForecastRow:
        """Return why the job waits, when it should start, and what would start it now."""
        return self._client.run(self.behind.why())

    def wait(self, *, timeout_s: float | None = None) -> Outcome:
        """Wait until the job, or every task of the array, has ended. Raises TimeoutError; the job continues."""
        return self._client.run(self.behind.wait(timeout_s=timeout_s))

    def cancel(self, *, signal: str = "") -> None:
        """Cancel the job, or send it a signal by name. Raises UserError if this is not possible."""
        self._client.run(self.behind.cancel(signal=signal))

    def metrics(self) -> Curves:
        """Return the use of GPUs, CPUs and memory over the job's life, and the sums."""
        return self._client.run(self.behind.metrics())

    def snapshot(self) -> Snapshot | None:
        """Return the snapshot of the code that the job runs, or None if it was submitted without one."""
        return self._client.run(self.behind.snapshot())

    def logs(self, *, follow: bool = True, stderr: bool = False, offset: int = 0) -> Iterator[str]:
        """Yield the lines of the job's output. See `AsyncJob.logs`."""
        lines = self.behind.logs(follow=follow, stderr=stderr, offset=offset)
        return self._client.portal.iterate(lines)

    def output(self, *, follow: bool = False, stderr: bool = False) -> bytes:
        """Return the output that the job has written, as bytes."""
        return self._client.run(self.behind.output(follow=follow, stderr=stderr))


class Client:
    """A connection to a controller that reconnects by itself.

    `home` chooses the controller. The default is $WARPDECK_HOME, then the site's home, then the user's own.
    With `start`, the client starts a controller if none runs. `close` or the end of the `with` block ends the
    connection; jobs continue.
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
        """Submit a batch script (a path with arguments, or its `text`) or a `command` (shell text, or a list
        of arguments).

        `options` are those of sbatch with _ for -, such as gpus=2, time="4:00:00" or array="0-9". `env`
        replaces this process's variables in the job's environment. `snapshot` controls the snapshot of the
        code in `cwd`: "auto" takes one if possible, "require" raises UserError if not, and "none" takes none.
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
        """Return a job or task that was submitted before, such as 12 or "12_3". Raises UserError if the id is
        malformed.
        """
        return Job(self, self.behind.job(job))

    def jobs(
        self,
        *,
        user: str | None = None,
        states: Sequence[str] = (),
        ids: Sequence[str | int] = (),
        finished: bool = False,
    ) -> list[JobRow]:
        """Return the unfinished jobs, oldest first. `finished`, `states` and `ids` include ended jobs, too."""
        return self.run(self.behind.jobs(user=user, states=states, ids=ids, finished=finished))

    def wait(self, jobs: Sequence[Job | str | int], *, timeout_s: float | None = None) -> list[Outcome]:
        """Wait until all of these jobs have ended and return their outcomes in this order. Raises
        TimeoutError; the jobs continue.
        """
        return self.run(self.behind.wait([_reference(job) for job in jobs], timeout_s=timeout_s))

    def cancel(self, *jobs: Job | str | int, signal: str = "") -> Changed:
        """Cancel jobs, or send them a signal by name ("USR1").

        Raises UserError if there is one job and it fails. With several jobs, the answer's `errors` contains
        the failures.
        """
        return self.run(self.behind.cancel(*(_reference(job) for job in jobs), signal=signal))

    def metrics(self, job: Job | str | int = "", *, node: str = "", step_s: float = 1.0) -> Curves:
        """Return the resource use of a job over its life, or of a node lately in steps of 1, 10 or 60 s."""
        return self.run(self.behind.metrics(_reference(job), node=node, step_s=step_s))

    def diff(self, job: Job | str | int, other: Job | str | int = "") -> str:
        """Return the difference from the code of job `other` to the code of `job`. Without `other`, compare
        with the folder as it is now.
        """
        return self.run(self.behind.diff(_reference(job), _reference(other)))

    def files(self, job: Job | str | int) -> list[str]:
        """Return the paths in a job's snapshot."""
        return self.run(self.behind.files(_reference(job)))

    def nodes(self) -> list[NodeRow]:
        """Return all nodes by name, with state, CPUs, memory, and GPUs with their last readings. Empty on a
        cluster without nodes.
        """
        return self.run(self.behind.nodes())

    def node(self, name: str) -> NodeRow:
        """Return one node. Raises UserError if no node has this name."""
        return self.run(self.behind.node(name))

    def status(self) -> Status:
        """Return the controller's status: the caller's identity, the number of nodes, and the jobs by state."""
        return self.run(self.behind.status())


def _reference(job: Job | str | int) -> str:
    return job.id if isinstance(job, Job) else str(job)
