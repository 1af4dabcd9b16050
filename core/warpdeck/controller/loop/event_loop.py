"""The main loop: one transaction for each batch of events, and the effects after its commit.

The task that runs the loop owns the state. If a commit fails, its changes are undone in memory and each
caller gets an error. Messages of agents are kept and applied again. If a bug interrupts a batch before its
commit (see `bug_reports`), the batch is rolled back and its events are then handled one by one. The caller of
the event that fails gets an error.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from warpdeck.base.errors import StoreError, UserError
from warpdeck.controller.events.effects import Outcome
from warpdeck.controller.events.events import Event, NodeLost, NodeUp
from warpdeck.controller.planning.passes import may_delay_pass, plans_inline
from warpdeck.controller.state import bug_reports
from warpdeck.controller.state.state import State
from warpdeck.controller.state.transaction import Transaction
from warpdeck.model import NodeName
from warpdeck.policy import Plan

from .change_listeners import ChangeListeners
from .commit_barrier import CommitBarrier
from .effects import EffectRunner
from .event_queue import RETRY_S, EventQueue, refuse
from .guarded_reduce import guarded_reduce
from .initial_steps import QueuedEvent
from .planner import Planner
from .scheduler_statistics import SchedulerStatistics

log = logging.getLogger("warpdeck.controller")

NOT_UNDERSTOOD = "a message of its agent caused an error inside the controller; see the controller's log"


class TransactionDecisions(NamedTuple):
    """The decisions of one transaction. They are kept until they are on disk."""

    outcomes: list[tuple[asyncio.Future[Outcome] | None, Outcome | None]]
    replan: bool
    fast_path: Outcome | None
    inline_pass: tuple[Plan, Outcome] | None


class EventLoop:
    """The main loop of one controller. Each function in `after_commit` is called after each commit."""

    def __init__(
        self,
        state: State,
        queue: EventQueue,
        *,
        clock: Callable[[], float],
        commits: CommitBarrier,
        planner: Planner,
        effects: EffectRunner,
        hub: ChangeListeners,
        statistics: SchedulerStatistics,
        after_commit: Sequence[Callable[[], None]],
    ) -> None:
        self._state = state
        self._queue = queue
        self._clock = clock
        self._commits = commits
        self._planner = planner
        self._effects = effects
        self._hub = hub
        self._statistics = statistics
        self._after_commit = after_commit

    async def run(self) -> None:
        """Handle events until cancelled."""
        while True:
            await self._handle(await self._queue.next_batch())

    async def _handle(self, batch: list[QueuedEvent]) -> None:
        """Handle a batch of events in one transaction."""
        txn = Transaction(self._state, self._clock())
        try:
            decided = self._decide(txn, batch)
            await self._commits.commit(txn.changes())
        except StoreError as error:
            self._refuse_all(txn, batch, error)
        except Exception:
            await self._handle_one_by_one(txn, batch)
        else:
            self._follow_up(txn, batch, decided)

    def _decide(self, txn: Transaction, batch: list[QueuedEvent]) -> TransactionDecisions:
        self._statistics.counters.events += len(batch)
        outcomes = [(answer, self._reduce(txn, event, answer)) for event, answer in batch]
        steps = self._queue.initial_steps.due(self._state, txn.changed_jobs())
        outcomes += [(answer, self._reduce(txn, event, answer)) for event, answer in steps]
        batch += steps
        requests_pass = any(outcome is not None and outcome.replan for _, outcome in outcomes)
        replan = requests_pass and self._state.reacts_to_events
        fast_path = bug_reports.rollback_on_bug(
            txn, lambda: self._planner.start_successors(txn, [event for event, _ in batch])
        )
        replan = replan and fast_path is None
        is_inline = replan and plans_inline(self._state, outcomes)
        inline_pass = (
            bug_reports.rollback_on_bug(txn, lambda: self._planner.plan_in_transaction(txn))
            if is_inline
            else None
        )
        return TransactionDecisions(
            outcomes=outcomes, replan=replan, fast_path=fast_path, inline_pass=inline_pass
        )

    def _follow_up(self, txn: Transaction, batch: list[QueuedEvent], decided: TransactionDecisions) -> None:
        """Send the effects and outcomes of a committed transaction, and request a pass if needed."""
        outcomes, replan = decided.outcomes, decided.replan
        self._statistics.count_commit(self._state, txn.states_before())
        for callback in self._after_commit:
            callback()
        for answer, outcome in outcomes:
            if outcome is None:
                continue
            self._effects.add(outcome.effects)
            if answer is not None and not answer.done():
                answer.set_result(outcome)
        self._hub.touch(jobs=txn.changed_jobs(), nodes=self._nodes_touched(txn, batch))
        if decided.fast_path is not None:
            self._effects.add(decided.fast_path.effects)
            replan = decided.fast_path.replan
        if decided.inline_pass is not None:
            made, starts_outcome = decided.inline_pass
            self._effects.add(starts_outcome.effects)
            self._planner.store_reasons(made)
            replan = starts_outcome.replan
        if replan and may_delay_pass(outcomes):
            self._planner.wakeup.after_delay()
        elif replan:
            self._planner.wakeup.now()

    def _refuse_all(self, txn: Transaction, batch: list[QueuedEvent], error: StoreError) -> None:
        """Roll back a batch after its commit failed."""
        log.error("%s", error)
        self._roll_back(txn, batch)
        for _, answer in batch:
            refuse(answer, UserError(str(error), "free some space, then try again"))
        self._queue.retry(batch)
        self._planner.wakeup.after(RETRY_S)

    async def _handle_one_by_one(self, txn: Transaction, batch: list[QueuedEvent]) -> None:
        """Roll back a batch that a bug interrupted before its commit, and handle its events one by one.

        Only an event that fails on its own is refused.
        """
        self._roll_back(txn, batch)
        if len(batch) == 1:
            event, answer = batch[0]
            refuse(answer, bug_reports.refusal(type(event).__name__))
            return
        bug_reports.report_bug("a transaction")
        for queued in batch:
            await self._handle([queued])

    def _roll_back(self, txn: Transaction, batch: list[QueuedEvent]) -> None:
        """Undo a transaction, and send the old rows again to clients that may have seen its changes."""
        jobs, nodes = list(txn.changed_jobs()), self._nodes_touched(txn, batch)
        txn.rollback()
        self._statistics.counters.failed_commits += 1
        self._hub.touch(jobs=jobs, nodes=nodes)

    def _reduce(
        self, txn: Transaction, event: Event, answer: asyncio.Future[Outcome] | None
    ) -> Outcome | None:
        return guarded_reduce(txn, event, answer, on_bug=self._drop_link)

    def _drop_link(self, event: Event) -> None:
        """Treat the node as down if its first message caused an error."""
        if isinstance(event, NodeUp):
            self._queue.put(NodeLost(name=event.name, reason=NOT_UNDERSTOOD))

    def _nodes_touched(self, txn: Transaction, batch: list[QueuedEvent]) -> list[NodeName]:
        names = dict.fromkeys(txn.changed_nodes())
        for job_id in txn.changed_jobs():
            job = self._state.jobs.get(job_id)
            if job is not None and job.allocation is not None:
                names.update(dict.fromkeys(job.allocation.node_names()))
        for event, _ in batch:
            if isinstance(event, NodeUp | NodeLost):
                names[event.name] = None
        return list(names)
