"""Taking back what was handed to nodes ahead of time: whenever a pass may give its places to others, and before anybody's order.

Nodes are only asked; what they say has not begun waits again (GivenBack), and what they have begun is told as ever. A node
that does not answer keeps what it was handed, as it keeps its jobs; an order does not wait for it any longer than ORDER_S.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from warpdeck.controller.events.events import (
    Cancelled,
    Effect,
    Event,
    Held,
    NodeDrained,
    NodeRemoved,
    Released,
    Requeued,
    ReservationMade,
    Suspended,
    TakeBack,
    Updated,
)
from warpdeck.controller.state.state import State
from warpdeck.controller.state.view import why_unavailable
from warpdeck.model import Job, JobId, NodeName

ORDER_S = 1.0
"""The longest that an order waits for what was handed ahead; a link's round trip is far below."""
_CONCERNED = (
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
"""Orders that may be about tasks which wait, or about where they may run: nothing may begin behind their back."""


class PrefetchRevoker:
    """What was asked back. `send` gets the asking."""

    def __init__(self, send: Callable[[Sequence[Effect]], None]) -> None:
        self._send = send
        self._asked: set[tuple[JobId, int]] = set()
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def is_awaited(self) -> bool:
        """Somebody's order waits: nothing is handed until it is done."""
        return bool(self._waiting)

    def weigh(self, state: State, *, trusted: JobId | None) -> None:
        """After a pass: only tasks of the array of that record, on nodes that take jobs, may stay where they are."""
        if not state.index.follower:
            return
        array = None if trusted is None else state.jobs[trusted].array_job_id
        unfit = [job for job in _handed(state) if job.array_job_id != array or not _takes(state, job)]
        keys = {(job.id, job.restarts) for job in unfit}
        new = [job for job in unfit if (job.id, job.restarts) not in self._asked]
        self._asked = (self._asked & keys) | keys
        self._ask(new)

    async def before(self, event: Event, state: State) -> None:
        """Returns when the order may be carried out."""
        if not isinstance(event, _CONCERNED) or not _handed(state):
            return
        back: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(back)
        try:
            self._ask(_handed(state))
            async with asyncio.timeout(ORDER_S):
                await back
        except TimeoutError:
            return
        finally:
            self._waiting.remove(back)

    def settled(self, state: State) -> None:
        """Something was committed: orders that wait may go on if nothing is handed any more."""
        if self._waiting and not _handed(state):
            for back in self._waiting:
                if not back.done():
                    back.set_result(None)

    def _ask(self, jobs: Sequence[Job]) -> None:
        by_node: dict[NodeName, list[tuple[JobId, int]]] = {}
        for job in jobs:
            by_node.setdefault(job.shares[0].node, []).append((job.id, job.restarts))
        self._send([TakeBack(node=name, launches=tuple(keys)) for name, keys in by_node.items()])


def _handed(state: State) -> list[Job]:
    """What may not have begun, in the order of the ids."""
    found = [state.jobs[job_id] for job_id in sorted(state.index.follower.values())]
    return [job for job in found if job.is_handed]


def _takes(state: State, job: Job) -> bool:
    node = state.nodes.get(job.shares[0].node)
    return node is not None and not why_unavailable(state, node)
