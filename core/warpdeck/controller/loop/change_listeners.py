"""Who is told when rows change. Each listener has two small sets of what is dirty, so a slow reader costs a set, not a queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from warpdeck.model import JobId, NodeName


class Listener:
    """What has changed since this reader last took it."""

    def __init__(self) -> None:
        self.jobs: dict[JobId, None] = {}
        self.nodes: dict[NodeName, None] = {}
        self.changed = asyncio.Event()

    def take(self) -> tuple[list[JobId], list[NodeName]]:
        """The dirty ids, which are clean from now on."""
        jobs, nodes = list(self.jobs), list(self.nodes)
        self.jobs.clear()
        self.nodes.clear()
        self.changed.clear()
        return jobs, nodes


class ChangeListeners:
    """The listeners of a controller. `on_jobs` gets every job that changes too: who waits for single jobs hears of these alone."""

    def __init__(self, on_jobs: Callable[[Iterable[JobId]], None]) -> None:
        self._listeners: dict[int, Listener] = {}
        self._on_jobs = on_jobs

    @property
    def listeners(self) -> tuple[Listener, ...]:
        return tuple(self._listeners.values())

    def listen(self) -> Listener:
        """A new listener; give it back with `leave`."""
        listener = Listener()
        self._listeners[id(listener)] = listener
        return listener

    def leave(self, listener: Listener) -> None:
        self._listeners.pop(id(listener), None)

    def touch(self, *, jobs: Iterable[JobId] = (), nodes: Iterable[NodeName] = ()) -> None:
        """Marks these as changed for everybody."""
        job_ids, names = list(jobs), list(nodes)
        if not job_ids and not names:
            return
        self._on_jobs(job_ids)
        for listener in self._listeners.values():
            listener.jobs.update(dict.fromkeys(job_ids))
            listener.nodes.update(dict.fromkeys(names))
            listener.changed.set()
