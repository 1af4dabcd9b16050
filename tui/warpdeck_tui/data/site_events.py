"""Requests the events of jobs and of nodes for the table of events."""

from __future__ import annotations

import time
from collections.abc import Iterable

from warpdeck.base.errors import UserError
from warpdeck.protocol import requests
from warpdeck.protocol.site_rows import AuditOutcome
from warpdeck_tui.data.action_log import Done
from warpdeck_tui.data.client_state import Scheduler
from warpdeck_tui.data.rule_changes import RELOAD
from warpdeck_tui.data.server_requests import Core
from warpdeck_tui.viewmodels.site.events import (
    SiteEvent,
    audited_events,
    config_events,
    filtered,
    job_events,
    node_events,
)

RANGE_S = 7 * 86_400.0
"""Range of time of the events of nodes."""
NODES_S = 30.0
"""Seconds for which the events of nodes are used again, because their request searches the accounting."""


class SiteEvents:
    """The events, as they were last requested, and the filter."""

    def __init__(self, core: Core) -> None:
        self.text = ""
        self._core = core
        self._jobs: list[SiteEvent] = []
        self._nodes: list[SiteEvent] = []
        self._config: list[SiteEvent] | None = None
        """The changes of config.toml by anybody, or None if the user may not see them."""
        self._asked_at = 0.0

    @staticmethod
    def refusal(scheduler: Scheduler) -> str:
        """Return why the scheduler knows neither the events of jobs nor those of nodes, or "" if it knows some."""
        return scheduler.reason("events") if scheduler.reason("timeline") else ""

    async def ask(self, scheduler: Scheduler) -> None:
        """Request the events. A scheduler without one of both kinds is asked only for the other. Raises UserError."""
        if not scheduler.reason("events"):
            self._jobs = job_events((await self._core.ask(requests.Events())).events)
        if scheduler.is_admin:
            await self._ask_config()
        now = time.time()
        if abs(now - self._asked_at) >= NODES_S and not scheduler.reason("timeline"):
            told = await self._core.timeline(now - RANGE_S, now, steps=1)
            self._nodes, self._asked_at = node_events(told.events), now

    async def _ask_config(self) -> None:
        """Request the changes of config.toml from the audit log, which only administrators may read."""
        wanted = requests.Audit(requests=("amend", "reload"), outcomes=(AuditOutcome.DONE,))
        try:
            self._config = audited_events((await self._core.ask(wanted)).entries)
        except UserError as error:
            if error.code != "not_admin":
                raise
            self._config = None

    def shown(self, done: Iterable[Done]) -> list[SiteEvent]:
        """Return the events that match the filter, the latest first. `done` are the changes made in the app."""
        changes = [(each.at_unix, each.command) for each in done if each.command.startswith(RELOAD)]
        config = config_events(changes) if self._config is None else self._config
        return filtered([*self._jobs, *self._nodes, *config], self.text)
