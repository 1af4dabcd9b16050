"""The initial step of an allocation that srun creates. It starts in the same transaction as its job.

A step requested afterwards would cost srun one more commit. Two kinds of steps are still requested after the
start of the job. One is a step that cannot be placed at that time, for example because a node was just lost.
The other is a step on several nodes, because it needs a port of the first node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.controller.events.effects import Outcome
from warpdeck.controller.events.events import Event, StepRequested
from warpdeck.controller.state.state import State
from warpdeck.model import JobId, JobState
from warpdeck.model.step import Step

QueuedEvent = tuple[Event, "asyncio.Future[Outcome] | None"]
"""An event, and the future of the caller that waits for its outcome."""


class InitialStep:
    """An initial step that waits for its job to run."""

    def __init__(self, event: StepRequested) -> None:
        self.event = event
        self.answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        # This marks an exception as retrieved. The waiting caller may leave without reading it.
        self.answer.add_done_callback(lambda answer: answer.cancelled() or answer.exception())
        self.is_requested = False

    async def created(self) -> Step | None:
        """Return the committed step, or None if it was not requested or could not be placed.

        Call it only after the job was seen running.
        """
        if not self.is_requested:
            return None
        try:
            return (await self.answer).step
        except UserError:
            return None


class InitialSteps:
    """All initial steps that wait for their jobs."""

    def __init__(self) -> None:
        self._waiting: dict[JobId, InitialStep] = {}

    @contextmanager
    def waiting(self, event: StepRequested) -> Iterator[InitialStep]:
        """Keep this step request until the end of the block. The step is requested once its job runs."""
        initial = self._waiting[event.job_id] = InitialStep(event)
        try:
            yield initial
        finally:
            self._waiting.pop(event.job_id, None)

    def due(self, state: State, touched: Iterable[JobId]) -> list[QueuedEvent]:
        """Return the step requests of jobs that now run. Each request is returned once.

        `touched` are the jobs that may have started.
        """
        if not self._waiting:
            return []
        return [self._request(state, job_id) for job_id in touched if self._is_due(state, job_id)]

    def _is_due(self, state: State, job_id: JobId) -> bool:
        job = state.jobs.get(job_id) if job_id in self._waiting else None
        return job is not None and job.state is JobState.RUNNING and len(job.shares) == 1

    def _request(self, state: State, job_id: JobId) -> QueuedEvent:
        initial = self._waiting.pop(job_id)
        initial.is_requested = True
        event = msgspec.structs.replace(initial.event, first=state.jobs[job_id].shares[0].node)
        return event, initial.answer
