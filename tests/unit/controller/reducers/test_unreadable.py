"""Jobs with unreadable records: running parts continue, and their resources are given to no other job."""

from __future__ import annotations

from tests.support.core import ANN, Core, make_request

from warpdeck.controller.events.events import NodeResumed
from warpdeck.model import JobId, JobState, NodeName
from warpdeck.ports.store import UnreadableRow


def test_an_unreadable_running_job_is_not_killed_and_drains_its_node() -> None:
    core = Core("a")
    lost = core.run(make_request(gpus=4))
    core.state.evict_job(lost)
    core.state.unreadable = (UnreadableRow(table="jobs", key=str(lost)),)
    core.lose("a")
    assert core.kills(core.up("a")) == []
    node = core.state.nodes[NodeName("a")]
    assert node.drained and f"Job {lost} runs here" in node.reason
    waiting = core.submit(make_request(gpus=4), who=ANN)
    core.plan()
    assert core.job(waiting).state is JobState.PENDING
    core.report("a", core.agents[NodeName("a")].end((lost, 0)))
    core.apply(NodeResumed(name=NodeName("a")))
    core.plan()
    assert core.job(waiting).state is not JobState.PENDING


def test_a_launch_of_an_unknown_job_is_still_ended() -> None:
    core = Core("a")
    stray = core.run(make_request(gpus=4))
    core.state.evict_job(stray)
    core.state.unreadable = (UnreadableRow(table="jobs", key=str(JobId(stray + 1))),)
    core.lose("a")
    assert core.kills(core.up("a")) == [("a", "cancelled", 0)]
