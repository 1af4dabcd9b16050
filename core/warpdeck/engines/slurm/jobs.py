"""The jobs of a gateway: those of the last queue, which is read again for a user who looks once.

A request for the details of a job starts the measurement of its GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import msgspec

from warpdeck.base.chunking import Rows
from warpdeck.controller.loop.end_waiters import EndWaiters
from warpdeck.controller.presenters.job_columns import row_maker
from warpdeck.engines.shared.jobs import StateJobs
from warpdeck.engines.shared.subscriptions import RowsOfEnds
from warpdeck.model import JobId
from warpdeck.ports.caller import Caller
from warpdeck.protocol import requests as ask
from warpdeck.protocol.job_rows import JobDetail, JobRow
from warpdeck.protocol.site_rows import ForecastRow

from .cluster.poller import Poller
from .gpus.agent_files import AgentFiles
from .gpus.samplers import Samplers


@dataclass(frozen=True, kw_only=True)
class SlurmJobs(StateJobs):
    """The `EngineJobs` of a gateway."""

    poller: Poller
    samplers: Samplers
    agents: AgentFiles

    async def rows(self, caller: Caller, message: ask.Jobs) -> Rows[JobRow | dict[str, Any]]:
        await self.poller.glance()
        return await super().rows(caller, message)

    async def detail(self, caller: Caller, message: ask.JobInfo) -> JobDetail:
        await self.poller.glance()
        found = await super().detail(caller, message)
        job_id = JobId(found.row.id)
        if await self.agents.look(job_id):
            found = await super().detail(caller, message)
        self.samplers.look(job_id)
        if all(gpu.util_pct is None for gpu in found.gpus):
            wait_s = self.samplers.first_reading_in_s(job_id)
            found = msgspec.structs.replace(found, first_reading_in_s=wait_s)
        return found

    async def forecast(self, caller: Caller, message: ask.Forecast) -> ForecastRow:
        await self.poller.glance()
        return await super().forecast(caller, message)

    def ends(self, caller: Caller, message: ask.AwaitEnds) -> RowsOfEnds:
        show = row_maker(self.state, message.fields, now=self.clock())
        return WatchedEnds(self.end_waiters, message, show, self.poller.watched())


class WatchedEnds(RowsOfEnds):
    """A client's wait for the ends of submissions, for which the queue is read as often as for a user who looks."""

    def __init__(
        self, ends: EndWaiters, message: ask.AwaitEnds, show: Any, watched: AbstractContextManager[None]
    ) -> None:
        super().__init__(ends, message, show)
        self._watched: Sequence[AbstractContextManager[None]] = (watched,)
        watched.__enter__()

    def close(self) -> None:
        super().close()
        for each in self._watched:
            each.__exit__(None, None, None)
        self._watched = ()
