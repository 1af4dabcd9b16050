"""The cluster as a whole: Slurm's version, the age of the data, the tables of the site, and its statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.controller.loop.scheduler_statistics import SchedulerStatistics
from warpdeck.ports.caller import Caller, Principal, require_admin
from warpdeck.ports.engine import UNSUPPORTED, Action, SiteSummary
from warpdeck.protocol import requests as ask
from warpdeck.protocol import results
from warpdeck.protocol.site_rows import EngineRow, QuotaRow

from .capabilities import IMPOSSIBLE, capabilities
from .cluster.cluster import Cluster
from .cluster.kept_answers import KeptAnswers
from .cluster.poller import Poller
from .cluster.polling import Source
from .cluster.questions import Question
from .commands import UNREACHABLE
from .reading.site_tables import read_licenses, read_reservations, read_statistics
from .rest.source import RestSource
from .site_gateway.client import SiteGateway
from .versions import Version

MAX_UNREADABLE = 20
"""Maximum number of unreadable database rows that a summary lists."""
TABLE_S = 60.0
"""Seconds for which the reservations, the licenses and Slurm's statistics are kept."""


@dataclass(frozen=True, kw_only=True)
class SlurmSite:
    """The `EngineSite` of a gateway."""

    cluster: Cluster
    poller: Poller
    version: Version
    kept: KeptAnswers
    site_gateway: SiteGateway
    rest: RestSource
    statistics: SchedulerStatistics
    """The requests of our clients. The other statistics are Slurm's own."""

    @property
    def identity(self) -> str:
        return self.cluster.state.controller_id

    def with_rights(self, who: Principal) -> Principal:
        return who  # Slurm decides what its users may do.

    def capabilities(self) -> Mapping[Action, str]:
        return capabilities()

    def about(self) -> EngineRow:
        return EngineRow(
            name="slurm",
            version=str(self.version),
            cluster=self.cluster.config.get("ClusterName", ""),
            read_at=self.cluster.read_at,
            problem=self.cluster.problem,
            requests_a_minute=round(self.poller.rate, 1),
            site_gateway=self.site_gateway.row(),
            rest=self.rest.row(),
        )

    def quota(self, who: Principal) -> QuotaRow | None:
        return None

    def summary(self) -> SiteSummary:
        state = self.cluster.state
        return SiteSummary(
            jobs={job_state.value: count for job_state, count in state.index.in_state.items() if count},
            nodes=len(self.cluster.nodes.rows),
            unreadable=[row.description for row in state.unreadable[:MAX_UNREADABLE]],
        )

    def count_request(self, kind: str, user: str, took_s: float) -> None:
        self.statistics.count_request(kind, user, took_s)

    async def diagnosis(self, caller: Caller, message: ask.Diagnosis) -> results.SchedulerDiagnosis:
        now, index = self.cluster.clock(), self.cluster.state.index
        if message.reset:
            require_admin(caller.who)
            self.statistics.reset(now)
        try:
            slurm = read_statistics(await self.kept.answer(Question.LOAD, keep_s=TABLE_S))
        except UserError:
            slurm = {}  # A site may keep sdiag from its users.
        queue = {"now": now, "waiting": len(index.pending), "running": len(index.active)}
        return msgspec.convert(self.statistics.as_dict() | slurm | queue, results.SchedulerDiagnosis)

    async def partitions(self, caller: Caller, message: ask.Partitions) -> results.PartitionList:
        await self.poller.glance(Source.NODES)
        return results.PartitionList(partitions=self.cluster.partitions, configured=True)

    async def reservations(self, caller: Caller, message: ask.Reservations) -> results.ReservationList:
        text = await self.kept.answer(Question.RESERVATIONS, keep_s=TABLE_S)
        return results.ReservationList(reservations=read_reservations(text, now=self.cluster.clock()))

    async def licenses(self, caller: Caller, message: ask.Licenses) -> results.LicenseList:
        return results.LicenseList(
            licenses=read_licenses(await self.kept.answer(Question.LICENSES, keep_s=TABLE_S))
        )

    async def settings(self, caller: Caller, message: ask.Settings) -> results.SlurmParameters:
        if not self.cluster.config:
            raise UserError(
                "Slurm has not told its configuration yet", self.cluster.problem, code=UNREACHABLE
            )
        return results.SlurmParameters(settings=dict(self.cluster.config))

    async def plugin_options(self, caller: Caller, message: ask.PluginOptions) -> results.PluginOptionList:
        return results.PluginOptionList(options={})

    async def config(self, caller: Caller, message: ask.ConfigInForce) -> results.ConfigText:
        raise _impossible(Action.CONFIG)

    async def reload(self, caller: Caller, message: ask.Reload) -> results.Reloaded:
        raise _impossible(Action.RELOAD)

    async def amend(self, caller: Caller, message: ask.Amend) -> results.Reloaded:
        raise _impossible(Action.AMEND)

    async def recover(self, caller: Caller, message: ask.Recover) -> results.Recovery:
        raise _impossible(Action.RECOVER)

    async def take_over(self, caller: Caller, message: ask.Takeover) -> results.TakenOver:
        raise _impossible(Action.TAKEOVER)


def _impossible(action: Action) -> UserError:
    return UserError(IMPOSSIBLE[action], code=UNSUPPORTED)
