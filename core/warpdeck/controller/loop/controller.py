"""The running controller: its parts, and the tasks that it runs.

`EventLoop` handles events in batches: one transaction per batch, effects after the commit, and a planning pass
if something changed. It is the only task that changes the state. All other tasks send events to it: `apply`
returns the outcome after the commit, and `NodeMonitor.post` takes the messages of node agents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from warpdeck.config import Config, Decoded
from warpdeck.controller.events.effects import Outcome
from warpdeck.controller.events.events import Event, JournalNote
from warpdeck.controller.planning.forecast import Forecaster
from warpdeck.controller.planning.prefetch_revoker import PrefetchRevoker
from warpdeck.controller.state import bug_reports
from warpdeck.controller.state.state import State
from warpdeck.ports.ports import Fleet, OutputCollector
from warpdeck.ports.store import Store

from .adapters import Adapters
from .change_listeners import ChangeListeners
from .commit_barrier import CommitBarrier
from .effects import EffectRunner
from .end_waiters import EndWaiters
from .event_loop import EventLoop
from .event_queue import EventQueue
from .hang_watch import HangWatch
from .housekeeping import Housekeeping, needed_by_others
from .node_monitor import NodeMonitor
from .planner import Planner
from .reservation_manager import ReservationManager
from .scheduler_statistics import SchedulerStatistics
from .site_claim import SiteClaim
from .site_recovery import SiteRecovery
from .site_rules import GROUPS_S, GroupsOf, RulesInForce, SiteRules, unix_groups
from .wakeup import Wakeup


class Controller:
    """The scheduler core on top of a store and a fleet of nodes."""

    def __init__(
        self,
        adapters: Adapters,
        *,
        config: Config,
        config_lines: Mapping[tuple[str, ...], int] = {},
        groups_of: GroupsOf = unix_groups,
        groups_every_s: float = GROUPS_S,
    ) -> None:
        clock, wakeup = adapters.clock, Wakeup()
        self._adapters = adapters
        self.state = State()
        if adapters.starts is not None:
            self.state.starts.seal = adapters.starts.identity.seal
        self.events = EventQueue()
        self.rules = SiteRules(
            self.state,
            RulesInForce(config, groups_of),
            clock=clock,
            wakeup=wakeup,
            lines=config_lines,
            groups_every_s=groups_every_s,
        )
        self.ends = EndWaiters(self.state, adapters.store, CommitBarrier(adapters.store))
        self.hub = ChangeListeners(self.ends.touch)
        self.statistics = SchedulerStatistics(clock())
        self.forecaster = Forecaster(clock)
        self.effects = EffectRunner(self.state, adapters, rules=self.rules, queue=self.events)
        self.planner = Planner(
            self.state,
            self.events,
            clock=clock,
            wakeup=wakeup,
            rules=self.rules,
            revoker=PrefetchRevoker(self.effects.add),
            statistics=self.statistics,
            hub=self.hub,
        )
        self.nodes = NodeMonitor(
            self.state,
            fleet=adapters.fleet,
            clock=clock,
            queue=self.events,
            effects=self.effects,
            hub=self.hub,
            wakeup=wakeup,
        )
        self.claim = SiteClaim(
            self.state, self.events, fleet=adapters.fleet, hub=self.hub, starts=adapters.starts
        )
        self.recovery = SiteRecovery(self.state, fleet=adapters.fleet, claim=self.claim)

    @property
    def store(self) -> Store:
        return self._adapters.store

    @property
    def fleet(self) -> Fleet:
        return self._adapters.fleet

    @property
    def outputs(self) -> OutputCollector:
        return self._adapters.outputs

    @property
    def submit_host(self) -> str:
        return self._adapters.submit_host

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self.rules.config

    def clock(self) -> float:
        """Return the time in Unix seconds."""
        return self._adapters.clock()

    async def load(self) -> None:
        """Read the state from the store. Nothing is started yet. Raises StoreError."""
        loaded = await self.store.load(finished_since_unix=self.clock() - self.config.keep_finished_s)
        self.state.load(loaded)
        await self._load_needed()
        await self.rules.learn_groups()

    async def run(self) -> None:
        """Serve until cancelled. From now on the controller keeps a connection to every known node."""
        self.fleet.start(self.nodes.post, self.events.wait_processed)
        self.outputs.start(lambda job_id, text: self.events.put(JournalNote(job_id=job_id, text=text)))
        self.claim.connect()
        self.planner.wakeup.now()
        try:
            async with asyncio.TaskGroup() as group:
                for name, work in self._background_tasks().items():
                    group.create_task(bug_reports.supervised_task(work, name), name=name)
        finally:
            self.planner.wakeup.close()
            await self.fleet.close()

    async def apply(self, event: Event) -> Outcome:
        """Pass an event to the reducer and return its outcome after the commit.

        Raises UserError or StoreError.
        """
        await self.planner.revoker.revoke_before(event, self.state)
        return await self.events.request(event)

    async def reload(self, path: str) -> tuple[list[str], Decoded]:
        """Load the configuration in this file, as `SiteRules.reload` describes, and send the new settings to
        the nodes.
        """
        found, decoded = await self.rules.reload(path)
        self.nodes.request_health_of_all()
        await self.rules.on_reload(decoded.config)
        return found, decoded

    def _background_tasks(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the permanent tasks by name."""
        state, hub = self.state, self.hub
        reservations = ReservationManager(state, self.events, clock=self.clock)
        loop = EventLoop(
            state,
            self.events,
            clock=self.clock,
            commits=self.ends.commits,
            planner=self.planner,
            effects=self.effects,
            hub=hub,
            statistics=self.statistics,
            after_commit=(
                partial(self.planner.revoker.after_commit, state),
                reservations.note_change,
                self.recovery.log_need,
            ),
        )
        hangs = HangWatch(
            state, self.events, fleet=self.fleet, rules=self.rules, clock=self.clock, stalls=self.nodes.stalls
        )
        housekeeping = Housekeeping(state, rules=self.rules, nodes=self.nodes, hub=hub, clock=self.clock)
        return {
            "events": loop.run,
            "planner": self.planner.run,
            "housekeeping": housekeeping.run,
            "groups": self.rules.refresh_groups,
            "estimates": lambda: self.forecaster.keep_estimates_current(
                state, planned=self.planner.planned, notify=lambda jobs: hub.touch(jobs=jobs)
            ),
            "reservations": reservations.run,
            "hangs": hangs.run,
            "effects": self.effects.run,
        }

    async def _load_needed(self) -> None:
        """Load the finished jobs that unfinished ones need."""
        for job_id in sorted(needed_by_others(self.state)):
            for job in await self.store.named(job_id):
                if job.id not in self.state.jobs:
                    self.state.upsert_job(job)
