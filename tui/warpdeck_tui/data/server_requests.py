"""The requests of the app, made over its connection to the controller."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.client import code
from warpdeck.client.blocking_client import SyncClient
from warpdeck.client.peek_terminal import Glance, glance
from warpdeck.client.runs.log_parts import LOG_SAMPLES, WHOLE_LOG_BYTES, log_parts, read_log
from warpdeck.model import Request
from warpdeck.model.change import JobChange
from warpdeck.model.finished_jobs import Clause, FinishedQuery, GroupCost
from warpdeck.notation.filters.job_filter import LONGEST_VALUE
from warpdeck.protocol import requests
from warpdeck.protocol.job_rows import (
    CurveRow,
    ForwardRow,
    JobDetail,
    JobRow,
    PastJobs,
    UsageCurves,
    UsageRow,
)
from warpdeck.protocol.node_rows import NodeRow, PastNodeRow
from warpdeck.protocol.request_base import OnJobs
from warpdeck.protocol.results import Changed, LogOpened, Timeline
from warpdeck.protocol.site_rows import ForecastRow
from warpdeck_tui.viewmodels.jobs.queue import only_waiting

if TYPE_CHECKING:
    from warpdeck.client.submission import SubmissionResult

from .connection import ServerConnection

LOG_TAIL_BYTES = 256 * 1024
"""A log is opened this many bytes before its end. Earlier parts are read when the user moves there."""
MAX_TASKS = 20_000
"""Largest number of tasks of an array that are listed, for moving from one to the next."""
ASKED_AT_ONCE = 8
"""Largest number of simultaneous requests about jobs that the nodes must answer."""
ORDERS: dict[str, type[OnJobs]] = {
    "cancel": requests.Cancel,
    "hold": requests.Hold,
    "release": requests.Release,
    "requeue": requests.Requeue,
    "pause": requests.Pause,
}


class Core(ServerConnection):
    """All requests to the controller. Every method raises UserError."""

    async def job(self, job: str) -> JobDetail:
        return await self.ask(requests.JobInfo(job=job))

    async def environment(self, job: str) -> dict[str, str]:
        """Return the environment variables with which this job of the user was submitted."""
        return (await self.ask(requests.JobEnvironment(job=job))).variables

    async def used_by(self, rows: Sequence[JobRow]) -> dict[int, UsageRow]:
        """Return the resource usage so far of these running jobs, by job id.

        Jobs that cannot be asked are left out.
        """
        turn = asyncio.Semaphore(ASKED_AT_ONCE)

        async def used(row: JobRow) -> UsageRow | None:
            async with turn:
                try:
                    return (await self.ask(requests.Curves(job=str(row.id)))).used
                except UserError:
                    return None

        told = await asyncio.gather(*(used(row) for row in rows))
        return {row.id: usage for row, usage in zip(rows, told, strict=True) if usage is not None}

    async def nodes_at(self, at: float) -> list[PastNodeRow]:
        """Return the state of the nodes at the time `at`."""
        return (await self.ask(requests.NodesAt(at=at))).nodes

    async def timeline(self, since: float, until: float, *, steps: int) -> Timeline:
        """Return the events of nodes and the use of the GPUs in this range of time."""
        return await self.ask(requests.NodeTimeline(since=since, until=until, steps=steps))

    async def node_curves(self, node: str, *, step_s: float) -> UsageCurves:
        """Return the recent measurements of a node and its GPUs."""
        return await self.ask(requests.Curves(node=node, step_s=step_s))

    async def submissions(self, user: str, *, limit: int) -> list[JobRow]:
        """Return the user's newest jobs, both ended and not ended."""
        return (await self.ask(requests.Jobs(users=(user,), finished=True, limit=limit))).jobs

    async def past(self, query: FinishedQuery, *, counted: bool = False) -> PastJobs:
        """Return a page of the jobs that have ended."""
        return await self.ask(requests.Past(query=query, counted=counted))

    async def past_costs(self, query: FinishedQuery) -> list[GroupCost]:
        """Return the resource usage of the ended jobs, in groups."""
        return (await self.ask(requests.PastCosts(query=query))).groups

    async def last_ended(self, user: str | None) -> list[JobRow]:
        """Return the first page of the user's ended jobs, the latest first."""
        return (await self.past(FinishedQuery(user=user))).jobs

    async def last_completed(self, user: str, *, name: str) -> list[JobRow]:
        """Return the user's completed jobs that contain `name` in their name, the latest first."""
        completed = Clause(field="state", sign="has", value="completed")
        named = Clause(field="name", sign="has", value=name.lower()[:LONGEST_VALUE])
        return (await self.past(FinishedQuery(user=user, clauses=(completed, named)))).jobs

    async def past_named(self, user: str, *, name: str) -> list[JobRow]:
        """Return the user's ended jobs that contain `name` in their name, the latest first."""
        named = Clause(field="name", sign="has", value=name.lower()[:LONGEST_VALUE])
        return (await self.past(FinishedQuery(user=user, clauses=(named,)))).jobs

    async def change(self, verb: str, jobs: Sequence[str]) -> Changed:
        """Apply one of ORDERS to the jobs."""
        if verb == "cancel":
            return await self._cancel(jobs)
        return await self.ask(ORDERS[verb](jobs=tuple(jobs)))

    async def _cancel(self, jobs: Sequence[str]) -> Changed:
        """Cancel jobs.

        A name that means the waiting tasks of an array does not affect tasks that have started meanwhile. Raises
        UserError.
        """
        labels: list[str] = []
        errors: list[str] = []
        for waiting in (False, True):
            named = [name for name in jobs if only_waiting(name) is waiting]
            if named:
                try:
                    done = await self.ask(requests.Cancel(jobs=tuple(named), waiting_only=waiting))
                except UserError as error:
                    if len(named) == len(jobs):
                        raise
                    done = Changed(errors=[error.line])
                labels += done.jobs
                errors += done.errors
        return Changed(jobs=labels, errors=errors)

    async def update(self, jobs: Sequence[str], change: JobChange) -> Changed:
        """Change properties of these jobs."""
        return await self.ask(requests.JobUpdate(jobs=tuple(jobs), change=change))

    async def node_add(
        self, target: str, *, name: str, accept_host_key: str, progress: Callable[[str], None]
    ) -> NodeRow:
        request = requests.NodeAdd(target=target, name=name, accept_host_key=accept_host_key)
        return await self._live().ask(request, progress=progress)

    async def node_drain(self, name: str, *, reason: str) -> None:
        await self.ask(requests.NodeDrain(name=name, reason=reason))

    async def node_resume(self, name: str) -> None:
        await self.ask(requests.NodeResume(name=name))

    async def node_remove(self, name: str) -> None:
        await self.ask(requests.NodeRemove(name=name))

    async def tasks(self, row: JobRow) -> list[JobRow]:
        """Return all jobs of the row's array: tasks of any age, and the waiting ones."""
        wanted = requests.Jobs(ids=(str(row.array_job_id),), finished=True, limit=MAX_TASKS)
        return (await self.ask(wanted)).jobs

    async def follow_log(
        self,
        job: str,
        *,
        channel: str,
        node: str = "",
        on_opened: Callable[[LogOpened], None] | None = None,
        tail_bytes: int = LOG_TAIL_BYTES,
    ) -> AsyncGenerator[tuple[int, bytes], None]:
        """Yield a job's output from its last `tail_bytes` bytes on, as it grows, until the job ends.

        Each item is a pair (offset in the file in bytes, bytes).
        """
        async with (
            self._live().log(job, channel=channel, offset=-tail_bytes, follow=True, node=node) as log,
            contextlib.aclosing(aiter(log)) as chunks,
        ):
            at_bytes: int | None = None
            log.on_opened = on_opened
            async for chunk in chunks:
                at_bytes = log.opened.offset if at_bytes is None else at_bytes
                yield at_bytes, chunk
                at_bytes += len(chunk)

    async def read_log(
        self, job: str, *, channel: str, at_bytes: int, size_bytes: int, node: str = ""
    ) -> bytes:
        """Return a part of a job's output. It is shorter than `size_bytes` if the output ends before."""
        return await read_log(
            self._live(), job, channel=channel, at_bytes=at_bytes, size_bytes=size_bytes, node=node
        )

    async def log_parts(
        self,
        job: str,
        *,
        channel: str,
        whole_bytes: int = WHOLE_LOG_BYTES,
        most_samples: int = LOG_SAMPLES,
    ) -> tuple[int, list[tuple[int, bytes]]]:
        """Return the length of a job's output in bytes, and parts of it with their offsets.

        The parts are samples of the beginning, then all of the last `whole_bytes` bytes.
        """
        return await log_parts(
            self._live(), job, channel=channel, whole_bytes=whole_bytes, most_samples=most_samples
        )

    async def curves(self, job: str) -> list[CurveRow]:
        return list((await self.ask(requests.Curves(job=job))).curves)

    async def log_tail(self, job: str, *, channel: str, size_bytes: int) -> bytes:
        """Return the last `size_bytes` bytes of a job's output."""
        async with (
            self._live().log(job, channel=channel, offset=-size_bytes) as log,
            contextlib.aclosing(aiter(log)) as chunks,
        ):
            return b"".join([chunk async for chunk in chunks])[-size_bytes:]

    async def submit(
        self,
        script: str,
        *,
        text: str,
        options: Sequence[str],
        cwd: str,
        args: Sequence[str] = (),
        code_of: str = "",
    ) -> SubmissionResult:
        """Submit the text of a script as the command line does. `script` is its name, or "" if it has none.

        Parsing and git run in a thread.
        """
        from . import submission as submitting

        def send() -> SubmissionResult:
            draft = submitting.draft_text(script, text, options, cwd, args=args, environ=os.environ)
            return submitting.submit_draft(self.paths, draft, code_of=code_of)

        return await asyncio.to_thread(send)

    async def rerun(self, job: str) -> SubmissionResult:
        """Submit the job again as it was recorded. Git runs in a thread."""
        from . import submission as submitting

        return await asyncio.to_thread(submitting.submit_again, self.paths, job)

    async def dry_run(self, script: str, *, text: str, options: Sequence[str], cwd: str) -> ForecastRow:
        """Return the outcome that is estimated for this submission now. Nothing is submitted."""
        from . import submission as submitting

        draft = await asyncio.to_thread(submitting.draft_text, script, text, options, cwd, environ={})
        try:
            first, *others = [msgspec.convert(each, Request) for each in (draft.request, *draft.components)]
        except msgspec.ValidationError as error:
            raise UserError(f"Invalid request: {error}", "Correct the options") from error
        return await self.ask(requests.DryRun(request=first, components=tuple(others)))

    async def forecast(self, job: str) -> ForecastRow:
        return await self.ask(requests.Forecast(job=job))

    async def forwards(self) -> list[ForwardRow]:
        """Return the ports that the user's clients forward now."""
        return (await self.ask(requests.Forwards())).forwards

    async def forward_page(self, number: int) -> str:
        """Return the part after the host of the URL of one of the user's own forwards, including its
        token.
        """
        return (await self.ask(requests.ForwardPage(number=number))).page

    async def end_forward(self, number: int) -> None:
        await self.ask(requests.ForwardEnd(number=number))

    async def glance(self, job: str, *, offset: int) -> Glance:
        """Return the output of a session's terminal from `offset` on. The session is not affected."""
        return await asyncio.to_thread(self._glance, job, offset)

    async def shell(self, options: Sequence[str], *, rows: int, cols: int) -> SubmissionResult:
        """Submit an interactive shell."""
        from . import submission as submitting

        return await asyncio.to_thread(submitting.submit_shell, self.paths, options, rows=rows, cols=cols)

    async def files(self, snapshot: Mapping[str, Any]) -> list[str]:
        """Return the paths in a job's snapshot."""
        return await asyncio.to_thread(code.files, snapshot)

    async def file(self, snapshot: Mapping[str, Any], path: str) -> bytes:
        """Return the content of a file in a job's snapshot."""
        return await asyncio.to_thread(code.read, snapshot, path)

    async def branch(self, snapshot: Mapping[str, Any]) -> str:
        """Return the branch that was checked out when the snapshot of a job was taken, or ""."""
        return await asyncio.to_thread(code.branch, snapshot)

    async def diff_with_commit(self, snapshot: Mapping[str, Any]) -> str:
        """Return the diff from the commit on which a job's snapshot is based to the snapshot."""
        return await asyncio.to_thread(code.diff_with_commit, snapshot)

    async def diff_with_now(self, snapshot: Mapping[str, Any]) -> str:
        return await asyncio.to_thread(code.diff_with_now, snapshot)

    async def diff_with_job(self, snapshot: Mapping[str, Any], other: str) -> str:
        """Return the diff from the code of the job `other` to the code of this job."""
        there = (await self.job(other)).snapshot
        if not there:
            raise UserError(f"Job {other} has no snapshot", "Compare with another job")
        return await asyncio.to_thread(code.diff, there, snapshot)

    def _glance(self, job: str, offset: int) -> Glance:
        with SyncClient.connect(self.paths, start=False) as client:
            return glance(client, job, offset=offset)
