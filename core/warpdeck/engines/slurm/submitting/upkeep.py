"""Completes interrupted submissions, and removes files that no job needs any more."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass

from warpdeck.base.background_task import background
from warpdeck.base.errors import StoreError, UserError
from warpdeck.model import Job

from .job_folder import JobFolder, JobFolders
from .submissions import SlurmSubmissions

log = logging.getLogger("warpdeck.slurm")
SETTLE_AGAIN_S = 30.0
CLEAN_S = 3600.0
KEPT_S = 86_400.0
"""Seconds for which the files of an ended job and the code of no job are kept."""
_PACKED = ".tar.gz"


@dataclass(frozen=True)
class Upkeep:
    """Looks after the folders of a gateway's submissions."""

    submissions: SlurmSubmissions

    def running(self) -> AbstractAsyncContextManager[None]:
        """Work in the background while the block runs."""
        return background(self._run())

    async def _run(self) -> None:
        made = self.submissions
        made.unsettled.update(await asyncio.to_thread(_unsettled, made.folders))
        loop = asyncio.get_running_loop()
        cleaned = -CLEAN_S
        while True:
            try:
                await self.settle_all()
                if loop.time() - cleaned >= CLEAN_S:
                    cleaned = loop.time()
                    await self.clean()
            except Exception:
                log.exception("a bug stopped the upkeep of the folders of jobs")
            await asyncio.sleep(SETTLE_AGAIN_S)

    async def settle_all(self) -> None:
        """Find out what has become of interrupted submissions: record their jobs, or remove their folders."""
        for folder in list(self.submissions.unsettled):
            try:
                await self._settle(folder)
            except (UserError, StoreError) as error:
                log.warning("%s: %s", folder.path, error)

    async def _settle(self, folder: JobFolder) -> None:
        made = self.submissions
        async with folder.locked(wait_s=0.0) as lock:
            if (
                lock is not None
                and not folder.is_settled()
                and await made.settle(folder, folder.intent()) is None
            ):
                folder.remove()
        made.unsettled.discard(folder)

    async def clean(self) -> None:
        """Remove the folders of jobs that ended long ago, and the code that no unfinished job needs."""
        made = self.submissions
        if made.cluster.read_at is None:
            return  # A lost record does not have the waiting jobs, so the queue must have been read.
        before = made.clock() - KEPT_S
        await asyncio.to_thread(made.folders.remove_partial, before_unix=before)
        for folder in await asyncio.to_thread(_settled, made.folders, before):
            if await self._ended(folder, before):
                await asyncio.to_thread(folder.remove)
        told = await asyncio.to_thread(_trees_of, made.folders)
        self._remove_trees(before, told)

    async def _ended(self, folder: JobFolder, before: float) -> bool:
        """Return whether all jobs of a submission ended before this time."""
        job_id, cluster = folder.job_id(), self.submissions.cluster
        if job_id is None:
            return True
        known: dict[int, Job] = {job.id: job for job in await cluster.store.named(job_id)}
        known |= {job.id: job for job in cluster.state.array_members(job_id)}
        return all(job.is_finished and (job.end_at_unix or 0.0) < before for job in known.values())

    def _remove_trees(self, before: float, told: set[str]) -> None:
        """Remove the code that is older and that neither a known job needs nor a folder, `told`.

        Another gateway of this user, on another login node, or a lost record may have submitted the folder's jobs.
        """
        made = self.submissions
        state = made.cluster.state
        waiting = [state.jobs[each] for each in (*state.index.pending, *state.index.active)]
        needed = told | {job.request.snapshot.tree for job in waiting if job.request.snapshot is not None}
        packed = os.path.dirname(made.trees.path(made.cluster.uid, "0" * 40))
        with suppress(OSError):
            for entry in os.scandir(packed):
                tree = entry.name.partition(".")[0]
                if tree not in needed and entry.stat().st_mtime < before:
                    with suppress(OSError):
                        os.unlink(entry.path)


def _trees_of(folders: JobFolders) -> set[str]:
    """Return the trees that the intents of all folders name."""
    found: set[str] = set()
    for folder in folders.all():
        with suppress(UserError):
            found |= {each.snapshot.tree for each in folder.intent().requests if each.snapshot}
    return found


def _unsettled(folders: JobFolders) -> set[JobFolder]:
    return {folder for folder in folders.all() if not folder.is_settled()}


def _settled(folders: JobFolders, before: float) -> list[JobFolder]:
    """Return the folders that were written before this time, if the jobs of their submissions are recorded."""
    return [each for each in folders.all() if each.is_settled() and _written(each.path) < before]


def _written(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
