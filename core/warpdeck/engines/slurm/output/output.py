"""Logs, terminals and tunnels of jobs over Slurm."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.engines.shared.job_lookup import JobLookup
from warpdeck.engines.shared.job_waits import LINK_S, has_begun
from warpdeck.engines.shared.output_requests import (
    ended,
    no_log,
    not_on,
    one_task,
    pty_message,
    require_target,
    require_terminal,
    tunnel_message,
)
from warpdeck.engines.slurm.cluster.cluster import Cluster
from warpdeck.engines.slurm.cluster.quick_looks import SlurmWaits
from warpdeck.engines.slurm.commands import UNREACHABLE
from warpdeck.model import Job, JobId, JobState, NodeName
from warpdeck.ports.caller import Caller
from warpdeck.ports.engine import ForwardedJob, Progress
from warpdeck.ports.engine_streams import ByteSink, ByteSource, ByteStream, StreamEnd
from warpdeck.protocol import requests as ask
from warpdeck.protocol import results
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire.opening import FELL_BEHIND

from .job_links import JobLinks
from .job_relay import JobRelay, code_of
from .log_paths import LogFinder
from .log_stream import LogRequest, LogStream, settled

Over = Callable[[], Coroutine[Any, Any, None]]
END_S = 20.0
"""Seconds for which the end of a job is awaited after its terminal has ended. Epilogs may take longer."""
LOOK_S = 1.5
"""Seconds for which the end of a job is awaited that may explain why it cannot be joined."""


@dataclass(frozen=True, kw_only=True)
class SlurmOutput:
    """The `EngineOutput` of a gateway."""

    cluster: Cluster
    lookup: JobLookup
    waits: SlurmWaits
    finder: LogFinder
    links: JobLinks

    async def log(self, caller: Caller, message: ask.Log, progress: Progress) -> ByteSource:
        job = one_task(self._own(await self.lookup.visible(caller.who, message.job)))
        if message.follow:
            job = await self.waits.until(job, has_begun, progress)
        if not nodes_of(job):
            raise no_log(job)
        return await self.source(job, channel=message.channel, offset=message.offset, follow=message.follow)

    async def source(
        self, job: Job, *, channel: str, offset: int = 0, follow: bool, over: Over | None = None
    ) -> ByteSource:
        """Return an output file of a job that has begun. Raises UserError.

        `over` returns when the command of the job has ended, which Slurm confirms a moment later.
        """
        path = (await self.finder.paths(job, channel=channel)).of(channel)
        if not path:
            raise UserError(
                f"job {job.label()} has no output file: its output went to the terminal of srun or salloc",
                "give it a file with --output, or submit a batch job",
            )
        request = LogRequest(
            label=job.label(),
            path=path,
            node=next(iter(nodes_of(job)), ""),
            offset=offset,
            ended=partial(self._end_of, job, over) if follow else None,
            exit=job.exit,
        )
        return partial(_open_log, request)

    async def terminal(self, caller: Caller, message: ask.Attach, progress: Progress) -> ByteSource:
        who, find = caller.who, self.lookup.watched if message.watch else self.lookup.visible
        job = self._own(await find(who, message.job))
        require_terminal(job)
        job = await self.waits.until(job, has_begun, progress)
        if job.is_finished:
            raise ended(job, code=ask.ENDED)
        return partial(self._open_terminal, job, pty_message(job, message))

    async def tunnel(self, caller: Caller, message: ask.Tunnel, progress: Progress) -> ByteSource:
        job = self._own(await self.lookup.visible(caller.who, message.job))
        require_target(message)
        job, node = await self._running(job, message.node, progress)
        return partial(self._open_tunnel, job, node, tunnel_message(job, message, job.request.env))

    async def forward(self, caller: Caller, message: ask.Forward, progress: Progress) -> ForwardedJob:
        job = self._own(await self.lookup.visible(caller.who, message.job))
        job, node = await self._running(job, message.node, progress)
        return ForwardedJob(label=job.label(), user=job.user, node=node, ended=partial(self._over, job))

    async def settle(self, caller: Caller, message: ask.Settle) -> results.Result:
        """Wait until the files of a job that has ended no longer grow."""
        jobs = [job for job in self.cluster.state.named(JobId(message.job)) if job.uid == self.cluster.uid]
        with suppress(TimeoutError, UserError):
            paths = [await self.finder.paths(job) for job in jobs if nodes_of(job)]
            async with asyncio.timeout(LINK_S), asyncio.TaskGroup() as group:
                for path in {path for pair in paths for path in pair if path}:
                    group.create_task(settled(path))
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
        names = nodes_of(job)
        if node and node not in names:
            raise not_on(job, node)
        return job, node or names[0]

    async def _open_terminal(self, job: Job, asked: wire.OpenPty, sink: ByteSink) -> ByteStream:
        async def how_it_ended(error: str, code: str) -> StreamEnd:
            return await self._end_of_terminal(job, error, code)

        node = nodes_of(job)[0]
        try:
            return await self.links.join(job, node, asked, JobRelay(sink, node, how_it_ended))
        except UserError as error:
            if (await self._now(job)).is_finished:
                raise ended(job, code=ask.ENDED) from error
            if error.code == UNREACHABLE:
                error.code = ask.LOST  # The client comes back, and the terminal is still there.
            raise

    async def _open_tunnel(self, job: Job, node: str, asked: wire.OpenTunnel, sink: ByteSink) -> ByteStream:
        async def how_it_ended(error: str, code: str) -> StreamEnd:
            lost = code_of(error, code)
            if lost and (await self._now(job)).is_finished:
                return StreamEnd("the job has ended")
            return StreamEnd(error, lost)

        return await self.links.join(job, node, asked, JobRelay(sink, node, how_it_ended))

    async def _end_of_terminal(self, job: Job, error: str, code: str) -> StreamEnd:
        """Return the end of a terminal's stream. A terminal without an error has ended with its job."""
        if code == FELL_BEHIND:
            return StreamEnd(error, ask.LOST)
        now = await self._now(job, ends=True)
        if now.is_finished or now.state is JobState.PENDING or now.exit is not None:
            return StreamEnd(exit=now.exit)
        return StreamEnd(error or f"the terminal of job {job.label()} has ended", code_of(error, code))

    async def _now(self, job: Job, *, ends: bool = False) -> Job:
        """Return the job as Slurm knows it now. With `ends`, wait a moment for its end, which it is expected to reach."""
        try:
            async with asyncio.timeout(END_S if ends else LOOK_S), self.waits.looking(job.id):
                return await self._end_of(job)
        except TimeoutError:
            return self.cluster.state.jobs.get(job.id, job)

    async def _end_of(self, job: Job, over: Over | None = None) -> Job:
        """Return the job when this start of it has ended."""

        def is_over(now: Job) -> bool:
            return now.is_finished or now.state is JobState.PENDING or now.restarts != job.restarts

        with self.waits.poller.watched():
            end = asyncio.ensure_future(self.waits.waits.until(job, is_over))
            signs = [asyncio.ensure_future(over())] if over is not None else []
            try:
                await asyncio.wait([end, *signs], return_when=asyncio.FIRST_COMPLETED)
                async with self.waits.looking(job.id):
                    return await end
            finally:
                for task in (end, *signs):
                    task.cancel()

    async def _over(self, job: Job) -> None:
        await self.waits.waits.end_of_start(job)


def nodes_of(job: Job) -> tuple[NodeName, ...]:
    """Return the nodes of a job that has started. An ended job has its allocation, but no states of its nodes."""
    return job.allocation.node_names() if job.allocation is not None else ()


async def _open_log(request: LogRequest, sink: ByteSink) -> ByteStream:
    stream = LogStream(request, sink)
    await stream.open()
    return stream
