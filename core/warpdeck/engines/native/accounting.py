"""Priorities, shares and the use of limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from warpdeck.base.errors import UserError
from warpdeck.controller.loop.site_rules import SiteRules
from warpdeck.controller.planning.forecast import Forecaster
from warpdeck.controller.presenters import limit_use, priority_rows, site_tables
from warpdeck.controller.state.state import State
from warpdeck.engines.shared.job_lookup import JobLookup
from warpdeck.model import JobId, JobState
from warpdeck.model.admin_level import AdminLevel
from warpdeck.ports.caller import Caller
from warpdeck.protocol import requests as ask
from warpdeck.protocol import results


@dataclass(frozen=True, kw_only=True)
class NativeAccounting:
    """The `EngineAccounting` of the controller. The usage of accounts is brought up to date before each answer."""

    state: State
    rules: SiteRules
    forecaster: Forecaster
    lookup: JobLookup
    clock: Callable[[], float]

    async def priorities(self, caller: Caller, message: ask.Priorities) -> results.PriorityList:
        seen = self.lookup.visibility(caller.who)
        named = [(await self.lookup.seen(caller.who, word)).id for word in message.ids]
        for job_id in named:
            self._check_pending(job_id)
        self.rules.update_usage()
        rows = await self.forecaster.priorities(self.state, job_ids=named if message.ids else None)
        settings = self.state.site.settings
        return results.PriorityList(
            jobs=seen.priorities(rows),
            weights=priority_rows.weights_by_part(settings.weights),
            queue_order="promised" if settings.backfill == "conservative" else settings.queue_order,
        )

    async def shares(self, caller: Caller, message: ask.Shares) -> results.ShareTree:
        self.rules.update_usage()
        site = self.state.site
        rights = sorted(self.rules.rights.items())
        coordinators: dict[str, list[str]] = {}
        for user, each in rights:
            for account in each.coordinates:
                coordinators.setdefault(account, []).append(user)
        levels = {user: str(each.level) for user, each in rights if each.level is not AdminLevel.NONE}
        seen = self.lookup.visibility(caller.who)
        rows = priority_rows.share_rows(site, coordinators)
        shown = seen.shares(rows)
        return results.ShareTree(
            shares=shown,
            is_partial=len(shown) < len(rows),
            half_life_s=site.half_life_s,
            admin_levels=seen.admin_levels(levels),
        )

    async def limit_use(self, caller: Caller, message: ask.LimitUse) -> results.LimitUseList:
        self.rules.update_usage()
        rows = limit_use.use_rows(self.state, self.clock())
        return results.LimitUseList(uses=self.lookup.visibility(caller.who).uses(rows))

    async def qos(self, caller: Caller, message: ask.QosList) -> results.QosLevels:
        return results.QosLevels(qos=site_tables.qos_rows(self.rules.config))

    def _check_pending(self, job_id: JobId) -> None:
        """Raise UserError unless the job is pending."""
        job = self.state.jobs.get(job_id)
        if job is None or job.state is not JobState.PENDING:
            found = job.state.value if job else "not in the queue"
            raise UserError(
                f"job {job.label() if job else job_id} is not waiting: {found}",
                "only waiting jobs have a priority",
            )
