"""Tracks the srun clients of job steps and allocations, and ends them if the client does not return.

A step whose srun disconnects is ended, as in Slurm. An srun that was only cut off reconnects by itself. It is
cut off when its node's link breaks or this controller restarts. Its step is ended only if the srun does not
return within a while after it could.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from warpdeck.base.errors import StoreError, UserError
from warpdeck.controller.events.events import HolderLeft, HolderSeen, StepEndRequested
from warpdeck.controller.state.state import State
from warpdeck.engines.native.outcomes import Apply
from warpdeck.model import JobId, Link
from warpdeck.model.step import Step
from warpdeck.ports.caller import Principal

log = logging.getLogger("warpdeck.steps")

COME_BACK_S = 60.0
"""Seconds that an srun may take to reconnect once it can. It tries every second."""
LOOK_S = 5.0
FIRST_LOOK_S = 1.0
"""Seconds after a start until the first check. It records missing clients, also for the next start."""
ROOT = Principal(user="root", uid=0, admin=True)
StepKey = tuple[JobId, int]


class StepLeases:
    """Tracks connected clients and ends steps and allocations without one.

    `attached` counts the clients of each step.
    """

    def __init__(self, state: State, apply: Apply, clock: Callable[[], float]) -> None:
        self._state = state
        self._apply = apply
        self._clock = clock
        self._attached: dict[StepKey, int] = {}
        self._held: set[JobId] = set()
        """Allocations whose client is connected."""
        self._began_at = 0.0
        self._task: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        self._began_at = asyncio.get_running_loop().time()
        self._task = asyncio.get_running_loop().create_task(self._look_for_ever())

    def stop(self) -> None:
        """Stop the checks. From now on a client's disconnect does not end its step."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def joined(self, key: StepKey) -> None:
        """Record that a client of the step has connected."""
        self._attached[key] = self._attached.get(key, 0) + 1

    def left(self, key: StepKey, *, cut_off: bool) -> None:
        """Record that a client of the step has disconnected.

        The step is ended unless the client was cut off.
        """
        self._attached[key] = self._attached.get(key, 1) - 1
        if self._attached[key] <= 0:
            del self._attached[key]
            if not cut_off and self._task is not None:
                self._spawn(self._end(key))

    def holds(self, job_id: JobId) -> None:
        """Record that the client of the allocation is connected."""
        self._held.add(job_id)

    def released(self, job_id: JobId) -> None:
        """Forget the client of an allocation that has ended or no longer needs one."""
        self._held.discard(job_id)

    def lets_go(self, job_id: JobId) -> None:
        """Return the allocation because its client is gone, unless this controller is stopping."""
        self._held.discard(job_id)
        if self._task is not None:
            self._spawn(self._give_back(job_id))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _give_back(self, job_id: JobId) -> None:
        try:
            await self._apply(HolderLeft(principal=ROOT, job_id=job_id, code=1))
            log.info("job %s: whoever held it is gone; it is given back", job_id)
        except (UserError, StoreError) as error:
            log.debug("job %s: %s", job_id, error)

    async def _look_for_ever(self) -> None:
        await asyncio.sleep(FIRST_LOOK_S)
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Record missing clients, and end their steps and allocations if they do not return in time."""
        for job_id, number in self._known():
            there = self._is_there(job_id, number)
            if there is not None and there == (self._away_since(job_id, number) is not None):
                await self._note(job_id, number, there=there)
        if self._has_just_begun():
            return
        late = self._clock() - COME_BACK_S
        for job_id, number in self._known():
            since = self._away_since(job_id, number)
            if since is not None and since < late:
                await (self._give_back(job_id) if number is None else self._end((job_id, number)))

    def _known(self) -> list[tuple[JobId, int | None]]:
        """Return the held allocations, which have no step number, and the running steps."""
        state = self._state
        held: list[tuple[JobId, int | None]] = [
            (job_id, None)
            for job_id in (*state.index.pending, *state.index.active)
            if state.jobs[job_id].request.holder in ("srun", "salloc")
        ]
        steps = (step for of_job in state.steps.values() for step in of_job.values() if not step.is_finished)
        return held + [(step.job_id, step.number) for step in steps]

    def _is_there(self, job_id: JobId, number: int | None) -> bool | None:
        """Return whether the client is connected, or None if this cannot be known yet.

        A client counts as connected if it cannot reconnect because the link to its node is down.
        """
        if number is None:
            return job_id in self._held or any(key[0] == job_id for key in self._attached)
        step = self._step(job_id, number)
        if step is None or step.is_finished or (job_id, number) in self._attached:
            return True
        if step.caller is None or self._state.node_status.links.get(step.caller) is Link.UP:
            return False
        return None if self._has_just_begun() else True

    def _away_since(self, job_id: JobId, number: int | None) -> float | None:
        known = self._state.jobs.get(job_id) if number is None else self._step(job_id, number)
        return None if known is None or known.is_finished else known.client_gone_since_unix

    def _step(self, job_id: JobId, number: int) -> Step | None:
        return self._state.steps.get(job_id, {}).get(number)

    def _has_just_begun(self) -> bool:
        """Return whether the controller has just started.

        Clients and nodes may then still be reconnecting.
        """
        return asyncio.get_running_loop().time() - self._began_at < LOOK_S

    async def _note(self, job_id: JobId, number: int | None, *, there: bool) -> None:
        try:
            await self._apply(HolderSeen(job_id=job_id, step=number, is_connected=there))
        except (UserError, StoreError) as error:
            log.debug("job %s: %s", job_id, error)

    async def _end(self, key: StepKey) -> None:
        try:
            await self._apply(StepEndRequested(principal=ROOT, job_id=key[0], number=key[1]))
            log.info("step %s.%s: its srun is gone; it is ended", *key)
        except (UserError, StoreError) as error:
            log.debug("step %s.%s: %s", *key, error)
