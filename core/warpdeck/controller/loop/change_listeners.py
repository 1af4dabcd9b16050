"""Change notification for readers of jobs and nodes.

Each listener keeps one set of changed jobs and one set of changed nodes. A slow reader therefore costs two
sets of bounded size and not a growing queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from warpdeck.model import JobId, NodeName


class ChangeListener:
    """The jobs and nodes that changed since this reader last called `take`."""

    def __init__(self) -> None:
        self.jobs: dict[JobId, None] = {}
        self.nodes: dict[NodeName, None] = {}
        self.changed = asyncio.Event()

    def take(self) -> tuple[list[JobId], list[NodeName]]:
        """Return the ids of the changed jobs and nodes, and clear both sets."""
        jobs, nodes = list(self.jobs), list(self.nodes)
        self.jobs.clear()
        self.nodes.clear()
        self.changed.clear()
        return jobs, nodes


class ChangeListeners:
    """The listeners of one controller.

    `on_jobs` is also called with every changed job, for the readers that wait for single jobs.
    """

    def __init__(self, on_jobs: Callable[[Iterable[JobId]], None]) -> None:
        self._listeners: dict[int, ChangeListener] = {}
        self._on_jobs = on_jobs

    @property
    def listeners(self) -> tuple[ChangeListener, ...]:
        return tuple(self._listeners.values())

    def listen(self) -> ChangeListener:
        """Add a listener and return it. The caller removes it with `leave`."""
        listener = ChangeListener()
        self._listeners[id(listener)] = listener
        return listener

    def leave(self, listener: ChangeListener) -> None:
        self._listeners.pop(id(listener), None)

    def touch(self, *, jobs: Iterable[JobId] = (), nodes: Iterable[NodeName] = ()) -> None:
        """Mark these jobs and nodes as changed for all listeners."""
        job_ids, names = list(jobs), list(nodes)
        if not job_ids and not names:
            return
        self._on_jobs(job_ids)
        for listener in self._listeners.values():
            listener.jobs.update(dict.fromkeys(job_ids))
            listener.nodes.update(dict.fromkeys(names))
            listener.changed.set()

    def wake(self) -> None:
        """Wake all listeners although no job and no node has changed."""
        for listener in self._listeners.values():
            listener.changed.set()
