"""Completes the record with Slurm's accounting: the ends of jobs that left the queue between two looks, and the usage of jobs.

Each job is asked for once after its end. One command asks for many jobs, and slurmdbd answers it instead of slurmctld. At a
site without accounting, the record keeps the last state that the queue showed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager

from warpdeck.base.background_task import background
from warpdeck.base.errors import UserError
from warpdeck.base.passwd import name_of
from warpdeck.engines.slurm.cluster.cluster import Cluster
from warpdeck.engines.slurm.cluster.job_changes import JobChanges, event_text, forgotten, merged
from warpdeck.engines.slurm.cluster.polling import SLOW_SHARE, Asked
from warpdeck.engines.slurm.commands import SlurmCommands
from warpdeck.engines.slurm.reading.accounting_table import COLUMNS, EndedJob, read_ended, with_usage
from warpdeck.engines.slurm.reading.marked_table import MalformedTable
from warpdeck.model import Job, JobId
from warpdeck.ports.store import JournalEntry

log = logging.getLogger("warpdeck.slurm")

INTERVAL_S = 60.0
"""Minimum seconds from one start of sacct to the next."""
DELAY_S = 5.0
"""Seconds from the end of a job to the first question. slurmctld sends the end of a job to slurmdbd a moment later."""
MAX_JOBS = 500
"""Maximum number of jobs in one command."""
MAX_TRIES = 3
IMPORT_S = 7 * 86_400.0
"""Age of the oldest ended jobs that a new gateway imports."""
OVERLAP_S = 3600.0
"""Jobs that ended up to this time before the last known end are imported again. Clocks differ."""
NEVER = "2000-01-01"
ENDED_STATES = "BF,CA,CD,DL,F,NF,OOM,PR,TO"


def due_in_s(last: Asked | None, *, open_jobs: int, interval_s: float, now: float) -> float | None:
    """Return the seconds until sacct may be started, or None if there is nothing to ask."""
    if not open_jobs:
        return None
    if last is None:
        return 0.0
    return max(0.0, last.started + max(interval_s, last.took_s / SLOW_SHARE) - now)


class Accounting:
    """Asks sacct, if the site has accounting. The earlier jobs of `user` are imported."""

    def __init__(
        self,
        cluster: Cluster,
        commands: SlurmCommands,
        *,
        user: str,
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._cluster = cluster
        self._commands = commands
        self._user = user
        self._interval_s = interval_s
        self._open: dict[JobId, int] = {}
        """Ended jobs that are still to be asked for, each with the number of questions so far."""
        self._last: Asked | None = None
        self._wake = asyncio.Event()
        self._first_queue = asyncio.Event()

    async def after_queue(self, changes: JobChanges) -> None:
        """Note the jobs that have ended. Jobs that vanished are ended at once if there is no accounting."""
        own = [job.id for job in changes.jobs if job.is_finished and job.uid == self._cluster.uid]
        if not self._cluster.has_accounting:
            await self._forget(changes.vanished)
            return
        self._first_queue.set()
        for job_id in (*own, *changes.vanished):
            self._open.setdefault(job_id, 0)
        if self._open:
            self._wake.set()

    def running(self) -> AbstractAsyncContextManager[None]:
        """Ask while the block runs."""
        return background(self._run())

    async def _run(self) -> None:
        await self._first_queue.wait()
        await self._safely(self._import())
        while True:
            self._wake.clear()
            now, interval_s = time.monotonic(), self._interval_s
            wait_s = due_in_s(self._last, open_jobs=len(self._open), interval_s=interval_s, now=now)
            if wait_s is None:
                await self._wake.wait()
                await asyncio.sleep(min(DELAY_S, interval_s))
                continue
            await asyncio.sleep(wait_s)
            await self._safely(self._complete())

    async def _safely(self, work: Awaitable[None]) -> None:
        """Do the work. slurmdbd may be down for days, and then the record is completed afterwards."""
        started = time.monotonic()
        try:
            await work
        except (UserError, MalformedTable) as error:
            log.warning("Slurm's accounting: %s", error)
        except Exception:
            log.exception("a bug stopped a look at Slurm's accounting")
        self._last = Asked(started=started, took_s=time.monotonic() - started)

    async def _import(self) -> None:
        """Read the user's jobs that ended since the last known end. A new record gets those of the last days."""
        cluster = self._cluster
        last = await cluster.store.finished_jobs(user=self._user, limit=1)
        now = cluster.clock()
        since = max((job.end_at_unix or 0.0 for job in last), default=0.0)
        begin = max(since - OVERLAP_S, now - IMPORT_S)
        window = [f"--starttime={_time(begin)}", f"--endtime={_time(now)}"]
        records = await self._commands.accounting(
            [*window, f"--user={self._user}", f"--state={ENDED_STATES}"], COLUMNS
        )
        found = read_ended(records)
        known = {job.id: job for job in await cluster.store.jobs([each.job.id for each in found])}
        await self._apply([each for each in found if not _has_usage(known.get(each.job.id))])

    async def _complete(self) -> None:
        """Ask for the jobs that have ended. A job that the accounting does not know is asked for again."""
        asked = list(self._open)[:MAX_JOBS]
        words = [f"--jobs={','.join(map(str, asked))}", f"--starttime={NEVER}"]
        found = {each.job.id: each for each in read_ended(await self._commands.accounting(words, COLUMNS))}
        await self._apply([found[job_id] for job_id in asked if job_id in found])
        lost = []
        for job_id in asked:
            tries = self._open.pop(job_id) + 1
            ended = found.get(job_id)
            if ended is not None and ended.job.is_finished:
                continue
            if tries < MAX_TRIES:
                self._open[job_id] = tries
            else:
                lost.append(job_id)
        await self._forget(lost)

    async def _apply(self, found: Sequence[EndedJob]) -> None:
        cluster, changes = self._cluster, JobChanges()
        missing = [each.job.id for each in found if each.job.id not in cluster.state.jobs]
        stored = {job.id: job for job in await cluster.store.jobs(missing)}
        for each in found:
            known = cluster.state.jobs.get(each.job.id) or stored.get(each.job.id)
            if not each.job.is_finished:
                continue
            if known is not None and known.is_finished:
                job = with_usage(known, each.job)
            else:
                job = merged(cluster.state, known, each.job)
                if known is not None and (text := event_text(known, job)):
                    at = job.end_at_unix or cluster.clock()
                    changes.journal.append(JournalEntry(at_unix=at, job_id=job.id, text=text))
            if known is not None and known.ended_by_uid is None and job.ended_by_uid is not None:
                text = f"canceled by {name_of(job.ended_by_uid)}"
                at = job.end_at_unix or cluster.clock()
                changes.journal.append(JournalEntry(at_unix=at, job_id=job.id, text=text))
            changes.jobs.append(job)
            changes.steps += each.steps
        if changes.jobs:
            await cluster.change(changes)

    async def _forget(self, job_ids: Iterable[JobId]) -> None:
        """End the jobs that no source knows any more."""
        state, now = self._cluster.state, self._cluster.clock()
        jobs = [state.jobs[each] for each in job_ids if each in state.jobs]
        ended = [forgotten(job, now=now) for job in jobs if not job.is_finished]
        lines = [JournalEntry(at_unix=now, job_id=job.id, text=job.exit.message) for job in ended if job.exit]
        if ended:
            await self._cluster.change(JobChanges(jobs=ended, journal=lines))


def _has_usage(job: Job | None) -> bool:
    return job is not None and job.is_finished and any(share.peak_mem_bytes for share in job.shares)


def _time(unix: float) -> str:
    """Return a time in the form that sacct reads. Its commands run with TZ=UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(unix))
