"""Faults of a simulated cluster: their probabilities, and a store that makes the disk and the controller fail.

Each fault is drawn from the cluster's generator, so a seed gives the same faults again.
"""

from __future__ import annotations

import asyncio
import random

from warpdeck.base.errors import StoreError
from warpdeck.ports.store import Changes
from warpdeck.store import MemoryStore


class Faults:
    """The probabilities of faults.

    `refuse` and `fail` concern a launch. `lose`, `double` and `delay` concern a message between controller and
    agent; a lost message takes its connection with it. `crash` concerns a commit: the controller dies before or
    after it. `full` and `slow` concern the disk.
    """

    def __init__(
        self,
        *,
        refuse: float = 0.05,
        fail: float = 0.1,
        lose: float = 0.0,
        double: float = 0.0,
        delay: float = 0.0,
        crash: float = 0.0,
        full: float = 0.0,
        slow: float = 0.0,
    ) -> None:
        self.refuse = refuse
        self.fail = fail
        self.lose = lose
        self.double = double
        self.delay = delay
        self.crash = crash
        self.full = full
        self.slow = slow


HARSH = Faults(lose=0.03, double=0.05, delay=0.05, crash=0.02, full=0.02, slow=0.1)
"""All kinds of faults, each so rare that most jobs still run to their end."""
DISK_FULL = "simulated: no space left on the disk"
MOST_DELAY_S = 30.0
"""Largest delay of a message, and of a slow write."""


class FaultyStore(MemoryStore):
    """A store that outlives the controllers. It can fail, and it can kill the controller during a commit."""

    def __init__(self, faults: Faults, rng: random.Random) -> None:
        super().__init__()
        self.faults = faults
        self._rng = rng
        self.crashed = asyncio.Event()
        """Set when the controller has died in a commit. `SimCluster.run_until_crash` then ends the controller and clears the event."""

    async def commit(self, changes: Changes) -> None:
        faults, rng = self.faults, self._rng
        if rng.random() < faults.slow:
            await asyncio.sleep(rng.uniform(0.0, MOST_DELAY_S))
        if rng.random() < faults.full:
            raise StoreError(DISK_FULL)
        dies_before, dies_after = rng.random() < faults.crash, rng.random() < faults.crash
        if dies_before:
            await self._die()
        await super().commit(changes)
        if dies_after:
            await self._die()

    async def _die(self) -> None:
        self.crashed.set()
        await asyncio.Event().wait()
