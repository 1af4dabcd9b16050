"""The controller as a whole, the tables of the site, and its configuration."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from warpdeck.config import Decoded, rewrite, write
from warpdeck.controller.loop.scheduler_statistics import SchedulerStatistics
from warpdeck.controller.loop.site_rules import SiteRules
from warpdeck.controller.presenters import site_tables, slurm_settings
from warpdeck.controller.state.reservations import reservations
from warpdeck.controller.state.state import State
from warpdeck.ports.caller import ClientIdentity, require_admin
from warpdeck.ports.engine import Action, SiteSummary
from warpdeck.protocol import requests as ask
from warpdeck.protocol import results

log = logging.getLogger("warpdeck.api")

MOST_UNREADABLE = 20
"""Maximum number of unreadable database rows that a summary lists."""
Reload = Callable[[str], Awaitable[tuple[list[str], Decoded]]]
"""Puts the configuration of a file into force and returns the changes. Raises UserError."""


class NativeSite:
    """The `EngineSite` of the controller. `config_path` is the path of config.toml."""

    def __init__(
        self,
        state: State,
        rules: SiteRules,
        statistics: SchedulerStatistics,
        *,
        clock: Callable[[], float],
        reload: Reload,
        config_path: str,
    ) -> None:
        self._state = state
        self._rules = rules
        self._statistics = statistics
        self._clock = clock
        self._reload = reload
        self._config_path = config_path
        self._amending = asyncio.Lock()
        """Held while config.toml is changed and put into force."""

    @property
    def identity(self) -> str:
        return self._state.controller_id

    def capabilities(self) -> Mapping[Action, str]:
        return dict.fromkeys(Action, "")

    def summary(self) -> SiteSummary:
        state = self._state
        return SiteSummary(
            jobs={job_state.value: count for job_state, count in state.index.in_state.items() if count},
            nodes=len(state.nodes),
            unreadable=[row.words for row in state.unreadable[:MOST_UNREADABLE]],
        )

    def count_request(self, kind: str, user: str, took_s: float) -> None:
        self._statistics.count_request(kind, user, took_s)

    async def diagnosis(self, client: ClientIdentity, message: ask.Diagnosis) -> results.Diagnosis:
        now, index = self._clock(), self._state.index
        if message.reset:
            require_admin(client.who)
            self._statistics.reset(now)
        queue = {"now": now, "waiting": len(index.pending), "running": len(index.active)}
        return msgspec.convert(self._statistics.figures() | queue, results.Diagnosis)

    async def partitions(self, client: ClientIdentity, message: ask.Partitions) -> results.Partitions:
        self._rules.count_use()
        config = self._rules.config
        rows = site_tables.partition_rows(self._state, config)
        return results.Partitions(partitions=rows, configured=bool(config.partitions))

    async def reservations(self, client: ClientIdentity, message: ask.Reservations) -> results.Reservations:
        self._rules.count_use()
        now = self._clock()
        rows = site_tables.reservation_rows(reservations(self._state, now), now)
        return results.Reservations(reservations=rows)

    async def licenses(self, client: ClientIdentity, message: ask.Licenses) -> results.Licenses:
        self._rules.count_use()
        now = self._clock()
        rows = site_tables.license_rows(self._state, reservations(self._state, now), now)
        return results.Licenses(licenses=rows)

    async def settings(self, client: ClientIdentity, message: ask.Settings) -> results.Settings:
        self._rules.count_use()
        return results.Settings(settings=slurm_settings.settings(self._state, self._rules.config))

    async def plugin_options(
        self, client: ClientIdentity, message: ask.PluginOptions
    ) -> results.PluginOptions:
        return results.PluginOptions(options={**self._rules.config.submission.plugin_options})

    async def config(self, client: ClientIdentity, message: ask.ConfigInForce) -> results.ConfigInForce:
        lines = [(list(path), line) for path, line in self._rules.lines.items()]
        return results.ConfigInForce(file=self._config_path, text=write(self._rules.config), lines=lines)

    async def reload(self, client: ClientIdentity, message: ask.Reload) -> results.Reloaded:
        return await self._reloaded()

    async def amend(self, client: ClientIdentity, message: ask.Amend) -> results.Reloaded:
        async with self._amending:
            await asyncio.to_thread(rewrite, self._config_path, message.changes, in_force=self._rules.config)
            log.info("configuration: amended by %s", client.who.user)
            return await self._reloaded()

    async def _reloaded(self) -> results.Reloaded:
        found, decoded = await self._reload(self._config_path)
        warnings = [each.sentence(self._config_path) for each in decoded.warnings]
        return results.Reloaded(changes=found, warnings=warnings)
