"""Revoke launches that were prefetched to nodes.

Launches are revoked whenever a pass may give their resources to other jobs, and before a request about
pending tasks is applied. Nodes are only asked. A launch that has not begun becomes pending again
(`LaunchRevoked`). A launch that has begun is reported as usual. A node that does not answer keeps its
prefetched launches, as it keeps its jobs. A request waits for the answer at most ORDER_S seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from warpdeck.controller.events.effects import Effect, RevokeLaunches
from warpdeck.controller.events.events import (
    Cancelled,
    Event,
    Held,
    NodeDrained,
    NodeRemoved,
    Released,
    Requeued,
    ReservationMade,
    Suspended,
    Updated,
)
from warpdeck.controller.state.state import State
from warpdeck.controller.state.view import unavailable_reason
from warpdeck.model import Job, JobId, NodeName

ORDER_S = 1.0
"""Maximum number of seconds that a request waits for prefetched launches. A network round trip is far
shorter.
"""
_AFFECTS_PENDING = (
    Cancelled,
    Held,
    Released,
    Requeued,
    Suspended,
    Updated,
    NodeDrained,
    NodeRemoved,
    ReservationMade,
)
"""Requests that may concern pending tasks, or the nodes on which these tasks may run. No prefetched launch
may begin while one of these requests is being applied.
"""


class PrefetchRevoker:
    """Sends revocations, and records those that are unanswered. `send` sends them as effects."""

    def __init__(self, send: Callable[[Sequence[Effect]], None]) -> None:
        self._send = send
        self._sent: set[tuple[JobId, int]] = set()
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def is_awaited(self) -> bool:
        """Return whether a request is waiting for revocations. While it waits, nothing is prefetched."""
        return bool(self._waiting)

    def revoke_unjustified(self, state: State, *, trusted: JobId | None) -> None:
        """Revoke prefetched launches that are no longer justified after a pass.

        Only tasks of the array of the record `trusted`, on nodes that accept jobs, remain prefetched.
        """
        if not state.index.successor:
            return
        array = None if trusted is None else state.jobs[trusted].array_job_id
        unjustified = [
            job for job in _prefetched(state) if job.array_job_id != array or not _accepts_jobs(state, job)
        ]
        keys = {(job.id, job.restarts) for job in unjustified}
        new = [job for job in unjustified if (job.id, job.restarts) not in self._sent]
        self._sent = (self._sent & keys) | keys
        self._revoke(new)

    async def revoke_before(self, event: Event, state: State) -> None:
        """Revoke prefetched launches if this request concerns pending tasks, and wait for the answers of the
        nodes.

        The wait ends after ORDER_S seconds at the latest.
        """
        if not isinstance(event, _AFFECTS_PENDING) or not _prefetched(state):
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        try:
            self._revoke(_prefetched(state))
            async with asyncio.timeout(ORDER_S):
                await done
        except TimeoutError:
            return
        finally:
            self._waiting.remove(done)

    def after_commit(self, state: State) -> None:
        """After a commit, let waiting requests continue if no launch is prefetched any more."""
        if self._waiting and not _prefetched(state):
            for done in self._waiting:
                if not done.done():
                    done.set_result(None)

    def _revoke(self, jobs: Sequence[Job]) -> None:
        by_node: dict[NodeName, list[tuple[JobId, int]]] = {}
        for job in jobs:
            by_node.setdefault(job.shares[0].node, []).append((job.id, job.restarts))
        self._send([RevokeLaunches(node=name, launches=tuple(keys)) for name, keys in by_node.items()])


def _prefetched(state: State) -> list[Job]:
    """Return the launches that may not have begun yet, in the order of their ids."""
    found = [state.jobs[job_id] for job_id in sorted(state.index.successor.values())]
    return [job for job in found if job.is_prefetched]


def _accepts_jobs(state: State, job: Job) -> bool:
    node = state.nodes.get(job.shares[0].node)
    return node is not None and not unavailable_reason(state, node)
