"""Finds out which GPUs the jobs in the copy of the cluster have, because squeue tells only how many."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing

import msgspec

from warpdeck.engines.slurm.commands import SlurmCommands
from warpdeck.engines.slurm.reading.allocation_table import (
    NO_CLAIMS,
    AllocationReader,
    Claims,
    confirmed,
    has_unknown_gpus,
)
from warpdeck.model import Job, JobId, NodeName

from .answers import Answers
from .cluster import Cluster
from .job_changes import JobChanges
from .questions import SHOW_JOB, Question


class Allocations:
    """Reads the allocations of running jobs. What was found is kept as long as the job keeps its allocation."""

    def __init__(self, cluster: Cluster, commands: SlurmCommands, answers: Answers) -> None:
        self._cluster = cluster
        self._answers = answers
        self._commands = commands
        self._claims: Claims = NO_CLAIMS
        """The last answer. The nodes may report a GPU as in use only at their next reading."""

    def is_needed(self) -> bool:
        """Return whether there is a running job with GPUs that are not known by index, only by number."""
        jobs = self._cluster.state.jobs
        return any(has_unknown_gpus(jobs[job_id]) for job_id in self._cluster.state.index.active)

    async def read(self) -> None:
        """Read the allocations of all jobs. Raises UserError."""
        reading = await self._answers.open(Question.ALLOCATIONS)
        if reading is not None:
            self._claims = await _read(reading.pieces)
            await self.confirm()

    async def read_one(self, job: Job) -> Job:
        """Read the allocation of a job of this user, and return the job as it is then. Raises UserError.

        The nodes may have been read before the job began, so they are not compared.
        """
        claims = await _read(self._commands.pieces((*SHOW_JOB, str(job.id))))
        await self._apply(claims, [job.id], None)
        return self._cluster.state.jobs.get(job.id, job)

    async def confirm(self) -> None:
        """Compare the last answer with the nodes, which have been read again."""
        cluster = self._cluster
        await self._apply(self._claims, [*cluster.state.index.active], cluster.nodes.gpus_in_use)

    async def _apply(
        self, claims: Claims, job_ids: list[JobId], in_use: Mapping[NodeName, Collection[int]] | None
    ) -> None:
        cluster, found = self._cluster, []
        for job_id in job_ids:
            job = cluster.state.jobs.get(job_id)
            if job is None or job_id not in claims.jobs or not job.holds_resources:
                continue
            allocation = confirmed(job, claims, in_use)
            if allocation != job.allocation:
                found.append(msgspec.structs.replace(job, allocation=allocation))
        if found:
            await cluster.apply(JobChanges(jobs=found))


async def _read(pieces: AsyncGenerator[str, None]) -> Claims:
    reader = AllocationReader()
    async with aclosing(pieces):
        async for text in pieces:
            reader.feed(text)
            await asyncio.sleep(0)
    return reader.close()
