"""Run planning passes and apply their decisions.

A pass normally runs beside the event loop, and its decisions are applied as an event. On a small site the
pass is part of the transaction with the events that require it. When a task of an array takes over the
resources of the previous task, no pass is needed at all (see `array_fast_path`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from warpdeck.base.errors import InvalidTransition, UserError
from warpdeck.controller.events.effects import Effect, LaunchShare, Outcome
from warpdeck.controller.events.events import Event, Planned
from warpdeck.controller.planning.passes import Passes
from warpdeck.controller.planning.prefetch_revoker import PrefetchRevoker
from warpdeck.controller.reducers.array_fast_path import ArrayFastPath
from warpdeck.controller.state.deadlines import next_deadline
from warpdeck.controller.state.state import State, replace
from warpdeck.controller.state.transaction import Transaction
from warpdeck.policy import Plan

from .change_listeners import ChangeListeners
from .event_queue import EventQueue
from .guarded_reduce import guarded_reduce
from .scheduler_statistics import SchedulerStatistics
from .site_rules import SiteRules
from .wakeup import Wakeup

log = logging.getLogger("warpdeck.controller")

REPLAN_S = 30.0
"""Seconds between passes when no event happens. The passage of time alone changes expected starts and makes
jobs eligible.
"""
MIN_PAUSE_S = 0.02
"""Minimum pause in seconds between passes while events keep arriving. A longer pass is followed by a pause of
the same length.
"""


class Planner:
    """Planner of one controller. It sends its decisions to `queue`. `clock` returns Unix seconds."""

    def __init__(
        self,
        state: State,
        queue: EventQueue,
        *,
        clock: Callable[[], float],
        wakeup: Wakeup,
        rules: SiteRules,
        revoker: PrefetchRevoker,
        statistics: SchedulerStatistics,
        hub: ChangeListeners,
    ) -> None:
        self._state = state
        self._queue = queue
        self._clock = clock
        self.wakeup = wakeup
        self._rules = rules
        self.revoker = revoker
        self._statistics = statistics
        self._hub = hub
        self.planned = asyncio.Event()
        """Set when a pass has been made or no job is pending. A task that waits for the next pass clears the
        event first.
        """
        self._passes = Passes()
        self._array_fast_path = ArrayFastPath()

    async def run(self) -> None:
        """Run passes until cancelled, with a pause after each pass. Without queued events the next pass may
        start at once.
        """
        while True:
            await self.wakeup.wait(self._passes.next_s(self._clock(), most_s=REPLAN_S))
            if self._state.has_to_plan:
                took_s = await self._plan_once()
                await asyncio.sleep(0 if self._queue.is_empty else max(MIN_PAUSE_S, took_s))
            else:
                self.planned.set()

    async def wait_for_pass(self) -> None:
        """Wait until a pass over the present state has been made, or until no job is pending."""
        self.planned.clear()
        self.wakeup.now()
        await self.planned.wait()

    async def _plan_once(self) -> float:
        """Run one pass, and return the duration of the planning itself in seconds."""
        made = self._plan()
        took_s = self._statistics.counters.last_pass_s
        decided = _decisions(made)
        if decided != Planned():
            try:
                await self._queue.request(decided)
            except (UserError, InvalidTransition) as error:
                log.warning("the plan (%d starts) was not committed: %s", len(made.starts), error)
        self.store_reasons(made)
        return took_s

    def start_successors(self, txn: Transaction, events: Sequence[Event]) -> Outcome | None:
        """Start further tasks of an array in place of the tasks that have ended, if this needs no pass.

        The starts become part of the transaction.
        """
        if not txn.state.may_start:
            return None
        decided = self._array_fast_path.decide(txn.state, events, txn.now, successors=txn.successors)
        if decided is None:
            return None
        outcome = guarded_reduce(txn, decided)
        launches = sum(len(start.allocation.shares) for start in decided.starts)
        if outcome is None or len(outcome.effects) < launches:
            return Outcome(effects=() if outcome is None else outcome.effects)  # A pass finds out the reason.
        return replace(
            outcome, effects=(*outcome.effects, *self._prefetch(txn, outcome.effects)), replan=False
        )

    def _prefetch(self, txn: Transaction, starting: tuple[Effect, ...]) -> tuple[Effect, ...]:
        """Prefetch further array tasks to the slots that got a new job in this transaction.

        The launches become part of the transaction.
        """
        if self.revoker.is_awaited:
            return ()
        promoted = [successor for successor in txn.successors.values() if successor in txn.state.index.active]
        started = [effect.job_id for effect in starting if isinstance(effect, LaunchShare)]
        prefetches = self._array_fast_path.prefetches(txn.state, (*promoted, *started))
        outcome = guarded_reduce(txn, Planned(prefetches=prefetches)) if prefetches else None
        return () if outcome is None else outcome.effects

    def plan_in_transaction(self, txn: Transaction) -> tuple[Plan, Outcome]:
        """Run a pass as part of the transaction and add its decisions to it.

        The pass sees the transaction's changes.
        """
        made = self._plan()
        outcome = guarded_reduce(txn, _decisions(made))
        if outcome is None:
            return made, Outcome(replan=False)
        return made, replace(outcome, effects=(*outcome.effects, *self._prefetch(txn, outcome.effects)))

    def _plan(self) -> Plan:
        """Run one pass over the present state."""
        loop = asyncio.get_running_loop()
        state, now, begun = self._state, self._clock(), loop.time()
        self._rules.update_usage()
        made = self._passes.make(state, now)
        took_s = loop.time() - begun
        self._statistics.count_pass(now, took_s, waiting=len(state.index.pending))
        self._array_fast_path.learn(state, made, now)
        self.revoker.revoke_unjustified(state, trusted=self._array_fast_path.trusted)
        return made

    def store_reasons(self, made: Plan) -> None:
        """Store the pending reasons that the pass found.

        If the pass stopped at a limit, another pass is requested.
        """
        self._hub.touch(jobs=self._passes.keep(self._state, made))
        if made.more:
            self.wakeup.now()
        self.planned.set()
        self._set_alarm()

    def _set_alarm(self) -> None:
        """Schedule a pass for the next time at which the clock alone changes what may start or must end."""
        now, state = self._clock(), self._state
        deadline = next_deadline(state, now)
        soon = deadline is not None and deadline < now + REPLAN_S
        self.wakeup.set_alarm(deadline - now if deadline is not None and soon else None)


def _decisions(made: Plan) -> Planned:
    return Planned(starts=made.starts, preempts=made.preempts, resumes=made.resumes, ends=made.ends)
