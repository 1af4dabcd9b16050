"""Run the reducer on a small cluster with a store and simulated agents, without a controller or a clock."""

from __future__ import annotations

import platform
from collections.abc import Coroutine
from typing import Any, TypeVar

from warpdeck.controller.events.effects import Effect, KillShare, LaunchShare, Outcome
from warpdeck.controller.events.events import Event, NodeAdded, NodeLost, NodeUp, Planned, Reported, Submitted
from warpdeck.controller.reducers.reduce import reduce
from warpdeck.controller.state.planner_view import build_view
from warpdeck.controller.state.state import State
from warpdeck.controller.state.transaction import Transaction
from warpdeck.model import GpuRequest, Job, JobId, Node, NodeName, Request, Resources
from warpdeck.policy import PlannerSettings, plan
from warpdeck.ports.caller import Principal
from warpdeck.store import MemoryStore
from warpdeck_agent.wire import messages as wire

GIB = 2**30
ANN, BOB, ROOT = (
    Principal(user="ann", uid=1),
    Principal(user="bob", uid=2),
    Principal(user="root", uid=0, admin=True),
)
NEW_ANN = Principal(user="ann", uid=3)
"""A user with the name of a deleted account, but another uid."""
T = TypeVar("T")
Launch = tuple[int, int]
"""Job id and number of restarts."""


def result_of(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("the coroutine waits")


def make_request(name: str = "job", *, gpus: int = 0, nodes: int = 1, **fields: Any) -> Request:
    """Return a batch request for `gpus` GPUs on each of its nodes."""
    resources = Resources(
        nodes_min=nodes, nodes_max=nodes, gpus=GpuRequest(per_node=gpus) if gpus else GpuRequest()
    )
    return Request(**{"name": name, "script": "#!/bin/sh\n", "resources": resources, **fields})


class Agent:
    """State of a node's agent. It never starts the same launch twice."""

    def __init__(self, name: str) -> None:
        self.name = NodeName(name)
        self.boots = 1
        self.jobs: dict[Launch, wire.JobReport] = {}
        self.begun: list[Launch] = []

    def welcome(self) -> wire.Welcome:
        gpus = [
            wire.GpuInfo(index=number, uuid=f"{self.name}-{number}", name="NVIDIA H100", mem_bytes=80 * GIB)
            for number in range(4)
        ]
        found = wire.Inventory(
            hostname=self.name,
            boot_id=f"boot{self.boots}",
            arch=platform.machine(),
            cpus=16,
            mem_bytes=64 * GIB,
            gpus=gpus,
        )
        return wire.Welcome(build="b", inventory=found, jobs=list(self.jobs.values()))

    def begin(self, launch: Launch, *, at: float = 0.0) -> wire.JobReport:
        """Start the launch, or repeat its last report."""
        if launch not in self.jobs:
            assert launch not in self.begun, f"{self.name} received launch {launch} a second time"
            self.begun.append(launch)
            self.jobs[launch] = wire.JobReport(*launch, phase="running", started_at=at)
        return self.jobs[launch]

    def end(self, launch: Launch, **facts: Any) -> wire.JobReport:
        """End the launch's process and return the report."""
        report = wire.JobReport(*launch, **{"phase": "exited", **facts})
        self.jobs[launch] = report
        return report

    def reboot(self) -> None:
        """Forget the running launches, like a node that reboots."""
        self.boots += 1
        self.jobs = {
            launch: report if report.phase == "exited" else wire.JobReport(*launch, phase="lost")
            for launch, report in self.jobs.items()
        }


class Core:
    """The controller's state, with a store and agents. Tests apply events to it."""

    def __init__(self, *nodes: str) -> None:
        self.store = MemoryStore()
        self.state = State()
        self.now = 1000.0
        self.agents = {NodeName(name): Agent(name) for name in nodes}
        for name in self.agents:
            self.apply(NodeAdded(node=Node(name=name)))
            self.up(name)

    def apply(self, event: Event) -> Outcome:
        """Reduce and commit an event. If it raises UserError, nothing changes."""
        txn = Transaction(self.state, self.now)
        try:
            outcome = reduce(txn, event)
        except BaseException:
            txn.rollback()
            raise
        result_of(self.store.commit(txn.changes()))
        return outcome

    def reload(self) -> State:
        """Return the state that a restarted controller would load."""
        state = State()
        state.load(result_of(self.store.load(finished_since_unix=0.0)))
        return state

    def stored_job(self, job_id: int) -> Job:
        """Return the job that a restarted controller would load."""
        return self.reload().jobs[JobId(job_id)]

    # ---- Shorthand

    def submit(
        self, request: Request | None = None, who: Principal = ANN, ended: tuple[Job, ...] = ()
    ) -> JobId:
        outcome = self.apply(Submitted(principal=who, request=request or make_request(), ended=ended))
        assert outcome.job is not None
        return outcome.job.id

    def job(self, job_id: int) -> Job:
        return self.state.jobs[JobId(job_id)]

    def up(self, name: str) -> Outcome:
        return self.apply(NodeUp(name=NodeName(name), welcome=self.agents[NodeName(name)].welcome()))

    def lose(self, name: str) -> Outcome:
        return self.apply(NodeLost(name=NodeName(name), reason="cut"))

    def plan(self) -> Outcome:
        """Run one planning pass and commit it."""
        made = plan(
            build_view(self.state, now=self.now), self.now, PlannerSettings(kill_invalid_dependency=False)
        )
        self.state.planned.pending_reasons.update(made.pending_reasons)
        return self.apply(
            Planned(starts=made.starts, preempts=made.preempts, resumes=made.resumes, ends=made.ends)
        )

    def report(self, name: str, report: wire.JobReport) -> Outcome:
        return self.apply(Reported(name=NodeName(name), report=report))

    def launch(self, effects: tuple[Effect, ...]) -> list[LaunchShare]:
        """Execute launches: every agent starts its share and reports it."""
        launches = [effect for effect in effects if isinstance(effect, LaunchShare)]
        for effect in launches:
            job = self.job(effect.job_id)
            self.report(effect.node, self.agents[effect.node].begin((job.id, job.restarts), at=self.now))
        return launches

    def run(self, request: Request | None = None, who: Principal = ANN) -> JobId:
        """Submit a job and bring it to RUNNING."""
        job_id = self.submit(request, who)
        self.launch(self.plan().effects)
        return job_id

    def end(self, job_id: int, **facts: Any) -> Outcome:
        """End all shares of the job in the same way, and return the outcome of the last one."""
        job = self.job(job_id)
        outcomes = [
            self.report(share.node, self.agents[share.node].end((job.id, job.restarts), **facts))
            for share in job.shares
        ]
        return outcomes[-1]

    def kills(self, outcome: Outcome) -> list[tuple[str, str, int]]:
        """Return (node, cause, signal) of each kill in the outcome."""
        return [
            (effect.node, effect.cause, effect.signal)
            for effect in outcome.effects
            if isinstance(effect, KillShare)
        ]
