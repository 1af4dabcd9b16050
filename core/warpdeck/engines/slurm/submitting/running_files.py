"""Notices from files when jobs start and end for which a client waits, without a request to slurmctld.

The wrapper of a job holds a lock in the job's folder. The queue is read a few times a minute only, so a client that waits
for a short job would wait much longer for the next look than for the job. A file only causes a look at Slurm. It is never
the reason why a job is shown as ended, so a file system without locks costs some requests and no correctness.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from warpdeck.base.background_task import background
from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.cluster.cluster import Cluster
from warpdeck.engines.slurm.cluster.poller import Poller
from warpdeck.engines.slurm.reading.marked_table import MalformedTable
from warpdeck.model import JobId, JobState

from .job_folder import JobFolder

log = logging.getLogger("warpdeck.slurm")
CHECK_S = 0.5
MAX_FOLDERS = 100
"""Maximum number of submissions that are checked at a time."""
AGAIN_S = (0.3, 1.0, 3.0)
"""Seconds from a change of a file to the looks at Slurm. slurmctld learns of an end a moment later than the file system."""


@dataclass
class _Sign:
    """A change of a file that Slurm has not confirmed yet."""

    is_running: bool
    seen_at: float
    looks: int = 0


@dataclass(frozen=True, kw_only=True)
class RunningFiles:
    """Checks the folders of the submissions for which clients wait. `monotonic` returns seconds."""

    cluster: Cluster
    poller: Poller
    monotonic: Callable[[], float] = time.monotonic
    _signs: dict[JobId, _Sign] = field(default_factory=dict, init=False)

    def running(self) -> AbstractAsyncContextManager[None]:
        """Check while the block runs."""
        return background(self._run())

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(CHECK_S)
            try:
                await self._check()
            except (UserError, MalformedTable) as error:
                log.info("a look at a job that has started or ended: %s", error)
            except Exception:
                log.exception("a bug stopped a check of the files of running jobs")

    async def _check(self) -> None:
        """Look at Slurm if a file tells something that the copy of the cluster does not show."""
        waited = self.cluster.ends.numbers()
        if not waited:
            self._signs.clear()
            return
        folders = [
            JobFolder(os.path.dirname(path))
            for path, number in self.cluster.scripts.items()
            if number in waited
        ]
        is_finished = {
            job.id: job.is_finished for number in waited for job in self.cluster.state.named(number)
        }
        found = await asyncio.to_thread(_read, folders[-MAX_FOLDERS:], is_finished)
        due = [job_id for job_id, running in found.items() if self._is_due(job_id, is_running=running)]
        for job_id in self._signs.keys() - found.keys():
            del self._signs[job_id]
        if len(due) == 1:
            await self.poller.look(due[0])
        elif due:
            self.poller.hurry()

    def _is_due(self, job_id: JobId, *, is_running: bool) -> bool:
        """Return whether Slurm is to be asked for this job now."""
        job, now = self.cluster.state.jobs.get(job_id), self.monotonic()
        if is_running and job is not None and job.state is not JobState.PENDING:
            self._signs.pop(job_id, None)
            return False
        sign = self._signs.get(job_id)
        if sign is None or sign.is_running != is_running:
            sign = self._signs[job_id] = _Sign(is_running, now)
        if sign.looks >= len(AGAIN_S) or now < sign.seen_at + AGAIN_S[sign.looks]:
            return False
        sign.looks += 1
        return True


def _read(folders: Sequence[JobFolder], is_finished: Mapping[JobId, bool]) -> dict[JobId, bool]:
    """Return the jobs that have started and that are not finished, and whether they run. Removes the files of the others."""
    found = {}
    for folder in folders:
        for job_id in folder.started():
            if is_finished.get(job_id, False):
                folder.ended(job_id)
            else:
                found[job_id] = folder.is_running(job_id)
    return found
