"""Steps without a sent launch start once after a restart of the controller, and never twice."""

from __future__ import annotations

import pytest
from tests.support.core import ANN, Core, make_request

from warpdeck.controller.events.events import KillStep, LaunchStep, NodeUp, StepReported, StepRequested
from warpdeck.model import JobId, JobState, NodeName
from warpdeck.model.step import StepOptions
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire import steps as stepwire

A, B = NodeName("a"), NodeName("b")


def job_with_new_step() -> tuple[Core, JobId]:
    """Return a running job with a step that its node does not know yet."""
    core = Core("a")
    job_id = core.run(make_request())
    core.apply(
        StepRequested(
            principal=ANN, job_id=job_id, options=StepOptions(name="s", argv=("true",)), cwd="/", first=A
        )
    )
    return core, job_id


def reconnect(core: Core, *steps: stepwire.StepReport) -> list[LaunchStep]:
    """Return the steps that the controller launches when the node reconnects and reports these."""
    core.lose("a")
    agent = core.agents[A].welcome()
    welcome = wire.Welcome(build="b", inventory=agent.inventory, jobs=agent.jobs, steps=list(steps))
    found = core.apply(NodeUp(name=A, welcome=welcome)).effects
    return [effect for effect in found if isinstance(effect, LaunchStep)]


def test_a_step_that_was_never_launched_is_launched_after_a_restart() -> None:
    core, job_id = job_with_new_step()
    core.state = core.reload()
    [order] = reconnect(core)
    assert (order.node, order.job_id, order.number, order.request.options.argv) == (A, job_id, 0, ("true",))


def test_a_step_that_its_node_knows_is_not_launched_again() -> None:
    core, job_id = job_with_new_step()
    assert reconnect(core, stepwire.StepReport(job_id, 0, 0, phase="running")) == []
    assert not core.state.steps[job_id][0].encoded_request


@pytest.mark.parametrize("check", ["", "agent"])
def test_a_step_that_a_broken_agent_cannot_start_is_a_node_failure(check: str) -> None:
    core, job_id = job_with_new_step()
    report = stepwire.StepReport(job_id, 0, 0, phase="exited", message="its folder is gone", check=check)
    core.apply(StepReported(name=A, report=report))
    node, step = core.state.nodes[A], core.state.steps[job_id][0]
    assert (node.drained, node.drain_checks) == ((True, ("agent",)) if check else (False, ()))
    assert step.state is (JobState.NODE_FAIL if check else JobState.FAILED)
    assert step.exit is not None and (step.exit.code, step.exit.message) == (
        1,
        f"{A if check else ''}: its folder is gone".removeprefix(": "),
    )


def test_a_share_that_cannot_start_ends_the_step_on_other_nodes() -> None:
    core = Core("a", "b")
    job_id = core.run(make_request(nodes=2))
    step_request = StepOptions(name="s", argv=("true",), nodes_min=2, tasks=2)
    core.apply(StepRequested(principal=ANN, job_id=job_id, options=step_request, cwd="/", first=A))
    report = stepwire.StepReport(job_id, 0, 0, phase="exited", message="its folder is gone", check="agent")
    [kill] = core.apply(StepReported(name=A, report=report)).effects
    assert isinstance(kill, KillStep) and kill.node == B
    ended = stepwire.StepReport(job_id, 0, 0, phase="exited", ends=[stepwire.TaskEnded(rank=1, signal=9)])
    core.apply(StepReported(name=B, report=ended))
    assert core.state.steps[job_id][0].state is JobState.NODE_FAIL


def test_a_running_step_missing_from_its_node_has_ended() -> None:
    core, job_id = job_with_new_step()
    core.apply(StepReported(name=A, report=stepwire.StepReport(job_id, 0, 0, phase="running")))
    assert reconnect(core) == []
    assert core.state.steps[job_id][0].is_finished
