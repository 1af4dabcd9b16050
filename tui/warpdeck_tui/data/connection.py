"""The one class of the app that talks to the core: a connection that comes back by itself, and what is asked over it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.client import code
from warpdeck.client.blocking_client import SyncClient
from warpdeck.client.client import GONE, Changed, Client, Delta, LogOpened
from warpdeck.client.peek_terminal import Glance, glance
from warpdeck.client.site_queries import Site
from warpdeck.model import Request
from warpdeck.model.change import JobChange
from warpdeck.model.past import Clause, GroupCost, PastQuery
from warpdeck.notation.filters.job_filter import LONGEST_VALUE
from warpdeck.protocol import requests as ask
from warpdeck.protocol.job_rows import (
    CurveRow,
    Curves,
    ForwardRow,
    JobDetail,
    JobRow,
    JobVariables,
    PastJobs,
    UsageRow,
)
from warpdeck.protocol.node_rows import NodeRow, PastNodeRow
from warpdeck.protocol.site_rows import ForecastRow
from warpdeck_tui.viewmodels.jobs.queue import only_waiting

if TYPE_CHECKING:
    from warpdeck.client.submission import Submitted

RECONNECT_FIRST_S = 0.2
RECONNECT_MOST_S = 5.0
PULSE_S = 5.0
"""So often the controller is asked something although nobody wants to know."""
LATE_S = 5.0
"""Who has no answer by then is told: a disk, or a debugger, may hold the controller up for minutes."""
FINISHED_S = 3600.0
"""Jobs that ended so long ago are still in the queue."""
LOG_TAIL_BYTES = 256 * 1024
"""A log opens so far before its end; what stands before is read when somebody goes there."""
WHOLE_LOG_BYTES = 1024 * 1024
"""So much of the end of a log is looked through for the numbers in it; of what stands before only samples:"""
LOG_SAMPLES, LOG_SAMPLE_BYTES = 48, 16 * 1024
MAX_TASKS = 20_000
"""Of an array, to go from one to the next."""
ASKED_AT_ONCE = 8
"""Questions about jobs that nodes answer."""
VERBS = ("cancel", "hold", "release", "requeue")


class Listener(Protocol):
    """Who is told: the app."""

    def linked(self, user: str) -> None:
        """A connection stands; everything is told anew."""

    def told(self, delta: Delta) -> None: ...

    def went_away(self, words: str) -> None:
        """No connection, or no answer, and why."""

    def came_back(self) -> None:
        """It answers, though it did not for a while."""


@contextlib.contextmanager
def _answering(listener: Listener, late_s: float) -> Iterator[None]:
    """Says so where what is asked within is not answered soon, and when it is."""
    late = False

    def tell() -> None:
        nonlocal late
        late = True
        listener.went_away("the controller does not answer; waiting for it")

    timer = asyncio.get_running_loop().call_later(late_s, tell)
    try:
        yield
        if late:
            listener.came_back()
    finally:
        timer.cancel()


class Core:
    """Everything asked of the controller. All calls raise UserError."""

    def __init__(
        self, paths: Paths, *, rng: random.Random, pulse_s: float = PULSE_S, late_s: float = LATE_S
    ) -> None:
        self.paths = paths
        self._rng = rng
        self._pulse_s, self._late_s = pulse_s, late_s
        self._client: Client | None = None
        self._up = asyncio.Event()

    async def watch(self, listener: Listener) -> None:
        """Tells what changes, for ever.

        The first connection starts a controller if none runs. Later one is started again only where it crashed: whoever
        said `warpdeck down` does not want it back.
        """
        start, wait_s = True, RECONNECT_FIRST_S
        while True:
            try:
                with _answering(listener, self._late_s):
                    client = await Client.connect(self.paths, start=start, name="app")
                async with client:
                    wait_s = RECONNECT_FIRST_S
                    self._client = client
                    self._up.set()
                    listener.linked(client.welcome.user)
                    await self._tell(client, listener)
            except UserError as error:
                stopped = error.code == GONE and not os.path.exists(self.paths.socket)
                why = "the controller was stopped" if stopped else error.message
                listener.went_away(f"{why}; reconnecting")
            finally:
                self._client = None
                self._up.clear()
            start = os.path.exists(self.paths.socket)
            await asyncio.sleep(wait_s * self._rng.uniform(0.5, 1.0))
            wait_s = min(2 * wait_s, RECONNECT_MOST_S)

    async def _tell(self, client: Client, listener: Listener) -> None:
        """What changes, as long as the connection lasts."""
        lost: UserError | None = None
        async with asyncio.TaskGroup() as group:
            pulse = group.create_task(self._feel_pulse(client, listener))
            try:
                async with contextlib.aclosing(client.subscribe(finished_s=FINISHED_S)) as deltas:
                    async for delta in deltas:
                        listener.told(delta)
            except UserError as error:
                lost = error
            pulse.cancel()
        if lost is not None:
            raise lost

    async def _feel_pulse(self, client: Client, listener: Listener) -> None:
        """Asks for what costs least, now and then: a controller that hangs tells nothing, and clocks would tick on."""
        while not client.lost:
            await asyncio.sleep(self._pulse_s)
            with contextlib.suppress(UserError), _answering(listener, self._late_s):
                await client.forwards()

    async def start_controller(self) -> None:
        """After it was stopped; `watch` finds it."""
        await (await Client.connect(self.paths, name="app")).close()

    async def connected(self) -> None:
        """Returns when a connection stands: not the one that was just lost, before `watch` has noticed."""
        if self._client is not None and self._client.lost:
            self._up.clear()
        await self._up.wait()

    async def job(self, job: str) -> JobDetail:
        return await self._live().job(job)

    async def environment(self, job: str) -> dict[str, str]:
        """The variables that a job of the user's was submitted with."""
        return (await self._live().request(ask.JobEnvironment(job=job), JobVariables)).variables

    async def used_by(self, rows: Sequence[JobRow]) -> dict[int, UsageRow]:
        """What these running jobs have used up to now, by id; without those that cannot be asked."""
        turn = asyncio.Semaphore(ASKED_AT_ONCE)

        async def ask(row: JobRow) -> UsageRow | None:
            async with turn:
                try:
                    return (await self._live().curves(job=str(row.id))).used
                except (
                    UserError
                ):  # it has ended, or the link went: its line goes on saying that it is not known
                    return None

        told = await asyncio.gather(*(ask(row) for row in rows))
        return {row.id: used for row, used in zip(rows, told, strict=True) if used is not None}

    async def nodes_at(self, at: float) -> list[PastNodeRow]:
        """What the nodes were like at that moment."""
        return await self._live().nodes_at(at)

    async def node_curves(self, node: str, *, step_s: float) -> Curves:
        """What was measured on a node and its GPUs lately."""
        return await self._live().curves(node=node, step_s=step_s)

    async def submissions(self, user: str, *, limit: int) -> list[JobRow]:
        """The user's newest jobs, ended or not."""
        return await self._live().jobs(user=user, finished=True, limit=limit)

    @property
    def site(self) -> Site:
        """What admins look at and change. Raises UserError without a connection."""
        return Site(self._live())

    async def past(self, query: PastQuery, *, counted: bool = False) -> PastJobs:
        """A page of the jobs that have ended."""
        return await self._live().past(query, counted=counted)

    async def past_costs(self, query: PastQuery) -> list[GroupCost]:
        """What the jobs that have ended have cost, in groups."""
        return await self._live().past_costs(query)

    async def last_ended(self, user: str | None) -> list[JobRow]:
        """The user's last ones, the latest first."""
        return (await self.past(PastQuery(user=user))).jobs

    async def last_completed(self, user: str, *, name: str) -> list[JobRow]:
        """The user's last ones that completed and have that in their name, the latest first."""
        completed = Clause(field="state", sign="has", value="completed")
        named = Clause(field="name", sign="has", value=name.lower()[:LONGEST_VALUE])
        return (await self.past(PastQuery(user=user, clauses=(completed, named)))).jobs

    async def change(self, verb: str, jobs: Sequence[str]) -> Changed:
        """One of VERBS."""
        assert verb in VERBS
        client = self._live()
        if verb == "cancel":
            return await _cancel(client, jobs)
        calls = {"hold": client.hold, "release": client.release, "requeue": client.requeue}
        return await calls[verb](jobs)

    async def update(self, jobs: Sequence[str], change: JobChange) -> Changed:
        """Makes the jobs other than they are."""
        return await self._live().update(jobs, change)

    async def node_add(
        self, target: str, *, name: str, accept_host_key: str, progress: Callable[[str], None]
    ) -> NodeRow:
        return await self._live().node_add(
            target, name=name, accept_host_key=accept_host_key, progress=progress
        )

    async def node_drain(self, name: str, *, reason: str) -> None:
        await self._live().node_drain(name, reason=reason)

    async def node_resume(self, name: str) -> None:
        await self._live().node_resume(name)

    async def node_remove(self, name: str) -> None:
        await self._live().node_remove(name)

    async def tasks(self, row: JobRow) -> list[JobRow]:
        """All of the row's array: tasks of any age, and what waits."""
        return await self._live().jobs(ids=[str(row.array_job_id)], finished=True, limit=MAX_TASKS)

    async def follow_log(
        self, job: str, *, channel: str, node: str = "", on_opened: Callable[[LogOpened], None] | None = None
    ) -> AsyncGenerator[tuple[int, bytes], None]:
        """A job's output from its last part on, as it grows, until the job ends: (where it stands in the file, bytes)."""
        async with (
            self._live().log(job, channel=channel, offset=-LOG_TAIL_BYTES, follow=True, node=node) as log,
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
        """A part of a job's output; fewer bytes where it is shorter."""
        found: list[bytes] = []
        missing = size_bytes
        async with (
            self._live().log(job, channel=channel, offset=at_bytes, node=node) as log,
            contextlib.aclosing(aiter(log)) as chunks,
        ):
            async for chunk in chunks:
                found.append(chunk[:missing])
                missing -= len(found[-1])
                if not missing:
                    break
        return b"".join(found)

    async def log_parts(self, job: str, *, channel: str) -> tuple[int, list[tuple[int, bytes]]]:
        """How long a job's output is, and parts of it with their places: samples, then all of its end."""
        async with (
            self._live().log(job, channel=channel, offset=-WHOLE_LOG_BYTES) as log,
            contextlib.aclosing(aiter(log)) as chunks,
        ):
            last = b"".join([chunk async for chunk in chunks])
            begin = log.opened.offset
        samples = LOG_SAMPLES if begin > LOG_SAMPLES * LOG_SAMPLE_BYTES else -(-begin // LOG_SAMPLE_BYTES)
        places = [begin * number // samples for number in range(samples)]
        parts = []
        for at_bytes in places:
            size_bytes = min(LOG_SAMPLE_BYTES, begin - at_bytes)
            data = await self.read_log(job, channel=channel, at_bytes=at_bytes, size_bytes=size_bytes)
            parts.append((at_bytes, data))
        return begin + len(last), [*parts, (begin, last)]

    async def curves(self, job: str) -> list[CurveRow]:
        return list((await self._live().curves(job=job)).curves)

    async def log_tail(self, job: str, *, channel: str, size_bytes: int) -> bytes:
        """The last bytes of a job's output."""
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
    ) -> Submitted:
        """Submits the text of a script, which has that name or none, as the command line does; parsing and git take a thread."""
        from . import submission as submitting

        def send() -> Submitted:
            draft = submitting.draft_text(script, text, options, cwd, args=args, environ=os.environ)
            return submitting.submit_draft(self.paths, draft, code_of=code_of)

        return await asyncio.to_thread(send)

    async def rerun(self, job: str) -> Submitted:
        """Submits it again, as it was recorded; git takes a thread."""
        from . import submission as submitting

        return await asyncio.to_thread(submitting.submit_again, self.paths, job)

    async def dry_run(self, script: str, *, text: str, options: Sequence[str], cwd: str) -> ForecastRow:
        """What would become of such a submission now; nothing is submitted."""
        from . import submission as submitting

        draft = await asyncio.to_thread(submitting.draft_text, script, text, options, cwd, environ={})
        try:
            requests = [msgspec.convert(each, Request) for each in (draft.request, *draft.components)]
        except msgspec.ValidationError as error:
            raise UserError(f"the request is not understood: {error}", "correct it") from error
        return await self._live().dry_run(*requests)

    async def forecast(self, job: str) -> ForecastRow:
        return await self._live().forecast(job)

    async def forwards(self) -> list[ForwardRow]:
        """The ports that the user's clients forward now."""
        return await self._live().forwards()

    async def forward_page(self, number: int) -> str:
        """What of the URL of one's own forward follows the host, with its token."""
        return await self._live().forward_page(number)

    async def end_forward(self, number: int) -> None:
        await self._live().forward_end(number)

    async def glance(self, job: str, *, offset: int) -> Glance:
        """What a session's terminal has written from `offset` on; nobody notices."""
        return await asyncio.to_thread(self._glance, job, offset)

    async def shell(self, options: Sequence[str], *, rows: int, cols: int) -> Submitted:
        """Submits an interactive shell."""
        from . import submission as submitting

        return await asyncio.to_thread(submitting.submit_shell, self.paths, options, rows=rows, cols=cols)

    async def files(self, snapshot: Mapping[str, Any]) -> list[str]:
        """The paths in a job's snapshot."""
        return await asyncio.to_thread(code.files, snapshot)

    async def file(self, snapshot: Mapping[str, Any], path: str) -> bytes:
        """A file of a job's snapshot."""
        return await asyncio.to_thread(code.read, snapshot, path)

    async def diff_with_now(self, snapshot: Mapping[str, Any]) -> str:
        return await asyncio.to_thread(code.diff_with_now, snapshot)

    async def diff_with_job(self, snapshot: Mapping[str, Any], other: str) -> str:
        """From the other job's code to this one's."""
        there = (await self.job(other)).snapshot
        if not there:
            raise UserError(f"job {other} has no snapshot", "compare with another")
        return await asyncio.to_thread(code.diff, there, snapshot)

    def relay_client(self, *, start: bool = True) -> SyncClient:
        """A connection of its own for a terminal. Raises UserError."""
        return SyncClient.connect(self.paths, start=start)

    def _live(self) -> Client:
        if self._client is None:
            raise UserError("the controller is away", "wait until it is back", code=GONE)
        return self._client

    def _glance(self, job: str, offset: int) -> Glance:
        with SyncClient.connect(self.paths, start=False) as client:
            return glance(client, job, offset=offset)


async def _cancel(client: Client, jobs: Sequence[str]) -> Changed:
    """Cancel jobs. A name of waiting tasks of an array leaves alone the tasks that have begun meanwhile. Raises UserError."""
    labels: list[str] = []
    errors: list[str] = []
    for waiting in (False, True):
        named = [name for name in jobs if only_waiting(name) is waiting]
        if named:
            try:
                done = await client.cancel(named, waiting_only=waiting)
            except UserError as error:
                if len(named) == len(jobs):
                    raise
                done = Changed(errors=[error.line])
            labels += done.jobs
            errors += done.errors
    return Changed(jobs=labels, errors=errors)
