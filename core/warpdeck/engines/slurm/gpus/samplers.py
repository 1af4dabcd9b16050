"""Measures the GPUs of the user's running jobs. Only the jobs that a client has viewed a short time ago are measured."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field

from warpdeck.base.background_task import background, cancel
from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.cluster.allocations import Allocations
from warpdeck.engines.slurm.cluster.cluster import Cluster
from warpdeck.engines.slurm.cluster.polling import PLANS, Allowance, Source
from warpdeck.engines.slurm.commands import SlurmCommands
from warpdeck.engines.slurm.output.job_links import STEP_RPCS
from warpdeck.engines.slurm.programs import Programs
from warpdeck.engines.slurm.reading.allocation_table import has_unknown_gpus
from warpdeck.engines.slurm.versions import Feature, Version, has
from warpdeck.model import Job, JobId, JobState, NodeName

from .readings import GpuReadings, sampled
from .sampler import sampler_arguments, samples

log = logging.getLogger("warpdeck.slurm")

MAX_SAMPLERS = 8
"""Maximum number of jobs that are measured at once. Each has an srun here and a process on each of its nodes."""
KEEP_S = 60.0
"""Seconds from the last look at a job to the end of its step."""
RETRY_S = 60.0
"""Seconds after which a step is started again that has ended, if somebody still looks at the job."""


@dataclass(kw_only=True)
class Samplers:
    """Runs at most one step in each job that somebody looks at. `monotonic` returns seconds of a clock that never jumps."""

    cluster: Cluster
    commands: SlurmCommands
    allowance: Allowance
    allocations: Allocations
    programs: Programs
    version: Version
    readings: GpuReadings
    monotonic: Callable[[], float] = time.monotonic
    keep_s: float = KEEP_S
    _looked: dict[JobId, float] = field(default_factory=dict, init=False)
    """Times of the last looks, the oldest first."""
    _running: dict[JobId, asyncio.Task[None]] = field(default_factory=dict, init=False)
    _started: dict[JobId, float] = field(default_factory=dict, init=False)
    """Times at which steps were started, of jobs that somebody looks at."""
    _wake: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def look(self, job_id: JobId) -> None:
        """Measure this job for a while, because a user looks at it. Jobs without GPUs and of other users are left alone."""
        job = self.cluster.state.jobs.get(job_id)
        if job is None or not self._is_measurable(job):
            return
        self._looked.pop(job_id, None)
        self._looked[job_id] = self.monotonic()
        while len(self._looked) > MAX_SAMPLERS:
            del self._looked[next(iter(self._looked))]
        self._wake.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Start and end steps while the block runs, and end all at its end."""
        try:
            async with background(self._run()):
                yield
        finally:
            await cancel(*self._running.values())

    def _is_measurable(self, job: Job) -> bool:
        is_running = job.state is JobState.RUNNING and job.uid == self.cluster.uid
        return is_running and job.allocation is not None and job.allocation.gpu_count() > 0

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            now = self.monotonic()
            self._looked = {job_id: at for job_id, at in self._looked.items() if at > now - self.keep_s}
            self._started = {job_id: at for job_id, at in self._started.items() if job_id in self._looked}
            for job_id, task in self._running.items():
                if job_id not in self._looked and not task.cancelling():
                    task.cancel()
            for job_id in self._looked.keys() - self._running.keys():
                if self._started.get(job_id, -RETRY_S) <= now - RETRY_S:
                    self._start(job_id, now)
            await self._sleep(now)

    async def _sleep(self, now: float) -> None:
        """Wait for the next look, or until a look has become too old."""
        oldest = min(self._looked.values(), default=None)
        try:
            async with asyncio.timeout(None if oldest is None else max(0.0, oldest + self.keep_s - now)):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _start(self, job_id: JobId, now: float) -> None:
        self._started[job_id] = now
        task = self._running[job_id] = asyncio.create_task(self._sample_safely(job_id))
        task.add_done_callback(lambda _: self._forget(job_id, task))

    def _forget(self, job_id: JobId, task: asyncio.Task[None]) -> None:
        if self._running.get(job_id) is task:
            del self._running[job_id]
        self.readings.drop(job_id)
        self._wake.set()

    async def _sample_safely(self, job_id: JobId) -> None:
        try:
            await self._sample(job_id)
        except UserError as error:
            # A step that has worked ends with its job.
            level = logging.INFO if self.readings.is_sampled(job_id) else logging.WARNING
            log.log(level, "cannot measure the GPUs of job %s: %s", job_id, error)
        except Exception:
            log.exception("a bug stopped the measurement of the GPUs of job %s", job_id)

    async def _sample(self, job_id: JobId) -> None:
        job = self.cluster.state.jobs.get(job_id)
        if job is not None and has_unknown_gpus(job):
            self.allowance.count(PLANS[Source.ALLOCATIONS].rpcs, time.monotonic())
            job = await self.allocations.read_one(job)
        if job is None or not self._is_measurable(job) or has_unknown_gpus(job):
            return
        assert job.allocation is not None
        gpus = {share.node: share.gpus for share in job.allocation.shares}
        shares_gpus = has(self.version, Feature.OVERLAPPING_GRES)
        argv = sampler_arguments(job, await self.programs.run(), shares_gpus=shares_gpus)
        self.allowance.count(STEP_RPCS, time.monotonic())
        async with aclosing(samples(self.commands, argv)) as lines:
            async for line in lines:
                node = NodeName(line.node)
                if found := sampled(line, gpus.get(node, ())):
                    self.readings.put(job_id, node, found, at_unix=self.cluster.clock())
