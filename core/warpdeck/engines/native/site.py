"""The controller as a whole, the tables of the site, and its configuration."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from warpdeck._version import __version__
from warpdeck.base.controller_starts import fenced_sentence
from warpdeck.config import Decoded, SiteRights, check_amendments, rewrite, text_for
from warpdeck.controller.launch.tree_collection import TreeCollector
from warpdeck.controller.loop.scheduler_statistics import SchedulerStatistics
from warpdeck.controller.loop.site_claim import SiteClaim
from warpdeck.controller.loop.site_recovery import SiteRecovery, need_sentence
from warpdeck.controller.loop.site_rules import SiteRules
from warpdeck.controller.presenters import site_tables, slurm_settings
from warpdeck.controller.presenters.recovered_rows import recovered_row
from warpdeck.controller.state.reservations import reservations
from warpdeck.controller.state.state import State
from warpdeck.engines.shared.visibility import Visibility
from warpdeck.model import JobId, Link
from warpdeck.ports.caller import Caller, Principal, require_operator
from warpdeck.ports.engine import CHANGES, Action, SiteSummary
from warpdeck.protocol import requests as ask
from warpdeck.protocol import results
from warpdeck.protocol.site_rows import EngineRow, QuotaRow

from .standby import StandbyKeeper, standby_problem

log = logging.getLogger("warpdeck.api")

MOST_UNREADABLE = 20
"""Maximum number of unreadable database rows that a summary lists."""
ORDINARY = SiteRights()
EVERYTHING: dict[Action, str] = dict.fromkeys(Action, "")
Reload = Callable[[str], Awaitable[tuple[list[str], Decoded]]]
"""Puts the configuration of a file into force and returns the changes. Raises UserError."""


@dataclass(frozen=True, kw_only=True)
class NativeSite:
    """The `EngineSite` of the controller. `config_path` is the path of config.toml."""

    state: State
    rules: SiteRules
    statistics: SchedulerStatistics
    clock: Callable[[], float]
    put_in_force: Reload
    config_path: str
    claim: SiteClaim
    recovery: SiteRecovery
    collector: TreeCollector
    keeper: StandbyKeeper | None = None
    amending: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while config.toml is changed and put into force."""

    @property
    def identity(self) -> str:
        return self.state.controller_id

    def with_rights(self, who: Principal) -> Principal:
        rights = self.rules.rights.get(who.user, ORDINARY)
        if (who.level, who.coordinates) == (rights.level, rights.coordinates):
            return who
        return msgspec.structs.replace(who, level=rights.level, coordinates=rights.coordinates)

    def capabilities(self) -> Mapping[Action, str]:
        if problem := self._fence():
            return EVERYTHING | dict.fromkeys(CHANGES, problem)
        return EVERYTHING

    def about(self) -> EngineRow:
        problem = self._fence() or need_sentence(self.state) or self._standby_problem()
        return EngineRow(version=__version__, problem=problem)

    def _fence(self) -> str:
        """Return why this controller may not change the site, and the next step; "" if it may."""
        starts = self.state.starts
        return "" if starts.fenced_by is None else fenced_sentence(starts.own, starts.fenced_by)

    def quota(self, who: Principal) -> QuotaRow | None:
        return self.collector.row(who)

    def summary(self) -> SiteSummary:
        state = self.state
        return SiteSummary(
            jobs={job_state.value: count for job_state, count in state.index.in_state.items() if count},
            nodes=len(state.nodes),
            unreadable=[row.description for row in state.unreadable[:MOST_UNREADABLE]],
            standby=self.keeper.row() if self.keeper else None,
            epoch=state.starts.own.epoch,
            fenced=state.starts.fenced_by is not None,
            recovery=state.recovery.is_needed,
        )

    def _standby_problem(self) -> str:
        row = self.keeper.row() if self.keeper else None
        return standby_problem(row) if row is not None else ""

    def count_request(self, kind: str, user: str, took_s: float) -> None:
        self.statistics.count_request(kind, user, took_s)

    async def diagnosis(self, caller: Caller, message: ask.Diagnosis) -> results.SchedulerDiagnosis:
        now, index = self.clock(), self.state.index
        if message.reset:
            require_operator(caller.who)
            self.statistics.reset(now)
        users = Visibility(caller.who, self.rules.config).by_user(self.statistics.as_dict()["users"])
        queue = {"users": users, "now": now, "waiting": len(index.pending), "running": len(index.active)}
        return msgspec.convert(self.statistics.as_dict() | queue, results.SchedulerDiagnosis)

    async def partitions(self, caller: Caller, message: ask.Partitions) -> results.PartitionList:
        Visibility(caller.who, self.rules.config).require("partitions")
        self.rules.update_usage()
        config = self.rules.config
        rows = site_tables.partition_rows(self.state, config)
        return results.PartitionList(partitions=rows, configured=bool(config.partitions))

    async def reservations(self, caller: Caller, message: ask.Reservations) -> results.ReservationList:
        self.rules.update_usage()
        now = self.clock()
        seen = Visibility(caller.who, self.rules.config).reservations(reservations(self.state, now))
        rows = site_tables.reservation_rows(seen, now)
        return results.ReservationList(reservations=rows)

    async def licenses(self, caller: Caller, message: ask.Licenses) -> results.LicenseList:
        self.rules.update_usage()
        now = self.clock()
        rows = site_tables.license_rows(self.state, reservations(self.state, now), now)
        return results.LicenseList(licenses=rows)

    async def settings(self, caller: Caller, message: ask.Settings) -> results.SlurmParameters:
        self.rules.update_usage()
        return results.SlurmParameters(settings=slurm_settings.settings(self.state, self.rules.config))

    async def plugin_options(self, caller: Caller, message: ask.PluginOptions) -> results.PluginOptionList:
        return results.PluginOptionList(options={**self.rules.config.submission.plugin_options})

    async def config(self, caller: Caller, message: ask.ConfigInForce) -> results.ConfigText:
        lines = [(list(path), line) for path, line in self.rules.lines.items()]
        text = text_for(caller.who, self.rules.config)
        return results.ConfigText(file=self.config_path, text=text, lines=lines)

    async def reload(self, caller: Caller, message: ask.Reload) -> results.Reloaded:
        return await self._reloaded()

    async def amend(self, caller: Caller, message: ask.Amend) -> results.Reloaded:
        async with self.amending:
            check_amendments(caller.who, message.changes, self.rules.config)
            if message.only_asks:
                return results.Reloaded()
            await asyncio.to_thread(rewrite, self.config_path, message.changes, in_force=self.rules.config)
            log.info("configuration: amended by %s", caller.who.user)
            return await self._reloaded()

    async def recover(self, caller: Caller, message: ask.Recover) -> results.Recovery:
        found = await self.recovery.find([JobId(job_id) for job_id in message.jobs])
        rows = [recovered_row(self.state, each, discard=message.discard) for each in found.launches]
        if found.launches and not message.dry_run:
            log.warning(
                "%s: %s recovers %d launches",
                "discard" if message.discard else "adopt",
                caller.who.user,
                len(rows),
            )
            await self.recovery.recover(found.launches, discard=message.discard)
        silent = {str(name): reason for name, reason in found.silent.items()}
        return results.Recovery(jobs=rows, silent=silent, needed=self.state.recovery.is_needed)

    async def take_over(self, caller: Caller, message: ask.Takeover) -> results.TakenOver:
        log.warning("%s takes over the site with this controller", caller.who.user)
        start = await self.claim.take_over()
        links = self.state.node_status.links
        lost = [name for name in self.state.nodes if links.get(name) is not Link.UP]
        return results.TakenOver(epoch=start.epoch, nodes=len(self.state.nodes), lost=sorted(lost))

    async def _reloaded(self) -> results.Reloaded:
        found, decoded = await self.put_in_force(self.config_path)
        warnings = [each.sentence(self.config_path) for each in decoded.warnings]
        return results.Reloaded(changes=found, warnings=warnings)
