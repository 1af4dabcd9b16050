"""Purge ended jobs from the database as [retention] of the configuration says, while the controller runs.

Submissions with a job in memory stay: unfinished jobs, jobs on which they depend, and jobs of the queue view.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

from warpdeck.base.errors import StoreError
from warpdeck.controller.loop.housekeeping import needed_by_others
from warpdeck.store.purge import DAY_S, EndLimit, Purger

if TYPE_CHECKING:
    from warpdeck.controller.loop.site_rules import SiteRules
    from warpdeck.controller.state.state import State

log = logging.getLogger("warpdeck.retention")

EVERY_S = 600.0
"""Seconds between two rounds. A round reads the ids of all submissions, which takes a second for a million."""
PAUSE_S = 0.05
"""Pause between two transactions, so that a large purge uses a small part of the disk's time."""


class Retention:
    """The purge of one controller. `clock` returns Unix seconds."""

    def __init__(self, state: State, *, purger: Purger, rules: SiteRules, clock: Callable[[], float]) -> None:
        self._state = state
        self._purger = purger
        self._rules = rules
        self._clock = clock

    async def run(self) -> None:
        """Run until cancelled. An error ends a round only."""
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                if purged := await self.run_round():
                    log.info("purged %d ended jobs", purged)
            except StoreError as error:
                log.error("%s; the next attempt is in %d minutes", error, EVERY_S / 60)

    async def run_round(self) -> int:
        """Purge all jobs that may go, and return their number. Raises StoreError."""
        settings = self._rules.config.retention
        if not (settings.days or settings.jobs):
            return 0
        before_unix = self._clock() - settings.days * DAY_S if settings.days else 0.0
        purge = self._purger.purge(
            limit=EndLimit(before_unix, settings.jobs), archive_folder=settings.archive, needed=self._needed
        )
        purged = 0
        async with aclosing(purge):
            async for count in purge:
                purged += count
                await asyncio.sleep(PAUSE_S)
        return purged

    def _needed(self) -> frozenset[int]:
        in_memory = {job.array_job_id for job in self._state.jobs.values()}
        return frozenset(in_memory | needed_by_others(self._state))
