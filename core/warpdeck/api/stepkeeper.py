"""Which steps have an srun, and what becomes of those that have none any more.

An srun that is gone ends its step, as in Slurm. One that was only cut off (its node's link broke, or this controller was
started anew) comes back by itself: its step is ended only if it does not, within a while after it could.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from warpdeck.controller.events import HolderLeft, HolderSeen, StepEndAsked, Who
from warpdeck.errors import StoreError, UserError
from warpdeck.model import Job, JobId, Link
from warpdeck.model.step import Step

if TYPE_CHECKING:
    from warpdeck.controller.app import Controller

log = logging.getLogger("warpdeck.steps")

COME_BACK_S = 60.0
"""How long an srun may take to come back once it can: it tries every second."""
LOOK_S = 5.0
FIRST_LOOK_S = 1.0
"""After a start: who is away is noted, for the next start too."""
ROOT = Who(user="root", uid=0, admin=True)
StepKey = tuple[JobId, int]


class StepKeeper:
    """`attached` counts the clients of each step."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._attached: dict[StepKey, int] = {}
        self._alone_since: dict[StepKey, float] = {}
        self._held: set[JobId] = set()
        """Allocations whose holder is there."""
        self._began_at = 0.0
        self._looked = False
        self._task: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        self._began_at = asyncio.get_running_loop().time()
        self._task = asyncio.get_running_loop().create_task(self._look_for_ever())

    def stop(self) -> None:
        """From now on a client that leaves was sent away."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def joined(self, key: StepKey) -> None:
        """A client is there."""
        self._attached[key] = self._attached.get(key, 0) + 1
        self._alone_since.pop(key, None)

    def left(self, key: StepKey, *, cut_off: bool) -> None:
        """A client is there no more."""
        self._attached[key] = self._attached.get(key, 1) - 1
        if self._attached[key] <= 0:
            del self._attached[key]
            if not cut_off and self._task is not None:
                self._spawn(self._end(key))

    def holds(self, job_id: JobId) -> None:
        """The client for which the allocation is held is there."""
        self._held.add(job_id)

    def released(self, job_id: JobId) -> None:
        """The allocation has ended."""
        self._held.discard(job_id)

    def lets_go(self, job_id: JobId) -> None:
        """The client is gone: so is its allocation, unless we are what goes."""
        self._held.discard(job_id)
        if self._task is not None:
            self._spawn(self._give_back(job_id))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _give_back(self, job_id: JobId) -> None:
        try:
            await self._controller.apply(HolderLeft(who=ROOT, job_id=job_id, code=1))
            log.info("job %s: whoever held it is gone; it is given back", job_id)
        except (UserError, StoreError) as error:
            log.debug("job %s: %s", job_id, error)

    async def _unheld(self, now: float) -> list[JobId]:
        """Allocations whose holder did not come back in time, counted over starts of the controller; each leaves some time."""
        state = self._controller.state
        holders = [
            job_id
            for job_id in (*state.pending, *state.active)
            if state.jobs[job_id].request.holder in ("srun", "salloc")
        ]
        there = self._held | {key[0] for key in self._attached}
        alone = [job_id for job_id in holders if job_id not in there]
        for job_id in holders:
            if (job_id in there) == _is_noted(state.jobs.get(job_id)):
                await self._note(job_id, there=job_id in there)
        if now - self._began_at < LOOK_S:
            return []
        late = self._controller.clock() - COME_BACK_S
        noted = {job_id: state.jobs[job_id].unheld_since_unix for job_id in alone if job_id in state.jobs}
        return [job_id for job_id, since in noted.items() if since is not None and since < late]

    async def _note(self, job_id: JobId, *, there: bool) -> None:
        try:
            await self._controller.apply(HolderSeen(job_id=job_id, there=there))
        except (UserError, StoreError) as error:
            log.debug("job %s: %s", job_id, error)

    async def _look_for_ever(self) -> None:
        while True:
            await asyncio.sleep(FIRST_LOOK_S if not self._looked else LOOK_S)
            self._looked = True
            now = asyncio.get_running_loop().time()
            for key in self._left_alone(now):
                await self._end(key)
            for job_id in await self._unheld(now):
                await self._give_back(job_id)

    def _left_alone(self, now: float) -> list[StepKey]:
        state = self._controller.state
        alone = [
            (step.job_id, step.number)
            for steps in state.steps.values()
            for step in steps.values()
            if self._can_be_alone(step)
        ]
        self._alone_since = {key: self._alone_since.get(key, now) for key in alone}
        return [key for key, since in self._alone_since.items() if now - since > COME_BACK_S]

    def _can_be_alone(self, step: Step) -> bool:
        """Whether nobody is there although they could be."""
        if step.is_finished or (step.job_id, step.number) in self._attached:
            return False
        return step.caller is None or self._controller.state.links.get(step.caller) is Link.UP

    async def _end(self, key: StepKey) -> None:
        try:
            await self._controller.apply(StepEndAsked(who=ROOT, job_id=key[0], number=key[1]))
            log.info("step %s.%s: its srun is gone; it is ended", *key)
        except (UserError, StoreError) as error:
            log.debug("step %s.%s: %s", *key, error)


def _is_noted(job: Job | None) -> bool:
    """Whether it is known that the job's holder is away."""
    return job is not None and job.unheld_since_unix is not None
