"""Connect to the nodes as the present start of this controller, and take over the site with a new start.

`base.controller_starts` has the rules.
"""

from __future__ import annotations

import asyncio
import contextlib

from warpdeck.base.controller_starts import CLAIM_S, StartMaker, fenced_sentence
from warpdeck.base.errors import UserError
from warpdeck.controller.events.events import ClaimEnded, Event, StartBegun
from warpdeck.controller.state.state import State
from warpdeck.ports.ports import Fleet
from warpdeck_agent.wire.epochs import ControllerStart

from .change_listeners import ChangeListeners
from .event_queue import EventQueue

MAX_STARTS = 3
"""Maximum number of starts of one takeover. The first refusals tell the highest epoch, so two are usually enough."""
LOOK_S = 0.5
"""Maximum number of seconds between two checks whether all nodes have answered."""
RECONNECTING = "the controller connects to all nodes again"


class SiteClaim:
    """The claim of one controller to its nodes. Without a maker of starts, as in a simulation, there is no epoch."""

    def __init__(
        self,
        state: State,
        queue: EventQueue,
        *,
        fleet: Fleet,
        hub: ChangeListeners,
        starts: StartMaker | None,
    ) -> None:
        self._state = state
        self._queue = queue
        self._fleet = fleet
        self._hub = hub
        self._maker = starts
        self._is_connecting = asyncio.Event()

    def connect(self) -> None:
        """Connect to all nodes as the committed start, or to none if the controller is fenced."""
        starts = self._state.starts
        if starts.fenced_by is not None:
            self._fleet.fence(fenced_sentence(starts.own, starts.fenced_by))
        else:
            self._fleet.begin(starts.own)
            starts.unclaimed = dict.fromkeys(self._state.nodes) if starts.own.epoch else {}
            ended = ClaimEnded(start=starts.own)
            asyncio.get_running_loop().call_later(CLAIM_S, self._queue.put, ended)
        for node in self._state.nodes.values():
            self._fleet.connect(node)
        self._is_connecting.set()

    async def apply_unconnected(self, event: Event) -> None:
        """Close all links, apply the event, and connect again, so that all nodes report their launches.

        The closed links are processed before the event. Raises UserError or StoreError.
        """
        self._fleet.fence(RECONNECTING)
        try:
            await self._queue.request(event)
        finally:
            self.connect()

    async def take_over(self) -> ControllerStart:
        """Begin a new start with an epoch above all that the agents know, and return it.

        Each start is on disk before the first agent is contacted. A refusal tells a higher epoch, and the next start is
        above it. Raises UserError or StoreError.
        """
        assert self._maker is not None, "a controller with clients has starts"
        starts = self._state.starts
        for _ in range(MAX_STARTS):
            await self.apply_unconnected(StartBegun(start=self._maker.next(starts.own, starts.fenced_by)))
            await self.wait_for_answers()
            if starts.fenced_by is None:
                return starts.own
        raise UserError(
            "the nodes obey another controller again and again", "stop the other one, and try again"
        )

    async def wait_for_answers(self) -> None:
        """Wait until all nodes have answered, one has refused, or the time for answers is over."""
        await self._is_connecting.wait()
        starts, listener = self._state.starts, self._hub.listen()
        try:
            while starts.unclaimed and starts.fenced_by is None:
                listener.changed.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await listener.changed.wait()
        finally:
            self._hub.leave(listener)
