"""When a planning pass is made, and what becomes of its decisions.

A pass is made beside the events, and its decisions are an event like others; on a small site it is part of the transaction whose
events called for it. Where an array's task takes the place of the one before it, no pass is needed at all (see succession).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from warpdeck.base.errors import InvalidTransition, UserError
from warpdeck.controller.events.events import Effect, Event, LaunchShare, Outcome, Planned
from warpdeck.controller.planning.passes import Passes
from warpdeck.controller.planning.recall import PrefetchRevoker
from warpdeck.controller.presenters.loop_counters import LoopCounters
from warpdeck.controller.reducers.array_fast_path import ArrayFastPath
from warpdeck.controller.state.deadlines import next_moment
from warpdeck.controller.state.state import State, amend
from warpdeck.controller.state.transaction import Transaction
from warpdeck.policy import Plan

from .change_listeners import ChangeListeners
from .scheduler_statistics import SchedulerStatistics
from .wakeup import Wakeup

log = logging.getLogger("warpdeck.controller")

REPLAN_S = 30.0
"""Waiting jobs are planned anew this often even if nothing happened: expected starts and begin times move."""
REST_S = 0.02
"""Least rest between passes while events pour in; a pass that took longer rests as long as it took."""


class Planner:
    """One for each controller.

    `state` returns the present state. `apply` sends an event to the loop. `decide` puts an event of the planner's through the reducer
    and returns None if it was refused.
    """

    def __init__(
        self,
        recall: PrefetchRevoker,
        *,
        state: Callable[[], State],
        clock: Callable[[], float],
        apply: Callable[[Event], Awaitable[Outcome]],
        decide: Callable[[Transaction, Event], Outcome | None],
        count_use: Callable[[], None],
        tally: LoopCounters,
        diagnosis: SchedulerStatistics,
        hub: ChangeListeners,
    ) -> None:
        self._recall = recall
        self._state = state
        self._clock = clock
        self._apply = apply
        self._decide = decide
        self._count_use = count_use
        self._tally = tally
        self._diagnosis = diagnosis
        self._hub = hub
        self.wakeup = Wakeup()
        self.planned = asyncio.Event()
        """A pass has been made, or nobody waited; whoever waits for the next one clears it."""
        self._passes = Passes()
        self._succession = ArrayFastPath()

    async def run(self, *, is_idle: Callable[[], bool]) -> None:
        """Makes passes for ever; between them it rests, unless nobody waits to be served."""
        while True:
            await self.wakeup.wait(self._passes.next_s(self._clock(), most_s=REPLAN_S))
            if self._state().has_to_plan:
                took_s = await self._plan_once()
                await asyncio.sleep(0 if is_idle() else max(REST_S, took_s))
            else:
                self.planned.set()

    async def plan_anew(self) -> None:
        """Returns when a pass has been made over what is known now, or nobody waits."""
        self.planned.clear()
        self.wakeup.now()
        await self.planned.wait()

    async def _plan_once(self) -> float:
        """One pass; how long the planning itself took, in seconds."""
        made = self._plan()
        took_s = self._tally.last_pass_s
        decided = _decisions(made)
        if decided != Planned():
            try:
                await self._apply(decided)
            except (UserError, InvalidTransition) as error:
                log.warning("the plan (%d starts) was not committed: %s", len(made.starts), error)
        self.take_whys(made)
        return took_s

    def succeed(self, txn: Transaction, events: Sequence[Event]) -> Outcome | None:
        """Starts what takes the place of the array tasks that have ended, where it takes no pass to tell; part of the transaction."""
        decided = self._succession.decide(txn.state, events, txn.now, heirs=txn.heirs)
        if decided is None:
            return None
        outcome = self._decide(txn, decided)
        wanted = sum(len(start.allocation.shares) for start in decided.starts)
        if outcome is None or len(outcome.effects) < wanted:
            return Outcome(effects=() if outcome is None else outcome.effects)  # a pass finds out why
        return amend(outcome, effects=(*outcome.effects, *self._hand(txn, outcome.effects)), replan=False)

    def _hand(self, txn: Transaction, starting: tuple[Effect, ...]) -> tuple[Effect, ...]:
        """Hands the places that have got another holder in this transaction what follows there; part of it."""
        if self._recall.is_awaited:
            return ()
        moved = [heir for heir in txn.heirs.values() if heir in txn.state.index.active]
        started = [effect.job_id for effect in starting if isinstance(effect, LaunchShare)]
        aheads = self._succession.ahead(txn.state, (*moved, *started))
        outcome = self._decide(txn, Planned(aheads=aheads)) if aheads else None
        return () if outcome is None else outcome.effects

    def plan_along(self, txn: Transaction) -> tuple[Plan, Outcome]:
        """A pass over what the transaction has changed so far; its decisions are part of it."""
        made = self._plan()
        outcome = self._decide(txn, _decisions(made))
        if outcome is None:
            return made, Outcome(replan=False)
        return made, amend(outcome, effects=(*outcome.effects, *self._hand(txn, outcome.effects)))

    def _plan(self) -> Plan:
        """One pass over the state as it is."""
        loop = asyncio.get_running_loop()
        state, now, begun = self._state(), self._clock(), loop.time()
        self._count_use()
        made = self._passes.make(state, now)
        took_s = loop.time() - begun
        self._tally.count_pass(took_s)
        self._diagnosis.count_pass(now, took_s, waiting=len(state.index.pending))
        self._succession.learn(state, made, now)
        self._recall.weigh(state, trusted=self._succession.trusted)
        return made

    def take_whys(self, made: Plan) -> None:
        """Keeps what the pass said of the jobs that still wait, and asks for another if it stopped at a bound."""
        self._hub.touch(jobs=self._passes.keep(self._state(), made))
        if made.more:
            self.wakeup.now()
        self.planned.set()
        self._set_alarm()

    def _set_alarm(self) -> None:
        """A pass is made at the next moment at which the clock alone changes what may start or must end."""
        now, state = self._clock(), self._state()
        moment = next_moment(state, now)
        soon = moment is not None and moment < now + REPLAN_S
        self.wakeup.set_alarm(moment - now if moment is not None and soon else None)


def _decisions(made: Plan) -> Planned:
    return Planned(starts=made.starts, preempts=made.preempts, resumes=made.resumes, ends=made.ends)
