"""Subscriptions to changes of jobs and nodes, and to the ends of submissions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from warpdeck.base.chunking import in_slices
from warpdeck.controller.loop.change_listeners import ChangeListeners
from warpdeck.controller.loop.end_waiters import EndRequest, EndWaiters, SubmissionChanges
from warpdeck.controller.presenters.job_columns import job_row
from warpdeck.controller.presenters.node_rows import node_row
from warpdeck.controller.state.state import State
from warpdeck.model import Job, JobId, NodeName
from warpdeck.ports.engine import DeltaPage
from warpdeck.protocol import requests as ask
from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.node_rows import NodeRow
from warpdeck.protocol.results import Delta, Ends
from warpdeck.protocol.site_rows import EngineRow

from .visibility import Visibility

DELTA_INTERVAL_S = 0.1
"""Minimum seconds between two sets of changes for one subscriber."""
DELTA_ROWS = 500
"""Number of rows in one delta: a page of a large queue, well below the frame limit."""
TELL_INTERVAL_S = 0.1
"""Minimum seconds between two messages to one client. Jobs that end in between are reported together."""
END_ROWS = 500
"""Number of rows in one message about ends, well below the frame limit."""


class NodeTable(Protocol):
    """The nodes of the cluster, for subscribers."""

    def names(self) -> list[NodeName]: ...
    def row(self, name: NodeName) -> NodeRow | None:
        """Return the row of a node, or None if there is no such node any more."""
        ...


@dataclass(frozen=True, kw_only=True)
class StateNodes:
    """The nodes of a `State`."""

    state: State

    def names(self) -> list[NodeName]:
        return sorted(self.state.nodes)

    def row(self, name: NodeName) -> NodeRow | None:
        node = self.state.nodes.get(name)
        return None if node is None else node_row(self.state, node)


@dataclass(frozen=True, kw_only=True)
class Changes:
    """The changes of jobs and nodes, for subscribers.

    `watched` returns a context in which nodes are measured often, because somebody looks at them. `about` returns the
    engine's name and the age of its data.
    """

    state: State
    nodes: NodeTable
    about: Callable[[], EngineRow]
    hub: ChangeListeners
    watched: Callable[[], AbstractContextManager[None]]
    clock: Callable[[], float]

    async def pages(self, message: ask.Subscribe, seen: Visibility) -> AsyncGenerator[DeltaPage, None]:
        """Yield all rows, then changes forever. A page is a function that builds it."""
        listener, ready = self.hub.listen(), False
        told: EngineRow | None = None
        listener.jobs.update(dict.fromkeys(sorted(self.state.jobs)))
        listener.nodes.update(dict.fromkeys(self.nodes.names()))
        try:
            with self.watched():
                while True:
                    jobs, nodes = listener.take()
                    while jobs or nodes or not ready or told != self.about():
                        told = self.about()
                        some, jobs = jobs[:DELTA_ROWS], jobs[DELTA_ROWS:]
                        some_nodes, nodes = nodes[: ask.NODE_PAGE_ROWS], nodes[ask.NODE_PAGE_ROWS :]
                        last = not jobs and not nodes
                        yield partial(self._delta, message, seen, some, some_nodes, ready=last and not ready)
                        ready = ready or last
                    await listener.changed.wait()
                    await asyncio.sleep(DELTA_INTERVAL_S)
        finally:
            self.hub.leave(listener)

    async def _delta(
        self,
        message: ask.Subscribe,
        seen: Visibility,
        jobs: Sequence[JobId],
        nodes: Sequence[NodeName],
        *,
        ready: bool,
    ) -> Delta:
        """Return one page of changes.

        A row that changes while the page is built is sent again with the next one.
        """
        state = self.state
        since = self.clock() - message.finished_s
        gone_jobs: list[int] = []
        gone_nodes: list[str] = []

        show = seen.job_rows(lambda some: [job_row(state, job) for job in some])

        def job_rows(some: Sequence[JobId]) -> list[JobRow]:
            rows: list[Job] = []
            for job_id in some:
                job = state.jobs.get(job_id)
                if job is None or (job.is_finished and (job.end_at_unix or 0.0) < since):
                    gone_jobs.append(job_id)
                elif message.user in (None, job.user):
                    rows.append(job)
            return show(rows)

        def node_rows(some: Sequence[NodeName]) -> list[NodeRow]:
            rows = {name: self.nodes.row(name) for name in some}
            gone_nodes.extend(name for name, row in rows.items() if row is None)
            return [seen.node(row, state) for row in rows.values() if row is not None]

        return Delta(
            jobs=await in_slices(jobs, job_rows) if "jobs" in message.topics else [],
            gone_jobs=gone_jobs,
            nodes=await in_slices(nodes, node_rows)
            if "nodes" in message.topics and seen.allows("nodes")
            else [],
            gone_nodes=gone_nodes,
            ready=ready,
            engine=self.about(),
        )


class RowsOfEnds(EndRequest):
    """A client's wait for the ends of submissions. `show` returns the rows of the jobs."""

    def __init__(
        self, ends: EndWaiters, message: ask.AwaitEnds, show: Callable[[Sequence[Job]], Sequence[Any]]
    ) -> None:
        super().__init__(ends, begun=message.begun)
        self._show = show
        self.add(message.jobs)

    async def messages(self) -> AsyncGenerator[Ends, None]:
        """Yield each end once, forever."""
        async for pages in self.changes():
            for page in pages:
                async for ends in self._ends(page):
                    yield ends
            await asyncio.sleep(TELL_INTERVAL_S)

    async def _ends(self, page: SubmissionChanges) -> AsyncGenerator[Ends, None]:
        """Yield a page in as many messages as it needs. If the submission is done, the last one says so."""
        rows = [("begun", job) for job in page.begun] + [("ended", job) for job in page.ended]
        for first in range(0, max(1, len(rows)), END_ROWS):
            some, is_last = rows[first : first + END_ROWS], first + END_ROWS >= len(rows)
            done = [page.number] if page.done and is_last else []
            yield Ends(
                begun=await in_slices([job for kind, job in some if kind == "begun"], self._show),
                ended=await in_slices([job for kind, job in some if kind == "ended"], self._show),
                done=[*done],
                unknown=[*done] if page.unknown else [],
            )
