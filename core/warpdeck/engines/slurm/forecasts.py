"""Why a job waits over Slurm, and when it is expected to start."""

from __future__ import annotations

from dataclasses import dataclass

from warpdeck.controller.presenters.job_values import partition_of
from warpdeck.controller.state.state import State
from warpdeck.model import Job, JobState
from warpdeck.protocol.site_rows import ForecastRow

from .cluster.cluster import Cluster


@dataclass(frozen=True)
class SlurmForecasts:
    """Forecasts from the last queue."""

    cluster: Cluster

    async def of_job(self, state: State, job: Job) -> ForecastRow:
        """Return the reason and the expected start that Slurm told with the last queue."""
        job = state.jobs.get(job.id, job)
        row = ForecastRow(
            job=job.label(), id=job.id, partition=partition_of(job), state=job.state.value, verdict=""
        )
        if job.state is not JobState.PENDING:
            return row
        reason = state.planned.pending_reasons.get(job.id)
        return ForecastRow(
            job=job.label(),
            id=job.id,
            partition=partition_of(job),
            verdict="later",
            code=reason.code if reason else "None",
            sentence=reason.sentence if reason else "Slurm has not considered it yet",
            expected_start=reason.expected_start_unix if reason else None,
            priority=state.planned.priorities.get(job.id, 0),
        )
