"""Looks at a single job a few times while a user waits for its start or its end.

The queue is read a few times a minute only. A user who has just opened a session would wait for the next look longer than
for Slurm.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from warpdeck.base.errors import UserError
from warpdeck.engines.shared.job_waits import JobWaits
from warpdeck.model import Job, JobId
from warpdeck.ports.engine import Progress

from .poller import Poller

PAUSES_S = (0.2, 0.4, 0.8, 1.6, 3.2)
"""Seconds between the looks. Each costs a few short requests; after the last one, the usual looks must suffice."""


@dataclass(frozen=True, kw_only=True)
class SlurmWaits:
    """Waits of users for a job."""

    waits: JobWaits
    poller: Poller

    async def until(self, job: Job, reached: Callable[[Job], bool], progress: Progress | None = None) -> Job:
        """Wait until the job satisfies `reached`, as `JobWaits.until` does, with quick looks at the job."""
        async with self.looking(job.id):
            return await self.waits.until(job, reached, progress)

    @asynccontextmanager
    async def looking(self, job_id: JobId) -> AsyncIterator[None]:
        """Look at the job a few times while the block runs, and then as often as while somebody looks."""
        with self.poller.watched():
            looks = asyncio.create_task(self._look(job_id))
            try:
                yield
            finally:
                looks.cancel()

    async def _look(self, job_id: JobId) -> None:
        for pause_s in PAUSES_S:
            await asyncio.sleep(pause_s)
            try:
                await self.poller.look(job_id)
            except UserError:
                # Slurm is down, or it has forgotten the job. The poller finds out, and says which.
                self.poller.hurry()
                return
