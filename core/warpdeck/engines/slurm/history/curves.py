"""The usage of jobs over Slurm. Slurm keeps totals of ended jobs, and no measurements over time."""

from __future__ import annotations

from dataclasses import dataclass

from warpdeck.base.errors import UserError
from warpdeck.controller.presenters.usage_rows import usage_row
from warpdeck.engines.shared.job_lookup import JobLookup
from warpdeck.protocol import requests as ask
from warpdeck.protocol.job_rows import UsageCurves

NO_CURVES = "Slurm keeps no measurements over time; the totals of a job are told after its end"


@dataclass(frozen=True)
class SlurmCurves:
    """Reads the totals from the record."""

    lookup: JobLookup

    async def curves(self, message: ask.Curves) -> UsageCurves:
        """Return the totals of a job. Raises UserError."""
        if not message.job:
            raise UserError(NO_CURVES, "name a job that has ended")
        job = await self.lookup.find(message.job)
        used = usage_row(job) if job.shares and job.is_finished else None
        return UsageCurves(used=used)
