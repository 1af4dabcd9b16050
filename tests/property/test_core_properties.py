"""The reducer keeps its invariants and stores the whole state under random sequences of events."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.support.core import ANN, BOB, ROOT, Core, make_request

from warpdeck.controller.events.effects import Effect, ForgetShare, KillShare, LaunchShare
from warpdeck.controller.events.events import (
    Cancelled,
    Fenced,
    Held,
    JobCommand,
    LaunchRefused,
    NodeDrained,
    NodeResumed,
    Planned,
    Released,
    Requeued,
    Resumed,
    StartBegun,
    Suspended,
    Updated,
)
from warpdeck.controller.reducers.reduce import reduce
from warpdeck.controller.state.invariants import violations
from warpdeck.controller.state.planner_view import build_view
from warpdeck.controller.state.state import State
from warpdeck.controller.state.transaction import Transaction
from warpdeck.model import ArraySpec, Dependencies, Dependency, JobId, NodeName
from warpdeck.model.change import JobChange
from warpdeck.policy import PlannerSettings, Preempt, plan
from warpdeck.ports.caller import Principal
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire.epochs import ControllerStart

NODES = ("a", "b", "c")
nodes = st.sampled_from(NODES)
number = st.integers(1, 6)
references = st.one_of(
    number.map(str),
    st.tuples(number, st.integers(0, 5)).map(lambda pair: f"{pair[0]}_{pair[1]}"),
    st.tuples(number, st.integers(0, 3), st.integers(1, 4)).map(
        lambda three: f"{three[0]}_[{three[1]}-{three[1] + three[2]}]"
    ),
)


class Storm(RuleBasedStateMachine):
    """Random actions of users, nodes, agents and the network.

    Effects may be late, duplicated or lost with the connection.
    """

    @initialize()
    def begin(self) -> None:
        self.core = Core(*NODES)
        self.up = dict.fromkeys(NODES, True)
        self.late: list[Effect] = []
        self.reports: list[tuple[str, wire.JobReport]] = []
        self.planned: Planned | None = None
        for gpus in (0, 2, 4):
            self.core.submit(make_request(gpus=gpus))

    def send(self, effects: tuple[Effect, ...]) -> None:
        self.late += [effect for effect in effects if self.up[effect.node]]

    def report(self, name: str, report: wire.JobReport) -> None:
        self.reports.append((name, report))
        if self.up[name]:
            self.send(self.core.report(name, report).effects)

    # ---- Users

    @rule(
        gpus=st.integers(0, 4),
        count=st.integers(1, 2),
        tasks=st.sampled_from((0, 0, 2, 5)),
        hold=st.booleans(),
        requeue=st.booleans(),
        after=st.one_of(st.none(), st.tuples(st.sampled_from(("after", "afterok", "afterany")), number)),
        who=st.sampled_from((ANN, ANN, BOB)),
        exclusive_user=st.sampled_from((False, False, True)),
    )
    def submit(
        self,
        gpus: int,
        count: int,
        tasks: int,
        hold: bool,
        requeue: bool,
        after: Any,
        who: Principal,
        exclusive_user: bool,
    ) -> None:
        fields: dict[str, Any] = {"hold": hold, "requeue": requeue}
        if tasks:
            fields["array"] = ArraySpec(ranges=((0, tasks, 1),), throttle=tasks % 3)
        if after is not None and JobId(after[1]) in self.core.state.jobs:
            fields["dependencies"] = Dependencies(
                clauses=(Dependency(kind=after[0], job_id=JobId(after[1])),)
            )
        request = make_request(gpus=gpus, nodes=count, **fields)
        if exclusive_user:
            resources = msgspec.structs.replace(request.resources, share_with="user")
            request = msgspec.structs.replace(request, resources=resources)
        self.core.submit(request, who)

    @rule(
        kind=st.sampled_from((Cancelled, Held, Released, Requeued)),
        names=st.lists(references, min_size=1, max_size=3),
    )
    def order(self, kind: type[JobCommand], names: list[str]) -> None:
        self.send(self.core.apply(kind(principal=ANN, jobs=tuple(names))).effects)  # type: ignore[arg-type]

    @rule(
        names=st.lists(references, min_size=1, max_size=3),
        change=st.builds(
            JobChange,
            name=st.sampled_from((msgspec.UNSET, "other")),
            time_limit_s=st.sampled_from((msgspec.UNSET, None, 60, 600)),
            throttle=st.sampled_from((msgspec.UNSET, 0, 1)),
            nodes_min=st.sampled_from((msgspec.UNSET, 1, 2, 9)),
            comment=st.just("changed"),
        ),
    )
    def change(self, names: list[str], change: JobChange) -> None:
        self.send(self.core.apply(Updated(principal=ROOT, jobs=tuple(names), change=change)).effects)

    @rule(kind=st.sampled_from((Suspended, Resumed)), names=st.lists(references, min_size=1, max_size=3))
    def order_of_an_admin(self, kind: type[JobCommand], names: list[str]) -> None:
        self.send(self.core.apply(kind(principal=ROOT, jobs=tuple(names))).effects)  # type: ignore[arg-type]

    @rule(job=number, mode=st.sampled_from(("requeue", "suspend", "cancel")), keeps=st.booleans())
    def preempt(self, job: int, mode: str, keeps: bool) -> None:
        """Preempt a job because of a decision made on an earlier state."""
        order = Preempt(
            job_id=JobId(job), for_job_id=JobId(0), mode=mode, grace_s=9, sentence="x", keeps_gpus=keeps
        )
        self.send(self.core.apply(Planned(preempts=(order,))).effects)

    @rule()
    def plan_ahead(self) -> None:
        """Run a pass. Its starts are committed later, after other events."""
        state, now = self.core.state, self.core.now
        made = plan(build_view(state, now=now), now, PlannerSettings())
        self.planned = Planned(starts=made.starts, resumes=made.resumes, ends=made.ends)

    @rule()
    def decide(self) -> None:
        if self.planned is not None:
            self.send(self.core.apply(self.planned).effects)

    @rule()
    def run_pass_and_deliver(self) -> None:
        """Run a pass and deliver all its effects."""
        self.send(self.core.plan().effects)
        while self.late:
            self.execute(self.late.pop(0))

    # ---- Agents

    @rule(pick=st.integers(0, 50), doubled=st.booleans())
    def deliver(self, pick: int, doubled: bool) -> None:
        """Deliver one effect to its node, possibly twice."""
        if not self.late:
            return
        effect = self.late.pop(pick % len(self.late))
        for _ in range(1 + doubled):
            self.execute(effect)

    def execute(self, effect: Effect) -> None:
        agent = self.core.agents[effect.node]
        match effect:
            case LaunchShare():
                job = self.core.state.jobs[effect.job_id]
                if job.allocation is not None and effect.node in job.allocation.node_names():
                    self.report(effect.node, agent.begin((job.id, job.restarts), at=self.core.now))
            case KillShare():
                launch = (effect.job_id, effect.restarts)
                if (
                    launch in agent.jobs and agent.jobs[launch].phase == "running" and not effect.signal
                ) or launch not in agent.jobs:
                    self.report(effect.node, agent.end(launch, signal=15, cause=effect.cause))
            case ForgetShare():
                agent.jobs.pop((effect.job_id, effect.restarts), None)

    @rule(name=nodes, pick=st.integers(0, 50), code=st.sampled_from((0, 0, 1)))
    def process_ends(self, name: str, pick: int, code: int) -> None:
        agent = self.core.agents[NodeName(name)]
        live = [launch for launch, report in agent.jobs.items() if report.phase == "running"]
        if live:
            self.core.now += 1
            self.report(name, agent.end(live[pick % len(live)], exit_code=code, ended_at=self.core.now))

    @rule(pick=st.integers(0, 200))
    def old_report_repeats(self, pick: int) -> None:
        if self.reports:
            name, report = self.reports[pick % len(self.reports)]
            if self.up[name]:
                self.send(self.core.report(name, report).effects)

    @rule(pick=st.integers(0, 50))
    def launch_is_refused(self, pick: int) -> None:
        launches = [effect for effect in self.late if isinstance(effect, LaunchShare)]
        if not launches:
            return
        effect = launches[pick % len(launches)]
        self.late.remove(effect)
        job = self.core.state.jobs[effect.job_id]
        if (job.id, job.restarts) not in self.core.agents[effect.node].jobs:
            failed = wire.LaunchFailed(job_id=job.id, restarts=job.restarts, message="no")
            self.send(self.core.apply(LaunchRefused(name=effect.node, failed=failed)).effects)

    # ---- Nodes

    @rule(name=nodes)
    def connection_breaks(self, name: str) -> None:
        self.up[name] = False
        self.late = [effect for effect in self.late if effect.node != name]
        self.core.lose(name)

    @rule(name=nodes, reboots=st.booleans())
    def node_reconnects(self, name: str, reboots: bool) -> None:
        if self.up[name]:
            self.connection_breaks(name)
        if reboots:
            self.core.agents[NodeName(name)].reboot()
        self.up[name] = True
        self.send(self.core.up(name).effects)

    @rule(name=nodes, drained=st.booleans())
    def drain_or_resume(self, name: str, drained: bool) -> None:
        node = NodeName(name)
        self.core.apply(NodeDrained(name=node, reason="x") if drained else NodeResumed(name=node))

    # ---- The controller

    @rule()
    def another_controller_is_obeyed(self) -> None:
        """A fenced controller plans nothing, also after a restart, until it takes over."""
        starts = self.core.state.starts
        self.core.apply(Fenced(holder=ControllerStart(epoch=starts.own.epoch + 1, instance="other")))
        assert not self.core.state.has_to_plan and not self.core.reload().has_to_plan
        epoch = starts.own.epoch + 2
        self.core.apply(StartBegun(start=ControllerStart(epoch=epoch, instance="own")))
        assert self.core.reload().starts.own.epoch == epoch and self.core.state.may_start

    @rule()
    def controller_is_killed(self) -> None:
        """Load the state of the old controller into a new one, which connects to the nodes again."""
        self.core.state = self.core.reload()
        self.late.clear()
        for name in NODES:
            if self.up[name]:
                self.send(self.core.up(name).effects)

    @rule(names=st.lists(references, min_size=1, max_size=3))
    def commit_fails(self, names: list[str]) -> None:
        before = msgspec.msgpack.encode(durable(self.core.state))
        txn = Transaction(self.core.state, self.core.now)
        reduce(txn, Cancelled(principal=ANN, jobs=tuple(names)))
        txn.rollback()
        assert msgspec.msgpack.encode(durable(self.core.state)) == before

    # ---- Invariants

    @invariant()
    def invariants_hold(self) -> None:
        if hasattr(self, "core"):
            assert violations(self.core.state) == []
            assert durable(self.core.reload()) == durable(self.core.state)


def durable(state: State) -> Any:
    """Return the part of the state that a restart must restore."""
    return (
        sorted(state.jobs.items()),
        sorted(state.nodes.items()),
        state.next_job_id,
        sorted(state.index.pending),
        sorted(state.index.active),
    )


Storm.TestCase.settings = settings(max_examples=60, stateful_step_count=80, deadline=None)
TestStorm = Storm.TestCase
