"""Prefetched array tasks: in any order of events, each slot has one holder and no task runs twice.

Connections deliver in order, are slow, and may be cut at any time with messages in flight. Agents and the
controller are killed, another user's job arrives, and any prefetched task may be revoked at any time.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.support.core import ANN, BOB, Core, Launch, make_request

from warpdeck.controller.events.effects import Effect, ForgetShare, KillShare, LaunchShare, RevokeLaunches
from warpdeck.controller.events.events import (
    Cancelled,
    Held,
    LaunchRefused,
    LaunchRevoked,
    NodeDrained,
    NodeResumed,
    Planned,
    Prefetch,
    Released,
    Reported,
)
from warpdeck.controller.reducers.array_fast_path import ArrayFastPath
from warpdeck.controller.state.invariants import violations
from warpdeck.controller.state.planner_view import build_view
from warpdeck.model import ArraySpec, JobId, NodeName, iter_tasks
from warpdeck.policy import PlannerSettings, plan
from warpdeck_agent.wire import messages as wire

NODES = ("a", "b")
GPUS = 4
TAKES = 2
"""GPUs of each task, so that each node has two slots."""
nodes = st.sampled_from(NODES)
pick = st.integers(0, 99)


class Host:
    """A node: its running tasks, its prefetched tasks, and both directions of its connection."""

    def __init__(self) -> None:
        self.up = True
        self.orders: list[Any] = []
        self.messages: list[Any] = []
        self.running: set[Launch] = set()
        self.prefetched: dict[Launch, Launch] = {}
        """The predecessor of each prefetched launch."""
        self.known: dict[Launch, wire.JobReport] = {}
        self.begun: list[Launch] = []

    def send(self, message: Any) -> None:
        if self.up:
            self.messages.append(message)

    def begin(self, launch: Launch) -> None:
        assert launch not in self.begun, f"{launch} starts a second time"
        self.begun.append(launch)
        self.running.add(launch)
        self.known[launch] = wire.JobReport(*launch, phase="running", started_at=1.0)
        assert len(self.running) * TAKES <= GPUS, f"a slot is held twice: {self.running}"
        self.send(self.known[launch])

    def end(self, launch: Launch, **facts: Any) -> None:
        self.running.remove(launch)
        self.known[launch] = wire.JobReport(*launch, phase="exited", started_at=1.0, ended_at=2.0, **facts)
        follower = self.prefetched.pop(launch, None)
        if follower is not None:
            self.begin(follower)  # before the end is reported, as in the agent
        self.send(self.known[launch])

    def drop(self, first: Launch) -> list[Launch]:
        """Remove a prefetched launch and all its successors."""
        before = next((each for each, behind in self.prefetched.items() if behind == first), None)
        if before is None:
            return []
        del self.prefetched[before]
        return [first, *(self.drop(self.prefetched[first]) if first in self.prefetched else [])]

    def revoke(self, launches: list[Launch]) -> None:
        dropped = [each for launch in launches for each in self.drop(launch)]
        if dropped:
            self.send(dropped)


class PrefetchMachine(RuleBasedStateMachine):
    """Two nodes with two slots each, an array on them, and all possible interruptions."""

    @initialize(tasks=st.integers(8, 30))
    def begin(self, tasks: int) -> None:
        self.core = Core(*NODES)
        self.hosts = {NodeName(name): Host() for name in NODES}
        self.array = self.core.submit(make_request(gpus=TAKES, array=ArraySpec(ranges=((0, tasks, 1),))))
        self.run_pass()

    def send(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            host = self.hosts[effect.node]
            if not host.up:
                continue
            if isinstance(effect, LaunchShare):
                job = self.core.state.jobs[effect.job_id]
                if job.allocation is None or job.is_finished:
                    continue
                first = None if job.prefetched_after is None else self.core.state.jobs[job.prefetched_after]
                key = (job.id, job.restarts)
                host.orders.append((key, None if first is None else (first.id, first.restarts)))
            else:
                host.orders.append(effect)

    # ---- The controller

    @rule()
    def run_pass(self) -> None:
        """Run a pass like the controller.

        If there is anything to decide, prefetched launches that may not have started are revoked.
        """
        state, now = self.core.state, self.core.now
        made = plan(build_view(state, now=now), now, PlannerSettings(kill_invalid_dependency=False))
        fast_path = ArrayFastPath()
        fast_path.learn(state, made, now)
        if fast_path.trusted is None:
            self.revoke_all()
        self.send(self.core.apply(Planned(starts=made.starts)).effects)

    @rule()
    def revoke_all(self) -> None:
        for name, host in self.hosts.items():
            keys = tuple(
                (job.id, job.restarts) for job in self.core.state.prefetched_to(name) if job.is_prefetched
            )
            if keys and host.up:
                host.orders.append(RevokeLaunches(node=name, launches=keys))

    @rule(which=pick, count=st.integers(1, 3))
    def prefetch(self, which: int, count: int) -> None:
        """Prefetch tasks behind the last one of a slot."""
        state = self.core.state
        rest = state.jobs[self.array]
        lasts = [
            job.id
            for job in state.jobs.values()
            if job.allocation is not None and job.id not in state.index.successor
        ]
        if not lasts or not rest.is_folded_array:
            return
        tasks = tuple(iter_tasks(rest.pending_tasks))[:count]
        ahead = Prefetch(job_id=rest.id, after=lasts[which % len(lasts)], tasks=tasks)
        self.send(self.core.apply(Planned(prefetches=(ahead,))).effects)

    @rule(kind=st.sampled_from((Cancelled, Held, Released)), which=pick)
    def order(self, kind: Any, which: int) -> None:
        ids = sorted({job.array_job_id for job in self.core.state.jobs.values()})
        task = f"_{which % 9}" if which % 3 == 0 else ""
        self.send(self.core.apply(kind(principal=ANN, jobs=(f"{ids[which % len(ids)]}{task}",))).effects)

    @rule(gpus=st.sampled_from((2, 2, 4)))
    def another_user_submits(self, gpus: int) -> None:
        if gpus == TAKES:  # running tasks are counted in slots
            self.core.submit(make_request(gpus=TAKES), BOB)
        self.run_pass()

    @rule(name=nodes, drained=st.booleans())
    def drain_or_resume(self, name: str, drained: bool) -> None:
        node = NodeName(name)
        self.core.apply(NodeDrained(name=node, reason="x") if drained else NodeResumed(name=node))

    @rule()
    def controller_is_killed(self) -> None:
        self.core.state = self.core.reload()
        for name in NODES:
            self.connection_is_cut(name)
            self.node_reconnects(name)

    # ---- Nodes

    @rule(name=nodes)
    @precondition(lambda self: any(host.orders for host in self.hosts.values()))
    def order_arrives(self, name: str) -> None:
        host = self.hosts[NodeName(name)]
        if not host.orders:
            return
        order = host.orders.pop(0)
        if isinstance(order, tuple):
            self.launch(host, *order)
        elif isinstance(order, RevokeLaunches):
            host.revoke(list(order.launches))
        elif isinstance(order, KillShare):
            self.kill(host, (order.job_id, order.restarts), order.cause)
        elif isinstance(order, ForgetShare):
            host.known.pop((order.job_id, order.restarts), None)

    def launch(self, host: Host, key: Launch, behind: Launch | None) -> None:
        if key in host.known:
            host.send(host.known[key])
        elif key in host.prefetched.values():
            return
        elif behind is not None and (behind in host.running or behind in host.prefetched.values()):
            host.prefetched[behind] = key
        elif behind is not None and behind not in host.known:
            host.send([key])  # its predecessor is no longer prefetched
        else:
            host.begin(key)

    def kill(self, host: Host, key: Launch, cause: str) -> None:
        if key in host.running:
            host.end(key, signal=15, cause=cause)
        elif key in host.prefetched.values():
            first, *others = host.drop(key)
            host.send(wire.JobReport(*first, phase="exited", cause=cause))
            if others:
                host.send(others)

    @rule(name=nodes, which=pick)
    def process_ends(self, name: str, which: int) -> None:
        host = self.hosts[NodeName(name)]
        if host.running:
            self.core.now += 1
            host.end(sorted(host.running)[which % len(host.running)])

    @rule(name=nodes)
    def task_waits_too_long(self, name: str) -> None:
        host = self.hosts[NodeName(name)]
        host.revoke(list(host.prefetched.values())[:1])

    @rule(name=nodes, count=st.integers(1, 4))
    def reports_arrive(self, name: str, count: int) -> None:
        host = self.hosts[NodeName(name)]
        node = NodeName(name)
        for message in host.messages[:count]:
            if isinstance(message, list):
                keys = tuple((JobId(job_id), restarts) for job_id, restarts in message)
                self.send(self.core.apply(LaunchRevoked(name=node, launches=keys)).effects)
            elif isinstance(message, wire.LaunchFailed):
                self.send(self.core.apply(LaunchRefused(name=node, failed=message)).effects)
            else:
                self.send(self.core.apply(Reported(name=node, report=message)).effects)
        del host.messages[:count]

    @rule(name=nodes)
    def connection_is_cut(self, name: str) -> None:
        host = self.hosts[NodeName(name)]
        host.up = False
        host.orders.clear()
        host.messages.clear()
        self.core.lose(name)

    @rule(name=nodes, agent=st.sampled_from(("lives", "lives", "killed", "rebooted")))
    def node_reconnects(self, name: str, agent: str = "lives") -> None:
        host = self.hosts[NodeName(name)]
        self.connection_is_cut(name)
        if agent != "lives":
            host.prefetched.clear()
        agent_state = self.core.agents[NodeName(name)]
        if agent == "rebooted":
            agent_state.boots += 1
            for launch in host.running:
                host.known[launch] = wire.JobReport(*launch, phase="lost")
            host.running.clear()
        host.up = True
        agent_state.jobs = dict(reversed(host.known.items()))  # in any order
        self.send(self.core.up(name).effects)

    # ---- Invariants

    @invariant()
    def invariants_hold(self) -> None:
        if hasattr(self, "core"):
            assert violations(self.core.state) == []
            assert sorted(self.core.reload().index.successor.items()) == sorted(
                self.core.state.index.successor.items()
            )

    def teardown(self) -> None:
        """Deliver all events and check that every task ends."""
        if not hasattr(self, "core"):
            return
        for name in NODES:
            self.core.apply(NodeResumed(name=NodeName(name)))
            self.node_reconnects(name)
        held = sorted({job.array_job_id for job in self.core.state.jobs.values() if job.held})
        self.core.apply(Released(principal=ANN, jobs=tuple(map(str, held))))
        self.core.apply(Released(principal=BOB, jobs=tuple(map(str, held))))
        for _ in range(400):
            if all(job.is_finished for job in self.core.state.jobs.values()):
                return
            self.run_pass()
            for name in NODES:
                host = self.hosts[NodeName(name)]
                while host.orders:
                    self.order_arrives(name)
                self.process_ends(name, 0)
                self.reports_arrive(name, 99)
        left = [
            (job.label(), job.state, job.prefetched_after)
            for job in self.core.state.jobs.values()
            if not job.is_finished
        ]
        raise AssertionError(f"jobs never end: {left}")


PrefetchMachine.TestCase.settings = settings(max_examples=10, stateful_step_count=50, deadline=None)
TestPrefetch = PrefetchMachine.TestCase
