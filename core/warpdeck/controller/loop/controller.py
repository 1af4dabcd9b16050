"""The controller's main loop.

It handles events in batches: one transaction per batch, effects after the commit, and a planning pass if
something changed. One task owns the state. All other tasks call `apply`, which returns the outcome after the
commit, or `post`, which takes the messages of node agents.

If a commit fails, its changes are undone in memory and each caller gets an error. Messages of agents are kept
and tried again, because no agent sends them twice. The loop goes on. If a bug interrupts a batch before its
commit (see `bug_reports`), the batch is rolled back and its events are then tried one by one. The caller
whose event meets the bug gets an error.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from warpdeck.base.errors import InvalidTransition, StoreError, UserError, WarpdeckError
from warpdeck.config import Config, Decoded, load
from warpdeck.controller.events.events import (
    AskHealth,
    Event,
    JournalNote,
    MessagesRead,
    NodeLost,
    NodeUp,
    Outcome,
)
from warpdeck.controller.events.node_messages import heard
from warpdeck.controller.planning.forecast import Forecaster
from warpdeck.controller.planning.passes import goes_along, may_rest
from warpdeck.controller.planning.recall import PrefetchRevoker
from warpdeck.controller.presenters.loop_counters import LoopCounters
from warpdeck.controller.reducers.reduce import reduce
from warpdeck.controller.reducers.rule_changes import GroupsOf, RulesInForce, unix_groups
from warpdeck.controller.state import bug_reports
from warpdeck.controller.state.measurements import to_reading
from warpdeck.controller.state.state import State
from warpdeck.controller.state.transaction import Transaction
from warpdeck.model import NodeName
from warpdeck.policy import Plan
from warpdeck.ports.ports import Fleet, FleetEvent, OutputCollector, Store, TreeCache
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire import steps as stepwire

from .change_listeners import ChangeListeners
from .commit_barrier import CommitBarrier
from .effects import EffectRunner
from .end_waiters import EndWaiters
from .fences import Fences
from .health_polling import HealthPolling
from .housekeeping import ToldPriorities, evict_finished, needed_by_others
from .initial_steps import Asked, InitialSteps
from .planner import REPLAN_S, Planner
from .reservation_manager import ReservationManager
from .sample_rate import SampleRate
from .scheduler_statistics import SchedulerStatistics

log = logging.getLogger("warpdeck.controller")

MAX_ASKED = 20_000
"""Maximum number of callers' events in progress; more callers wait.

Messages of agents are never dropped. Agents are read no faster than `heard` permits.
"""
MAX_BATCH = 512
"""Maximum number of events in one transaction. It bounds how long one commit can delay the others."""
GROUPS_S = 300.0
"""Seconds between lookups of the Unix groups of all users with pending jobs. Lookups happen only if a
partition restricts access by group.
"""
RETRY_S = 1.0
"""Seconds between attempts to commit the messages of agents while the store cannot write."""
NOT_UNDERSTOOD = "what its agent says meets an error inside the controller, which is in the controller's log"


class Decided(NamedTuple):
    """The decisions of one transaction, kept until they are on disk."""

    outcomes: list[tuple[asyncio.Future[Outcome] | None, Outcome | None]]
    replan: bool
    swift: Outcome | None
    along: tuple[Plan, Outcome] | None


class Controller:
    """The scheduler core on top of a store and a fleet of nodes. `clock` returns Unix seconds."""

    def __init__(
        self,
        store: Store,
        fleet: Fleet,
        *,
        trees: TreeCache,
        outputs: OutputCollector,
        clock: Callable[[], float],
        config: Config,
        submit_host: str,
        config_lines: Mapping[tuple[str, ...], int] = {},
        groups_of: GroupsOf = unix_groups,
        groups_every_s: float = GROUPS_S,
    ) -> None:
        self.store = store
        self.commits = CommitBarrier(store)
        self.fleet = fleet
        self.trees = trees
        self._rules = RulesInForce(config, groups_of)
        self.config_lines = config_lines
        """Line number of each key of the current configuration in its file."""
        self.clock = clock
        self.forecaster = Forecaster(clock)
        self.ends = EndWaiters(lambda: self.state, store, self.commits)
        self.hub = ChangeListeners(self.ends.touch)
        self._sampling = SampleRate()
        self._inquiry = HealthPolling()
        self.tally = LoopCounters()
        self.diagnosis = SchedulerStatistics(clock())
        self.on_reload: Callable[[Config], Awaitable[None]] = _nothing
        """Called with each new configuration once it is in force."""
        self.state = State()
        self.controller_id = ""
        self._queue: asyncio.Queue[Asked] = asyncio.Queue()
        self._room = asyncio.Semaphore(MAX_ASKED)
        self._owed: list[Asked] = []
        self._groups_every_s = groups_every_s
        self._told_priorities = ToldPriorities()
        self._recall = PrefetchRevoker(lambda effects: self._effects.add(effects))
        self._reservations = ReservationManager(state=lambda: self.state, clock=clock, apply=self.apply)
        self._planner = Planner(
            self._recall,
            state=lambda: self.state,
            clock=clock,
            apply=self.apply,
            decide=lambda txn, event: self._reduce(txn, event, None),
            count_use=self.count_use,
            tally=self.tally,
            diagnosis=self.diagnosis,
            hub=self.hub,
        )
        self.outputs = outputs
        self.submit_host = submit_host
        self._fences = Fences()
        self.first_steps = InitialSteps()
        self._effects = EffectRunner(
            fleet,
            trees,
            outputs,
            store=store,
            state=lambda: self.state,
            config=lambda: self.config,
            clock=clock,
            post=self.post,
            submit_host=submit_host,
        )

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self._rules.config

    async def load(self) -> None:
        """Read the state from the store. Nothing is started yet. Raises StoreError."""
        loaded = await self.store.load(finished_since_unix=self.clock() - self.config.keep_finished_s)
        self.controller_id = loaded.controller_id
        self.state = State.from_store(loaded)
        await self._load_needed()
        await self.learn_groups(self._waiting_users())

    async def run(self) -> None:
        """Serve until cancelled. From now on the controller keeps a connection to every known node."""
        self.fleet.start(self.post, self.heard)
        self.outputs.start(lambda job_id, text: self._put(JournalNote(job_id=job_id, text=text)))
        for node in self.state.nodes.values():
            self.fleet.connect(node)
        self._planner.wakeup.now()
        lasting = {
            "events": self._serve,
            "planner": lambda: self._planner.run(is_idle=self._queue.empty),
            "housekeeping": self._housekeeping,
            "groups": self._refresh_groups,
            "estimates": self._estimate,
            "reservations": self._reservations.run,
            "effects": self._effects.run,
        }
        try:
            async with asyncio.TaskGroup() as group:
                for name, work in lasting.items():
                    group.create_task(bug_reports.lasting(work, name), name=name)
        finally:
            self._planner.wakeup.close()
            await self.fleet.close()

    async def apply(self, event: Event) -> Outcome:
        """Pass an event to the reducer and return its outcome after the commit.

        Raises UserError or StoreError.
        """
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        await self._recall.before(event, self.state)
        async with self._room:
            self._queue.put_nowait((event, answer))
            return await answer

    async def learn_groups(self, users: Iterable[str]) -> None:
        """Look up the Unix groups of these users if any rule depends on groups.

        Call this before the users submit.
        """
        if self._rules.groups_named():
            self._rules.learn(await asyncio.to_thread(self._rules.look_up, users))
        self.count_use()

    async def reload(self, path: str) -> tuple[list[str], Decoded]:
        """Put the configuration in this file in force, and return the list of changes and the decoded file.

        Raises ConfigError if the file has an error; then nothing changes. Running jobs continue. Pending jobs
        are planned again under the new rules.
        """
        decoded = await asyncio.to_thread(load, path)
        told = self._rules.adopt(decoded.config)
        self.config_lines = decoded.lines
        await self.learn_groups(self._waiting_users())
        for line in told or ["nothing has changed"]:
            log.info("configuration: %s", line)
        self._planner.wakeup.now()
        self._effects.add([AskHealth(node=name) for name in self._nodes_up()])
        await self.on_reload(decoded.config)
        return told, decoded

    def _waiting_users(self) -> list[str]:
        return sorted({self.state.jobs[job_id].user for job_id in self.state.index.pending})

    async def flushed(self, node: NodeName) -> None:
        """Wait until all effects of the changes committed so far have been sent to this node."""
        await self._effects.flushed(node)

    def post(self, event: FleetEvent) -> None:
        """Handle a message of a node."""
        name, message = event
        match message:
            case wire.Sample():  # Samples come first because nearly all messages are samples.
                self._take_sample(name, message)
            case str():
                self._put(NodeLost(name=name, reason=message.partition(":")[2].strip()))
            case wire.Welcome():
                self._put(NodeUp(name=name, welcome=message))
                self._effects.add([AskHealth(node=name)])
                self._effects.add(self._sampling.begins(name, nodes=len(self.state.nodes)))
            case stepwire.StepFence():
                self._effects.add(self._fences.take(name, message, self.state))
            case _:
                self._put(heard(name, message, received_unix=self.clock()))

    async def heard(self) -> None:
        """Wait until the messages received from nodes so far are in the state and on disk."""
        while True:
            answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
            self._queue.put_nowait((MessagesRead(), answer))
            try:
                await answer
            except UserError:
                await asyncio.sleep(RETRY_S)
            else:
                return

    async def wait_for_pass(self) -> None:
        """Wait until a pass over the present state has been made, or until no job is pending."""
        await self._planner.wait_for_pass()

    def _put(self, event: Event) -> None:
        self._queue.put_nowait((event, None))

    async def _serve(self) -> None:
        while True:
            await self._handle(await self._next_batch())

    async def _next_batch(self) -> list[Asked]:
        batch, self._owed = self._owed, []
        try:
            async with asyncio.timeout(RETRY_S if batch else None):
                batch.append(await self._queue.get())
        except TimeoutError:
            return batch
        while len(batch) < MAX_BATCH and not self._queue.empty():
            batch.append(self._queue.get_nowait())
        return batch

    async def _handle(self, batch: list[Asked]) -> None:
        """Handle a batch of events in one transaction."""
        txn = Transaction(self.state, self.clock())
        try:
            decided = self._decide(txn, batch)
            await self.commits.commit(txn.changes())
        except StoreError as error:
            self._give_up(txn, batch, error)
        except Exception:
            await self._take_apart(txn, batch)
        else:
            self._follow_up(txn, batch, decided)

    def _decide(self, txn: Transaction, batch: list[Asked]) -> Decided:
        self.tally.events += len(batch)
        outcomes = [(answer, self._reduce(txn, event, answer)) for event, answer in batch]
        steps = self.first_steps.due(self.state, txn.touched_jobs())
        outcomes += [(answer, self._reduce(txn, event, answer)) for event, answer in steps]
        batch += steps
        called_for = any(outcome is not None and outcome.replan for _, outcome in outcomes)
        replan = called_for and self.state.reacts_to_events
        swift = bug_reports.unless(txn, lambda: self._planner.succeed(txn, [event for event, _ in batch]))
        replan = replan and swift is None
        goes = replan and goes_along(self.state, outcomes)
        along = bug_reports.unless(txn, lambda: self._planner.plan_in_transaction(txn)) if goes else None
        return Decided(outcomes=outcomes, replan=replan, swift=swift, along=along)

    def _follow_up(self, txn: Transaction, batch: list[Asked], decided: Decided) -> None:
        """Send the effects and outcomes of a committed transaction, and request a pass if needed."""
        outcomes, replan = decided.outcomes, decided.replan
        self.tally.commits += 1
        self._recall.settled(self.state)
        self.diagnosis.count_jobs(self.state, txn.states_before())
        for answer, outcome in outcomes:
            if outcome is None:
                continue
            self._effects.add(outcome.effects)
            if answer is not None and not answer.done():
                answer.set_result(outcome)
        self.hub.touch(jobs=txn.touched_jobs(), nodes=self._nodes_touched(txn, batch))
        self._reservations.note_change()
        if decided.swift is not None:
            self._effects.add(decided.swift.effects)
            replan = decided.swift.replan
        if decided.along is not None:
            made, starting = decided.along
            self._effects.add(starting.effects)
            self._planner.take_reasons(made)
            replan = starting.replan
        if replan and may_rest(outcomes):
            self._planner.wakeup.after_rest()
        elif replan:
            self._planner.wakeup.now()

    def _give_up(self, txn: Transaction, batch: list[Asked], error: StoreError) -> None:
        """Roll back a batch after its commit failed.

        Clients may have seen its changes in the meantime, so the old rows are sent to them again.
        """
        jobs, nodes = list(txn.touched_jobs()), self._nodes_touched(txn, batch)
        txn.undo()
        self.tally.failed_commits += 1
        log.error("%s", error)
        for _, answer in batch:
            _fail(answer, UserError(str(error), "free some space, then try again"))
        self._owed = [asked for asked in batch if asked[1] is None]
        self._planner.wakeup.after(RETRY_S)
        self.hub.touch(jobs=jobs, nodes=nodes)

    async def _take_apart(self, txn: Transaction, batch: list[Asked]) -> None:
        """Roll back a batch that a bug interrupted before its commit, and handle its events one by one.

        Only an event that fails on its own is refused.
        """
        jobs, nodes = list(txn.touched_jobs()), self._nodes_touched(txn, batch)
        txn.undo()
        self.tally.failed_commits += 1
        self.hub.touch(jobs=jobs, nodes=nodes)
        if len(batch) == 1:
            event, answer = batch[0]
            _fail(answer, bug_reports.refusal(type(event).__name__))
            return
        bug_reports.note("a transaction")
        for asked in batch:
            await self._handle([asked])

    def _reduce(
        self, txn: Transaction, event: Event, answer: asyncio.Future[Outcome] | None
    ) -> Outcome | None:
        mark = txn.mark()
        try:
            return reduce(txn, event)
        except (UserError, InvalidTransition) as error:
            txn.undo(mark)
            if answer is None:
                log.warning("%s refused: %s", type(event).__name__, error)
            _fail(answer, error)
        except Exception:
            txn.undo(mark)
            _fail(answer, bug_reports.refusal(type(event).__name__))
            if isinstance(event, NodeUp):
                self._put(NodeLost(name=event.name, reason=NOT_UNDERSTOOD))
        return None

    def _nodes_touched(self, txn: Transaction, batch: list[Asked]) -> list[NodeName]:
        names = dict.fromkeys(txn.touched_nodes())
        for job_id in txn.touched_jobs():
            job = self.state.jobs.get(job_id)
            if job is not None and job.allocation is not None:
                names.update(dict.fromkeys(job.allocation.node_names()))
        for event, _ in batch:
            if isinstance(event, NodeUp | NodeLost):
                names[event.name] = None
        return list(names)

    def count_use(self) -> None:
        """Update `state.site`, which holds the rules in force and the usage of all users and accounts."""
        state = self.state
        state.site = state.accounting.charged(state, self._rules.site, now=self.clock())

    def _take_sample(self, name: NodeName, sample: wire.Sample) -> None:
        state = self.state
        if name not in state.nodes:
            return
        before = state.picture.blocked(state, name)
        last = state.node_status.readings.get(name)
        reading = state.node_status.readings[name] = to_reading(sample)
        others = state.picture.blocked(state, name).keys() != before.keys()
        if others and state.reacts_to_events:
            self._planner.wakeup.now()
        jobs = [job.id for job in state.jobs_on(name) if job.allocation and job.allocation.gpu_count()]
        idle = {*reading.idle, *(last.idle if last else ())}
        self.hub.touch(jobs=[*jobs, *(job_id for job_id, _ in sorted(idle))], nodes=[name])

    async def _housekeeping(self) -> None:
        while True:
            await asyncio.sleep(REPLAN_S)
            before_unix = self.clock() - self.config.keep_finished_s
            self.hub.touch(jobs=evict_finished(self.state, ended_before_unix=before_unix))
            self.hub.touch(jobs=self._told_priorities.moved(self.state.planned.priorities))
            self._effects.add([AskHealth(node=name) for name in self._inquiry.next(self._nodes_up())])
            self._set_sampling()
            self.count_use()

    def _nodes_up(self) -> list[NodeName]:
        return [name for name in self.state.nodes if self.fleet.is_up(name)]

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Let nodes send samples more often during the block, because a client watches.

        The higher rate starts at once. The lower rate returns some time after the block ends.
        """
        with self._sampling.watched():
            self._set_sampling()
            yield

    def _set_sampling(self) -> None:
        self._effects.add(self._sampling.orders(self._nodes_up(), nodes=len(self.state.nodes)))

    async def _estimate(self) -> None:
        await self.forecaster.estimate_for_ever(
            self.state, planned=self._planner.planned, tell=lambda jobs: self.hub.touch(jobs=jobs)
        )

    async def _refresh_groups(self) -> None:
        while True:
            await asyncio.sleep(self._groups_every_s)
            before = self._rules.site
            await self.learn_groups(self._waiting_users())
            if self._rules.site is not before:
                self._planner.wakeup.now()

    async def _load_needed(self) -> None:
        for job_id in sorted(needed_by_others(self.state)):
            for job in await self.store.named(job_id):
                if job.id not in self.state.jobs:
                    self.state.upsert_job(job)


async def _nothing(config: Config) -> None: ...


def _fail(answer: asyncio.Future[Outcome] | None, error: WarpdeckError) -> None:
    if answer is not None and not answer.done():
        answer.set_exception(error)
