"""A node's messages are trusted about its own jobs and hardware, but not about other jobs or impossible
times.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.core import ANN, Core, make_request
from tests.support.served import served

from warpdeck.controller.events.effects import CollectOutput
from warpdeck.controller.events.events import (
    Event,
    HealthReported,
    LaunchRefused,
    LaunchRevoked,
    NodeWarning,
    Reported,
    Requeued,
    StepReported,
    StepRequested,
    Submitted,
)
from warpdeck.model import JobId, JobState, NodeName
from warpdeck.model.step import StepOptions
from warpdeck.sim.demo import NoOutputs
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire import steps as stepwire

A, UNTRUSTED = NodeName("a"), NodeName("liar")
VERBATIM = "I was there"


@pytest.mark.parametrize(
    "event",
    [
        NodeWarning(name=UNTRUSTED, message=wire.Remark(job_id=1, restarts=0, text=VERBATIM)),
        LaunchRefused(
            name=UNTRUSTED, failed=wire.LaunchFailed(job_id=1, restarts=0, message=VERBATIM, again=True)
        ),
        LaunchRevoked(name=UNTRUSTED, launches=((JobId(1), 0),)),
        Reported(name=UNTRUSTED, report=wire.JobReport(1, 0, phase="exited", message=VERBATIM)),
    ],
    ids=lambda event: type(event).__name__,
)
def test_reports_about_jobs_of_other_nodes_change_nothing(event: Event) -> None:
    core = Core("a", "liar")
    job_id = core.submit(make_request(gpus=4))
    core.plan()
    before = core.job(job_id)
    assert before.state is JobState.CONFIGURING and before.shares[0].node == A
    outcome = core.apply(event)
    assert core.job(job_id) is before
    assert not [effect for effect in outcome.effects if isinstance(effect, CollectOutput)]


def test_output_of_a_job_is_accepted_only_from_its_nodes() -> None:
    core = Core("a", "liar")
    job_id = core.run(make_request(gpus=4))
    for restarts in (0, 1):
        gone = wire.JobReport(job_id, restarts, phase="exited", stdout_path="spool:out")
        outcome = core.report("liar", gone)
        assert not [effect for effect in outcome.effects if isinstance(effect, CollectOutput)]


class Collected(NoOutputs):
    """Records the jobs and starts whose output was requested."""

    def __init__(self) -> None:
        self.begun: list[tuple[JobId, int, NodeName]] = []

    def begin(self, job_id: JobId, restarts: int, node: NodeName, **_: Any) -> None:
        self.begun.append((job_id, restarts, node))


async def test_output_of_an_earlier_start_is_accepted_only_from_its_node(short_tmp: Path) -> None:
    collected = Collected()
    async with served(short_tmp / "h", outputs=collected) as site:
        a = await site.add_node(A)
        await site.controller.apply(Submitted(principal=ANN, request=make_request(gpus=4)))
        await site.report(A, a.begin((1, 0), at=1.0))
        b = await site.add_node(UNTRUSTED)
        await site.controller.apply(Requeued(principal=ANN, jobs=("1",)))
        await site.report(A, a.end((1, 0), cause="requeued"))
        stray = wire.JobReport(1, 0, phase="exited", stdout_path="spool:out")
        assert site.controller.state.jobs[JobId(1)].restarts == 1
        for node in (b, a):
            site.controller.nodes.post((node.name, stray))
        await site.until(lambda: bool(collected.begun))
        await site.until(
            lambda: len([each for each in site.fleet.sent if isinstance(each, wire.Forget)]) >= 3
        )
        assert collected.begun == [(1, 0, A)]


def test_a_node_can_report_only_ends_of_its_own_tasks() -> None:
    core = Core("a", "liar")
    job_id = core.run(make_request(nodes=2, gpus=4))
    core.apply(
        StepRequested(principal=ANN, job_id=job_id, options=StepOptions(name="s", tasks=2), cwd="/", first=A)
    )
    ends = [stepwire.TaskEnded(rank=rank, code=7) for rank in (0, 1, 1, 99)]
    report = stepwire.StepReport(job_id, 0, 0, phase="running", ends=ends)
    core.apply(StepReported(name=UNTRUSTED, report=report))
    step = core.state.steps[job_id][0]
    assert [(part.node, [end.rank for end in part.ends]) for part in step.parts] == [
        (A, []),
        (UNTRUSTED, [1]),
    ]


def test_a_node_can_drain_only_its_own_gpus() -> None:
    core = Core("a", "liar")
    faults = [
        wire.Fault(number=number, at_unix=2e9, check="xid", gpu=0, uuid=uuid, message="bad", xid=79)
        for number, uuid in enumerate(["liar-1", "a-1", "made up"], 1)
    ]
    reported = wire.Health(at_unix=1000.0, faults=faults)
    core.apply(HealthReported(name=UNTRUSTED, health=reported, received_unix=1000.0))
    assert [drain.uuid for drain in core.state.nodes[UNTRUSTED].gpu_drains] == ["liar-1"]
    assert not core.state.nodes[A].gpu_drains


def test_an_impossible_start_time_is_corrected() -> None:
    core = Core("a")
    core.now = 1e9
    job_id = core.submit()
    core.plan()
    core.report("a", wire.JobReport(job_id, 0, phase="running", started_at=1.0))
    assert core.job(job_id).start_at_unix == core.now
