"""The first step of an allocation that srun makes for it: it begins in the transaction in which its job does.

Asked for afterwards it would cost srun one commit more. What cannot be laid out then (a node that has just gone), and a step
over several nodes, which needs a port of the first one, is asked for as every other is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.controller.events.events import Event, Outcome, StepAsked
from warpdeck.controller.state.state import State
from warpdeck.model import JobId, JobState
from warpdeck.model.step import Step

Asked = tuple[Event, "asyncio.Future[Outcome] | None"]


class FirstStep:
    """One that waits for its job to run."""

    def __init__(self, event: StepAsked) -> None:
        self.event = event
        self.answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        # Whoever waits for it may go without a look at it.
        self.answer.add_done_callback(lambda answer: answer.cancelled() or answer.exception())
        self.is_asked = False

    async def made(self) -> Step | None:
        """The step, committed, if it was asked for and there was room; the job was seen to run."""
        if not self.is_asked:
            return None
        try:
            return (await self.answer).step
        except UserError:
            return None


class InitialSteps:
    """All of them."""

    def __init__(self) -> None:
        self._waiting: dict[JobId, FirstStep] = {}

    @contextmanager
    def waiting(self, event: StepAsked) -> Iterator[FirstStep]:
        """Until the end of the block the step is asked for once its job runs."""
        first = self._waiting[event.job_id] = FirstStep(event)
        try:
            yield first
        finally:
            self._waiting.pop(event.job_id, None)

    def due(self, state: State, touched: Iterable[JobId]) -> list[Asked]:
        """Those whose jobs run now, each once. `touched`: the jobs that may have begun."""
        if not self._waiting:
            return []
        return [self._ask(state, job_id) for job_id in touched if self._is_due(state, job_id)]

    def _is_due(self, state: State, job_id: JobId) -> bool:
        job = state.jobs.get(job_id) if job_id in self._waiting else None
        return job is not None and job.state is JobState.RUNNING and len(job.shares) == 1

    def _ask(self, state: State, job_id: JobId) -> Asked:
        first = self._waiting.pop(job_id)
        first.is_asked = True
        event = msgspec.structs.replace(first.event, first=state.jobs[job_id].shares[0].node)
        return event, first.answer
