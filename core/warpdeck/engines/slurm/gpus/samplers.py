"""Decides which of the user's running jobs are measured.

These are the jobs whose details a client has requested a short time ago, and a few more while a screen with the queue or
the nodes is open. A step of the latter starts only if its requests fit into the allowance, one after the other.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
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
MAX_ON_SCREEN = 4
"""Maximum number of jobs that are measured because a screen is open, the largest first."""
SCREEN_RETRY_S = 600.0
"""Seconds after which a step of such a job is started again that has ended. Nobody has asked for this job."""
SCREEN_LOOK_S = 10.0
"""Seconds between the looks for such jobs while a screen is open."""
KEEP_S = 60.0
"""Seconds from the last look at a job, or from the end of the last screen, to the end of a step."""
FIRST_READING_S = 8.0
"""Usual seconds from the start of a step to its first reading."""
LATE_S = 20.0
"""Seconds after which a first reading is no longer promised. The step waits for something, or finds no GPUs."""
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
    """Times at which steps were started, of jobs that somebody looks at or that are measured."""
    _screens: int = field(default=0, init=False)
    """Number of open screens."""
    _screen_ended: float | None = field(default=None, init=False)
    """Time of the end of the last screen."""
    _tried: dict[JobId, float] = field(default_factory=dict, init=False)
    """Times at which steps were started because of a screen."""
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

    @contextmanager
    def screen(self) -> Iterator[None]:
        """Measure a few of the user's jobs while the block runs, because a user looks at all of them."""
        self._screens += 1
        self._wake.set()
        try:
            yield
        finally:
            self._screens -= 1
            self._screen_ended = self.monotonic()
            self._wake.set()

    def first_reading_in_s(self, job_id: JobId) -> int | None:
        """Return the seconds until the first reading of a job, or None if no sampling step of it is starting."""
        if job_id not in self._looked or self.readings.is_sampled(job_id):
            return None
        started = self._started.get(job_id)
        if started is not None and job_id not in self._running:
            return None  # The step has failed.
        waited_s = 0.0 if started is None else self.monotonic() - started
        return None if waited_s > LATE_S else max(1, round(FIRST_READING_S - waited_s))

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
        has_gpus = job.allocation is not None and job.allocation.gpu_count() > 0
        return is_running and has_gpus and not self.readings.is_measured_by_agents(job)

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            now = self.monotonic()
            self._looked = {job_id: at for job_id, at in self._looked.items() if at > now - self.keep_s}
            kept = self._looked.keys() | self._running.keys()
            self._started = {job_id: at for job_id, at in self._started.items() if job_id in kept}
            on_screen = self._on_screen(now)
            for job_id, task in self._running.items():
                if job_id not in self._looked and job_id not in on_screen and not task.cancelling():
                    task.cancel()
            for job_id in self._looked.keys() - self._running.keys():
                if self._started.get(job_id, -RETRY_S) <= now - RETRY_S:
                    self._start(job_id, now)
            self._start_on_screen(on_screen, now)
            await self._sleep(now)

    def _on_screen(self, now: float) -> list[JobId]:
        """Return the jobs that are measured because of a screen: those that are measured already, then the largest."""
        ended = self._screen_ended
        if not self._screens and (ended is None or now - ended > self.keep_s):
            return []
        state = self.cluster.state
        jobs = [state.jobs[job_id] for job_id in state.index.active]
        able = [job for job in jobs if self._is_measurable(job) and not has_unknown_gpus(job)]
        able.sort(key=lambda job: (job.id not in self._running, -_gpu_count(job), job.id))
        return [job.id for job in able if job.id not in self._looked][:MAX_ON_SCREEN]

    def _start_on_screen(self, job_ids: list[JobId], now: float) -> None:
        """Start the step of the first job that has none, if its requests fit into the allowance now."""
        self._tried = {job_id: at for job_id, at in self._tried.items() if at > now - SCREEN_RETRY_S}
        if not self._screens or "gres/gpuutil" in self.cluster.config.get("AccountingStorageTRES", ""):
            return  # Where Slurm gathers the usage itself, sstat tells it.
        for job_id in job_ids:
            if job_id not in self._running and job_id not in self._tried:
                if not self.allowance.wait_s(STEP_RPCS, looking=True, now=now):
                    self._tried[job_id] = now
                    self._start(job_id, now)
                return

    async def _sleep(self, now: float) -> None:
        """Wait for the next look, or until a look has become too old."""
        oldest = min(self._looked.values(), default=None)
        waits = [max(0.0, oldest + self.keep_s - now)] if oldest is not None else []
        if self._screens or (self._screen_ended is not None and self._running):
            waits.append(SCREEN_LOOK_S)
        try:
            async with asyncio.timeout(min(waits, default=None)):
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


def _gpu_count(job: Job) -> int:
    return job.allocation.gpu_count() if job.allocation is not None else 0
