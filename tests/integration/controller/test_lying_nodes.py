"""A node's messages are trusted about its own jobs and hardware, but not about other jobs or impossible
times.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.core import ANN, Core, make_request
from tests.support.served import served

from warpdeck.controller.events.events import (
    CollectOutput,
    Event,
    HealthTold,
    LaunchRefused,
    LaunchRevoked,
    NodeWarning,
    Reported,
    Requeued,
    StepAsked,
    StepReported,
    Submitted,
)
from warpdeck.model import JobId, JobState, NodeName
from warpdeck.model.step import StepAsk
from warpdeck.sim.demo import NoOutputs
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire import steps as stepwire

A, LIAR = NodeName("a"), NodeName("liar")
SAID = "I was there"


@pytest.mark.parametrize(
    "event",
    [
        NodeWarning(name=LIAR, remark=wire.Remark(job_id=1, restarts=0, text=SAID)),
        LaunchRefused(name=LIAR, failed=wire.LaunchFailed(job_id=1, restarts=0, message=SAID, again=True)),
        LaunchRevoked(name=LIAR, launches=((JobId(1), 0),)),
        Reported(name=LIAR, report=wire.JobReport(1, 0, phase="exited", message=SAID)),
    ],
    ids=lambda event: type(event).__name__,
)
def test_of_a_job_elsewhere_a_nodes_word_changes_nothing(event: Event) -> None:
    core = Core("a", "liar")
    job_id = core.submit(make_request(gpus=4))
    core.plan()
    before = core.job(job_id)
    assert before.state is JobState.CONFIGURING and before.shares[0].node == A
    outcome = core.apply(event)
    assert core.job(job_id) is before
    assert not [effect for effect in outcome.effects if isinstance(effect, CollectOutput)]


def test_output_of_a_job_is_not_taken_from_a_node_on_which_it_is_not() -> None:
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


async def test_output_of_an_earlier_start_is_taken_from_the_node_that_had_it_alone(short_tmp: Path) -> None:
    collected = Collected()
    async with served(short_tmp / "h", outputs=collected) as site:
        a = await site.add_node(A)
        await site.controller.apply(Submitted(who=ANN, request=make_request(gpus=4)))
        await site.report(A, a.begin((1, 0), at=1.0))
        b = await site.add_node(LIAR)
        await site.controller.apply(Requeued(who=ANN, jobs=("1",)))
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


def test_a_node_tells_the_ends_of_its_own_tasks_alone() -> None:
    core = Core("a", "liar")
    job_id = core.run(make_request(nodes=2, gpus=4))
    core.apply(StepAsked(who=ANN, job_id=job_id, ask=StepAsk(name="s", tasks=2), cwd="/", first=A))
    ends = [stepwire.TaskEnded(rank=rank, code=7) for rank in (0, 1, 1, 99)]
    said = stepwire.StepReport(job_id, 0, 0, phase="running", ends=ends)
    core.apply(StepReported(name=LIAR, report=said))
    step = core.state.steps[job_id][0]
    assert [(part.node, [end.rank for end in part.ends]) for part in step.parts] == [(A, []), (LIAR, [1])]


def test_a_node_has_gpus_of_its_own_drained_alone() -> None:
    core = Core("a", "liar")
    faults = [
        wire.Fault(number=number, at_unix=2e9, check="xid", gpu=0, uuid=uuid, message="bad", xid=79)
        for number, uuid in enumerate(["liar-1", "a-1", "made up"], 1)
    ]
    told = wire.Health(at_unix=1000.0, faults=faults)
    core.apply(HealthTold(name=LIAR, health=told, received_unix=1000.0))
    assert [drain.uuid for drain in core.state.nodes[LIAR].gpu_drains] == ["liar-1"]
    assert not core.state.nodes[A].gpu_drains


def test_a_job_has_not_begun_before_it_could() -> None:
    core = Core("a")
    core.now = 1e9
    job_id = core.submit()
    core.plan()
    core.report("a", wire.JobReport(job_id, 0, phase="running", started_at=1.0))
    assert core.job(job_id).start_at_unix == core.now
