"""Waits for jobs, on top of controller/endwatch.

Clients wait for the ends of jobs. Other requests wait until a job has the state that they need.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from warpdeck.base.chunking import in_slices
from warpdeck.base.errors import UserError
from warpdeck.controller.loop.end_waiters import EndRequest, SubmissionChanges
from warpdeck.controller.presenters.job_columns import row_maker
from warpdeck.model import Job, JobId, NodeName
from warpdeck.protocol import requests as ask
from warpdeck.protocol.request_base import MAX_REFERENCES
from warpdeck.protocol.start_text import about

from .connection import ClientStream, Connection

TELL_INTERVAL_S = 0.1
"""Minimum seconds between two messages to one client. Jobs that end in between are reported together."""
PAGE_ROWS = 500
"""Number of rows in one message, well below the frame limit."""
WAIT_TICK_S = 30.0
"""Seconds after which a waiting request checks again, to report the job's expected start time."""
LINK_S = 15.0
"""Seconds that a request waits for a link that is being made, or for the rest of an output."""


class EndsStream(ClientStream):
    """A client's wait for the ends of submissions."""

    def __init__(self, connection: Connection, number: int, asked: EndRequest) -> None:
        super().__init__(connection, number)
        self._asked = asked
        self._task = asyncio.current_task()

    def more(self, message: ask.AwaitMore) -> None:
        if len(self._asked) + len(message.jobs) <= MAX_REFERENCES:
            self._asked.add(message.jobs)
            return
        error = UserError(
            f"cannot wait for more than {MAX_REFERENCES:,} submissions at once", "wait for fewer"
        )
        self.connection.send_error(self.number, error)
        self.end()

    def end(self, *, finished: bool = False) -> None:
        super().end()
        if self._task is not None:
            self._task.cancel()


async def tell_ends(connection: Connection, message: ask.AwaitEnds) -> None:
    """Report each end once, for as long as the client stays connected.

    Raises UserError for an unknown field.
    """
    controller = connection.server.controller
    show = row_maker(controller.state, message.fields, now=controller.clock())
    asked = EndRequest(controller.ends, begun=message.begun)
    EndsStream(connection, message.id, asked)
    connection.send({"t": "ok", "id": message.id, "result": {}})
    asked.add(message.jobs)
    try:
        async for pages in asked.changes():
            for page in pages:
                await _tell(connection, message.id, page, show)
            await asyncio.sleep(TELL_INTERVAL_S)
    finally:
        asked.close()


async def _tell(
    connection: Connection,
    number: int,
    page: SubmissionChanges,
    show: Callable[[Sequence[Job]], Sequence[Any]],
) -> None:
    """Send one page in as many messages as it needs. If the submission is done, the last message says so."""
    rows = [("begun", job) for job in page.begun] + [("ended", job) for job in page.ended]
    for first in range(0, max(1, len(rows)), PAGE_ROWS):
        some, is_last = rows[first : first + PAGE_ROWS], first + PAGE_ROWS >= len(rows)
        told: dict[str, Any] = {"t": "ends", "id": number, "done": [], "unknown": []}
        for word in ("begun", "ended"):
            told[word] = await in_slices([job for kind, job in some if kind == word], show)
        if page.done and is_last:
            told |= {"done": [page.number], "unknown": [page.number] if page.unknown else []}
        connection.send(told)
        await connection.drain()


async def wait_for(connection: Connection, job: Job, reached: Callable[[Job], bool], *, tell: int = 0) -> Job:
    """Wait until the job satisfies `reached` and return the job in that state.

    While it waits, pending reasons are sent as progress of the request `tell`. A task that is merged back
    into the pending tasks of its array is followed there. Raises UserError if the job is no longer known.
    """
    controller = connection.server.controller
    state, told = controller.state, ""
    with controller.ends.waiter(job) as waiter:
        while True:
            waiter.take()
            now = await controller.ends.record_of(job)
            if now is None:
                raise UserError(f"job {job.label()} no longer exists", "see `sacct` or `warpdeck queue`")
            if reached(now):
                await controller.ends.commits.wait()
                if now.id not in state.jobs or state.jobs[now.id] is now:
                    return now
                continue
            why = state.planned.pending_reasons.get(now.id)
            if tell and why is not None and why.sentence != told:
                told = why.sentence
                at_unix = why.expected_start_unix
                soon = f"; expected {about(at_unix, controller.clock())}" if at_unix is not None else ""
                await connection.progress(tell, f"waiting: {told}{soon}")
            try:
                async with asyncio.timeout(WAIT_TICK_S):
                    await waiter.changed.wait()
            except TimeoutError:
                continue


async def settle(connection: Connection, number: JobId) -> dict[str, Any]:
    """Wait until the output that the submission wrote has arrived on the submit host."""
    jobs = connection.server.controller.state.named(number)
    await settle_outputs(connection, [(job, share.node) for job in jobs for share in job.shares])
    return {}


async def settle_outputs(connection: Connection, written: Iterable[tuple[Job, NodeName]]) -> None:
    """Wait a moment for the rest of the jobs' output, which may still be on its way when a job has ended."""
    try:
        async with asyncio.timeout(LINK_S):
            for job, node in written:
                await connection.server.controller.outputs.finished(job.id, job.restarts, node)
    except TimeoutError:
        return
