"""Waits of requests: for the state of a job, for the link to a node, and for the rest of an output."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from warpdeck.base.errors import UserError
from warpdeck.controller.loop.change_listeners import ChangeListeners
from warpdeck.controller.loop.end_waiters import EndWaiters
from warpdeck.controller.state.state import State
from warpdeck.model import Job, Link, NodeName
from warpdeck.ports.engine import Progress
from warpdeck.ports.ports import OutputCollector
from warpdeck.protocol.start_text import about

WAIT_TICK_S = 30.0
"""Seconds after which a waiting request checks again, to report the job's expected start time."""
LINK_S = 15.0
"""Seconds that a request waits for a link that is being made, or for the rest of an output."""


@dataclass(frozen=True, kw_only=True)
class JobWaits:
    """Waits of requests, woken by changes of the state.

    An engine without `collector` does not copy output from nodes.
    """

    state: State
    ends: EndWaiters
    hub: ChangeListeners
    clock: Callable[[], float]
    collector: OutputCollector | None = None
    names_jobs: Callable[[], bool] = lambda: True
    """Returns whether pending reasons may name other users' jobs. Otherwise only their codes are reported."""

    async def until(self, job: Job, reached: Callable[[Job], bool], progress: Progress | None = None) -> Job:
        """Wait until the job satisfies `reached` and return the job in that state.

        While it waits, pending reasons are reported to `progress`. A task that is merged back into the pending
        tasks of its array is followed there. Raises UserError if the job is no longer known.
        """
        state, told = self.state, ""
        with self.ends.waiter(job) as waiter:
            while True:
                waiter.take()
                now = await self.ends.record_of(job)
                if now is None:
                    raise UserError(f"job {job.label()} no longer exists", "see `sacct` or `warpdeck queue`")
                if reached(now):
                    await self.ends.commits.wait()
                    if now.id not in state.jobs or state.jobs[now.id] is now:
                        return now
                    continue
                why = state.planned.pending_reasons.get(now.id)
                words = "" if why is None else why.sentence if self.names_jobs() else why.code
                if progress is not None and why is not None and words != told:
                    told = words
                    at_unix = why.expected_start_unix
                    soon = f"; expected {about(at_unix, self.clock())}" if at_unix is not None else ""
                    await progress(f"waiting: {told}{soon}")
                try:
                    async with asyncio.timeout(WAIT_TICK_S):
                        await waiter.changed.wait()
                except TimeoutError:
                    continue

    async def end_of_start(self, job: Job) -> None:
        """Wait until this start of the job has ended."""
        await self.until(job, lambda now: now.is_finished or now.restarts != job.restarts)

    async def link(self, name: NodeName) -> None:
        """Wait a moment for the link to a node.

        A controller that has just started is still connecting to its nodes.
        """
        listener = self.hub.listen()
        try:
            async with asyncio.timeout(LINK_S):
                while self.state.node_status.links.get(name) is Link.CONNECTING:
                    await listener.changed.wait()
                    listener.take()
        except TimeoutError:
            return
        finally:
            self.hub.leave(listener)

    async def outputs(self, written: Iterable[tuple[Job, NodeName]]) -> None:
        """Wait a moment for the rest of the jobs' output.

        It may still be on its way when a job has ended.
        """
        if self.collector is None:
            return
        try:
            async with asyncio.timeout(LINK_S):
                for job, node in written:
                    await self.collector.finished(job.id, job.restarts, node)
        except TimeoutError:
            return


def has_begun(job: Job) -> bool:
    """Return whether any part of the job runs or has run."""
    return job.is_finished or any(share.phase != "launching" for share in job.shares)
