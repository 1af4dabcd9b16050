"""Logs, terminals and tunnels of jobs over Slurm."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

from warpdeck.base.errors import UserError
from warpdeck.engines.shared.job_lookup import JobLookup
from warpdeck.engines.shared.job_waits import LINK_S, has_begun
from warpdeck.engines.slurm.cluster.cluster import Cluster
from warpdeck.engines.slurm.cluster.quick_looks import SlurmWaits
from warpdeck.model import Job, JobId, JobState
from warpdeck.ports.caller import Caller
from warpdeck.ports.engine import UNSUPPORTED, ForwardedJob, Progress
from warpdeck.ports.engine_streams import ByteSink, ByteSource, ByteStream
from warpdeck.protocol import requests as ask
from warpdeck.protocol import results

from .log_paths import LogFinder
from .log_stream import LogRequest, LogStream, settled


@dataclass(frozen=True, kw_only=True)
class SlurmOutput:
    """The `EngineOutput` of a gateway."""

    cluster: Cluster
    lookup: JobLookup
    waits: SlurmWaits
    finder: LogFinder

    async def log(self, caller: Caller, message: ask.Log, progress: Progress) -> ByteSource:
        job = one_task(self._own(await self.lookup.visible(caller.who, message.job)))
        if message.follow:
            job = await self.waits.until(job, has_begun, progress)
        if not job.shares and job.is_finished:
            raise UserError(
                f"job {job.label()} has no log: it never started ({job.state})",
                f"see the reason with `warpdeck show {job.label()}`",
            )
        if not job.shares:
            raise UserError(
                f"job {job.label()} has not started ({job.state}): it has no log yet",
                f"to wait for it, run `warpdeck logs -f {job.label()}`",
            )
        return await self.source(job, channel=message.channel, offset=message.offset, follow=message.follow)

    async def source(self, job: Job, *, channel: str, offset: int = 0, follow: bool) -> ByteSource:
        """Return an output file of a job that has begun. Raises UserError."""
        path = (await self.finder.paths(job, channel=channel)).of(channel)
        if not path:
            raise UserError(
                f"job {job.label()} has no output file: its output went to the terminal of srun or salloc",
                "give it a file with --output, or submit a batch job",
            )
        request = LogRequest(
            label=job.label(),
            path=path,
            node=job.shares[0].node if job.shares else "",
            offset=offset,
            ended=partial(self._end_of, job) if follow else None,
            exit=job.exit,
        )
        return partial(_open_log, request)

    async def terminal(self, caller: Caller, message: ask.Attach, progress: Progress) -> ByteSource:
        raise UserError("terminals are not possible over Slurm yet", code=UNSUPPORTED)

    async def tunnel(self, caller: Caller, message: ask.Tunnel, progress: Progress) -> ByteSource:
        raise UserError("tunnels are not possible over Slurm yet", code=UNSUPPORTED)

    async def forward(self, caller: Caller, message: ask.Forward, progress: Progress) -> ForwardedJob:
        job = self._own(await self.lookup.visible(caller.who, message.job))
        job, node = await self._running(job, message.node, progress)
        return ForwardedJob(label=job.label(), user=job.user, node=node, ended=partial(self._over, job))

    async def settle(self, caller: Caller, message: ask.Settle) -> results.Result:
        """Wait until the files of a job that has ended no longer grow."""
        jobs = [job for job in self.cluster.state.named(JobId(message.job)) if job.uid == self.cluster.uid]
        paths = [await self.finder.paths(job) for job in jobs if job.shares]
        try:
            async with asyncio.timeout(LINK_S), asyncio.TaskGroup() as group:
                for path in {path for pair in paths for path in pair if path}:
                    group.create_task(settled(path))
        except TimeoutError:
            pass
        return results.Result()

    def _own(self, job: Job) -> Job:
        """Return the job if it belongs to the user of this gateway. Raises UserError.

        An administrator, too, reads the files of other users with `sudo` only, because the gateway has the rights of
        its own user.
        """
        if job.uid != self.cluster.uid:
            raise UserError(
                f"job {job.label()} belongs to {job.user}", "only its owner can use its output over Slurm"
            )
        return job

    async def _running(self, job: Job, node: str, progress: Progress) -> tuple[Job, str]:
        """Wait until the job runs, and return it with the requested node. Raises UserError."""
        job = await self.waits.until(one_task(job), has_begun, progress)
        if job.is_finished:
            raise ended(job)
        names = [share.node for share in job.shares]
        if node and node not in names:
            raise UserError(f"job {job.label()} does not run on {node}", "see `warpdeck show`")
        return job, node or names[0]

    async def _end_of(self, job: Job) -> Job:
        """Return the job when this start of it has ended."""
        with self.waits.poller.watched():
            return await self.waits.waits.until(
                job,
                lambda now: now.is_finished or now.state is JobState.PENDING or now.restarts != job.restarts,
            )

    async def _over(self, job: Job) -> None:
        await self.waits.waits.end_of_start(job)


def one_task(job: Job) -> Job:
    """Return the job, unless it stands for several tasks of an array. Raises UserError."""
    if job.is_folded_array:
        first = f"{job.array_job_id}_{job.pending_tasks[0][0]}"
        raise UserError(f"job {job.label()} is an array", f"name a task: {first}")
    return job


def ended(job: Job, *, code: str = "") -> UserError:
    """Return the error for a job that is no longer there."""
    return UserError(
        f"job {job.label()} has ended ({job.state})",
        f"see its output: warpdeck logs {job.label()}",
        code=code,
    )


async def _open_log(request: LogRequest, sink: ByteSink) -> ByteStream:
    stream = LogStream(request, sink)
    await stream.open()
    return stream
