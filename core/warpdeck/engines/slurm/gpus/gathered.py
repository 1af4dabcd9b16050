"""Asks sstat how busy the GPUs of the user's running jobs are, where the site lets Slurm gather it.

sstat costs slurmctld two requests for each job, so it is asked about one job at a time.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.cluster.cluster import Cluster
from warpdeck.engines.slurm.commands import SlurmCommands
from warpdeck.engines.slurm.reading.allocation_table import has_unknown_gpus
from warpdeck.engines.slurm.reading.usage_table import FORMAT, gpu_now
from warpdeck.model import GpuReading, Job, JobId, JobState

from .readings import SSTAT, GpuReadings

log = logging.getLogger("warpdeck.slurm")


@dataclass(kw_only=True)
class Gathered:
    """Reads the job that was read longest ago. Jobs that a sampler measures are left out."""

    cluster: Cluster
    commands: SlurmCommands
    readings: GpuReadings
    _read_at: dict[JobId, float] = field(default_factory=dict, init=False)

    def is_needed(self) -> bool:
        gathers = "gres/gpuutil" in self.cluster.config.get("AccountingStorageTRES", "")
        return gathers and bool(self._jobs())

    async def read(self) -> None:
        """Read one job. A failure is no problem for users, because the job's GPUs just have no readings."""
        jobs = self._jobs()
        if not jobs:
            return
        job = min(jobs, key=lambda job: self._read_at.get(job.id, 0.0))
        now = self.cluster.clock()
        running = {each.id for each in jobs}
        self._read_at = {each: at for each, at in self._read_at.items() if each in running} | {job.id: now}
        try:
            used = gpu_now(await self.commands.read(*FORMAT, f"--jobs={job.id}"))
        except UserError as error:
            log.info("cannot read the usage of job %s: %s", job.id, error)
            return
        if used is None or job.allocation is None:
            return
        count = job.allocation.gpu_count()
        util_pct, mem_bytes = min(100, used.util_pct // count), used.mem_bytes // count
        for share in job.allocation.shares:
            gpus = [
                GpuReading(index=index, util_pct=util_pct, mem_used_bytes=mem_bytes, source=SSTAT)
                for index in share.gpus
            ]
            if gpus:
                self.readings.put(job.id, share.node, gpus, at_unix=now)

    def _jobs(self) -> list[Job]:
        state = self.cluster.state
        jobs = [state.jobs[job_id] for job_id in state.index.active]
        return [
            job
            for job in jobs
            if job.uid == self.cluster.uid
            and job.state is JobState.RUNNING
            and job.allocation is not None
            and job.allocation.gpu_count()
            and not has_unknown_gpus(job)
            and not self.readings.is_sampled(job.id)
            and not self.readings.is_measured_by_agents(job)
        ]
