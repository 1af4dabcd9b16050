"""The jobs of a gateway. A request for the details of a job starts the measurement of its GPUs."""

from __future__ import annotations

from dataclasses import dataclass

from warpdeck.engines.shared.jobs import StateJobs
from warpdeck.model import JobId
from warpdeck.ports.caller import Caller
from warpdeck.protocol import requests as ask
from warpdeck.protocol.job_rows import JobDetail

from .gpus.samplers import Samplers


@dataclass(frozen=True, kw_only=True)
class SlurmJobs(StateJobs):
    """The `EngineJobs` of a gateway."""

    samplers: Samplers

    async def detail(self, caller: Caller, message: ask.JobInfo) -> JobDetail:
        found = await super().detail(caller, message)
        self.samplers.look(JobId(found.row.id))
        return found
