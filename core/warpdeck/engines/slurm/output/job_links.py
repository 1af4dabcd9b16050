"""The connections to running jobs, at most one for each node of a job."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from warpdeck.engines.slurm.cluster.polling import Allowance
from warpdeck.engines.slurm.commands import SlurmCommands
from warpdeck.engines.slurm.programs import Programs
from warpdeck.engines.slurm.versions import Feature, Version, has
from warpdeck.model import Job, JobId
from warpdeck_agent.wire import messages as wire

from .job_link import JobLink, srun_arguments, start_link
from .job_relay import JobRelay

STEP_RPCS = 4
"""Requests of an srun that starts a step in a running job: the allocation, the step, its end, and that of srun."""
Key = tuple[JobId, int, str]
"""A start of a job, and one of its nodes."""


@dataclass(kw_only=True)
class JobLinks:
    """Opens streams to jobs."""

    commands: SlurmCommands
    allowance: Allowance
    version: Version
    programs: Programs
    _links: dict[Key, JobLink] = field(default_factory=dict, init=False)
    _starting: dict[Key, asyncio.Lock] = field(default_factory=dict, init=False)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Close all connections at the end of the block. The jobs and their terminals continue."""
        try:
            yield
        finally:
            await asyncio.gather(*(link.close() for link in [*self._links.values()]), return_exceptions=True)

    async def join(
        self, job: Job, node: str, message: wire.OpenPty | wire.OpenTunnel, relay: JobRelay
    ) -> JobRelay:
        """Open a stream, and start a step in the job if there is none yet. Raises UserError in Slurm's words."""
        key = (job.id, job.restarts, node)
        async with self._starting.setdefault(key, asyncio.Lock()):
            link = self._links.get(key)
            if link is None or link.has_ended:
                link = await self._start(key, job)
        relay.join(link, link.open(message, relay))
        return relay

    async def _start(self, key: Key, job: Job) -> JobLink:
        self.allowance.count_action(STEP_RPCS, time.monotonic())
        shares = has(self.version, Feature.OVERLAPPING_GRES)
        program = [await self.programs.run(), "gateway", job.request.chdir or job.request.submit_dir]
        argv = [*srun_arguments(job.id, key[2], shares_gpus=shares), "/bin/sh", *program]

        def forget() -> None:
            if self._links.get(key) is link:
                del self._links[key]
                self._starting.pop(key, None)

        try:
            link = await start_link(self.commands, argv, forget)
        except BaseException:
            self._starting.pop(key, None)
            raise
        self._links[key] = link
        return link
