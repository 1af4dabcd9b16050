"""Heterogeneous jobs in the reducer: one submission, one start, one end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support.core import ANN, ROOT, Core, make_request
from tests.support.served import served

from warpdeck.base.errors import UserError
from warpdeck.controller.events.effects import KillShare, LaunchShare, Outcome
from warpdeck.controller.events.events import (
    Cancelled,
    Held,
    LaunchRefused,
    NodeDrained,
    Planned,
    Released,
    Requeued,
    Submitted,
)
from warpdeck.controller.loop.controller import Controller
from warpdeck.controller.loop.housekeeping import evict_finished
from warpdeck.model import ArraySpec, JobState, NodeName, Request
from warpdeck.model.request import Resources
from warpdeck.notation.options.directives import MAX_COMPONENTS
from warpdeck_agent.wire import messages as wire

PENDING, RUNNING, CONFIGURING = JobState.PENDING, JobState.RUNNING, JobState.CONFIGURING
COMPLETING, CANCELLED = JobState.COMPLETING, JobState.CANCELLED


def part(cpus: int, **fields: Any) -> Request:
    return make_request(resources=Resources(tasks=1, cpus_per_task=cpus), **fields)


def submit(core: Core, *requests: Request) -> int:
    first, *others = requests
    outcome = core.apply(Submitted(principal=ANN, request=first, components=tuple(others)))
    assert outcome.job is not None
    return outcome.job.id


def states(core: Core | Controller) -> dict[str, JobState]:
    return {job.label(): job.state for _, job in sorted(core.state.jobs.items())}


def with_one_node_away() -> Core:
    """Nodes with enough CPUs for two components of 10 and 12 CPUs, of which one is not connected."""
    core = Core("a", "b")
    core.apply(NodeDrained(name=NodeName("b"), reason="bad fan"))
    return core


def running(core: Core) -> None:
    """Run a job with two components on two nodes."""
    submit(core, part(10, name="first"), part(12, name="second"))
    core.launch(core.plan().effects)
    assert states(core) == {"1+0": RUNNING, "1+1": RUNNING}


def end_all(core: Core, outcome: Outcome, **facts: Any) -> None:
    """Let the agents execute the kills of the outcome."""
    for effect in outcome.effects:
        if isinstance(effect, KillShare):
            launch = (effect.job_id, effect.restarts)
            core.report(effect.node, core.agents[effect.node].end(launch, cause=effect.cause, **facts))


def test_all_components_have_consecutive_ids() -> None:
    core = Core("a")
    core.submit()
    assert submit(core, part(1, script="#!/bin/sh\nfirst"), part(2), part(3)) == 2
    jobs = [core.job(number) for number in (2, 3, 4)]
    assert [job.label() for job in jobs] == ["2+0", "2+1", "2+2"]
    assert {job.component.id_set() for job in jobs if job.component} == {"2-4"}
    assert [job.request.script for job in jobs] == ["#!/bin/sh\nfirst", "", ""]
    assert [job.request.resources.cpus_per_task for job in core.reload().jobs.values()] == [1, 1, 2, 3]
    assert core.reload().named(core.job(2).id)[2].label() == "2+2"


@pytest.mark.parametrize(
    ("others", "text"),
    [
        ([part(64)], "can never start"),
        ([part(10), part(10)], "can never start: its 3 components must start together"),
        ([make_request(array=ArraySpec(ranges=((0, 3, 1),)))], "cannot be an array"),
        ([part(1)] * MAX_COMPONENTS, "the maximum is 128"),
    ],
)
def test_an_invalid_component_refuses_the_whole_job(others: list[Request], text: str) -> None:
    core = Core("a")
    with pytest.raises(UserError, match=text):
        submit(core, part(1), *others)
    assert not core.state.jobs and not core.reload().jobs and core.submit() == 1


def test_all_components_start_in_one_transaction() -> None:
    core = Core("a", "b")
    submit(core, part(10), part(12))
    outcome = core.plan()
    assert states(core) == {"1+0": CONFIGURING, "1+1": CONFIGURING}
    assert sum(isinstance(effect, LaunchShare) for effect in outcome.effects) == 2
    assert {job.state for job in core.reload().jobs.values()} == {CONFIGURING}


def test_no_component_starts_if_one_no_longer_fits() -> None:
    from warpdeck.controller.state.planner_view import build_view
    from warpdeck.policy import PlannerSettings, plan

    core = Core("a", "b")
    submit(core, part(10), part(12))
    new_plan = plan(build_view(core.state, now=core.now), core.now, PlannerSettings())
    assert len(new_plan.starts) == 2
    drained = new_plan.starts[0].allocation.shares[0].node
    core.apply(NodeDrained(name=drained, reason="bad fan"))
    for starts in (new_plan.starts, new_plan.starts[::-1], new_plan.starts[1:]):
        assert not core.apply(Planned(starts=starts)).effects
        assert set(states(core).values()) == {PENDING}


def test_each_waiting_component_has_a_reason() -> None:
    core = with_one_node_away()
    submit(core, part(10), part(12))
    core.plan()
    assert {core.state.planned.pending_reasons[job_id].code for job_id in core.state.index.pending} == {
        "Resources"
    }


def test_a_held_component_keeps_all_from_starting() -> None:
    core = Core("a", "b")
    submit(core, part(10), part(12))
    core.apply(Held(principal=ANN, jobs=("1+1",)))
    assert [job.held for job in core.state.jobs.values()] == [False, True]
    core.plan()
    assert "1+1, which is held" in core.state.planned.pending_reasons[core.job(1).id].sentence
    core.apply(Released(principal=ANN, jobs=("1",)))
    core.plan()
    assert set(states(core).values()) == {CONFIGURING}


def test_a_component_id_does_not_refer_to_another_job() -> None:
    core = Core("a")
    core.submit()
    core.submit()
    assert core.apply(Cancelled(principal=ANN, jobs=("1+1",))).errors
    assert set(states(core).values()) == {PENDING}


@pytest.mark.parametrize("named", [("1",), ("1+0",), ("1+0", "1+1"), ("1+1", "1+0"), ("2", "1")])
def test_cancelling_the_leader_cancels_all_waiting_components(named: tuple[str, ...]) -> None:
    core = with_one_node_away()
    submit(core, part(10), part(12))
    assert not core.apply(Cancelled(principal=ANN, jobs=named)).errors
    assert set(states(core).values()) == {CANCELLED}


def test_a_waiting_component_cannot_be_cancelled_alone() -> None:
    core = with_one_node_away()
    submit(core, part(10), part(12))
    refused = core.apply(Cancelled(principal=ANN, jobs=("2",)))
    assert refused.codes == ("component",) and "cancel the whole job 1" in refused.errors[0]
    assert set(states(core).values()) == {PENDING}


def test_a_running_component_can_be_cancelled_alone() -> None:
    core = Core("a", "b")
    running(core)
    end_all(core, core.apply(Cancelled(principal=ANN, jobs=("1+1",))))
    assert states(core) == {"1+0": RUNNING, "1+1": CANCELLED}


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ({"exit_code": 0}, JobState.COMPLETED),
        ({"exit_code": 3}, JobState.FAILED),
        ({"cause": "timeout", "signal": 15}, JobState.TIMEOUT),
    ],
)
def test_the_end_of_the_leader_ends_all_components(facts: dict[str, Any], state: JobState) -> None:
    core = Core("a", "b")
    running(core)
    outcome = core.end(1, **facts)
    assert states(core) == {"1+0": state, "1+1": COMPLETING}
    end_all(core, outcome)
    assert states(core) == {"1+0": state, "1+1": state}
    ended = core.job(2).exit
    assert ended is not None and ended.code == facts.get("exit_code", 0)


def test_a_requeue_restarts_all_components_together() -> None:
    core = Core("a", "b")
    running(core)
    outcome = core.apply(Requeued(principal=ROOT, jobs=("1",)))
    kills = [effect for effect in outcome.effects if isinstance(effect, KillShare)]
    first, second = kills
    core.report(first.node, core.agents[first.node].end((first.job_id, first.restarts)))
    assert states(core) == {"1+0": PENDING, "1+1": COMPLETING}
    core.plan()
    assert states(core)["1+0"] is PENDING, "it does not start before the other can"
    core.report(second.node, core.agents[second.node].end((second.job_id, second.restarts)))
    core.launch(core.plan().effects)
    assert states(core) == {"1+0": RUNNING, "1+1": RUNNING}
    assert [core.job(number).restarts for number in (1, 2)] == [1, 1]


def with_one_that_ended_long_ago() -> Core:
    """The leader runs. The other component was canceled so long ago that a plain job would no longer be in
    memory.
    """
    core = Core("a", "b")
    running(core)
    end_all(core, core.apply(Cancelled(principal=ANN, jobs=("1+1",))))
    core.now += 7200.0
    return core


def test_an_ended_component_restarts_with_the_others() -> None:
    core = with_one_that_ended_long_ago()
    assert evict_finished(core.state, ended_before_unix=core.now) == []
    end_all(core, core.apply(Requeued(principal=ROOT, jobs=("1",))))
    assert states(core) == {"1+0": PENDING, "1+1": PENDING}
    core.apply(Cancelled(principal=ANN, jobs=("1",)))
    core.now += 7200.0
    evict_finished(core.state, ended_before_unix=core.now)
    assert states(core) == {}


async def test_a_restarted_controller_knows_an_ended_component(short_tmp: Path) -> None:
    core = await asyncio.to_thread(with_one_that_ended_long_ago)
    async with served(short_tmp / "home", store=core.store) as site:
        assert states(site.controller) == {"1+0": RUNNING, "1+1": CANCELLED}


def test_a_component_cannot_be_requeued_alone() -> None:
    core = Core("a", "b")
    running(core)
    refused = core.apply(Requeued(principal=ROOT, jobs=("2",)))
    assert refused.codes == ("not_leader",)
    assert states(core) == {"1+0": RUNNING, "1+1": RUNNING}


@pytest.mark.parametrize(("leader", "other", "expected"), [(False, True, CANCELLED), (True, False, PENDING)])
def test_the_leaders_no_requeue_applies_to_all_components(
    leader: bool, other: bool, expected: JobState
) -> None:
    core = Core("a", "b")
    submit(core, part(10, requeue=leader), part(12, requeue=other))
    core.launch(core.plan().effects)
    end_all(core, core.apply(Cancelled(principal=ANN, jobs=("1",))))
    done = core.apply(Requeued(principal=ROOT, jobs=("1",)))
    assert done.codes == (() if leader else ("no_requeue",))
    assert states(core) == {"1+0": expected, "1+1": expected}


def test_no_component_is_requeued_while_another_ends() -> None:
    core = Core("a", "b")
    running(core)
    end_all(core, core.apply(Cancelled(principal=ANN, jobs=("1+1",))))
    core.apply(Cancelled(principal=ANN, jobs=("1+0",)))
    assert states(core) == {"1+0": COMPLETING, "1+1": CANCELLED}
    assert core.apply(Requeued(principal=ROOT, jobs=("1",))).codes == ("ending",)
    assert states(core) == {"1+0": COMPLETING, "1+1": CANCELLED}


def test_a_refused_component_makes_all_wait_again() -> None:
    core = Core("a", "b")
    submit(core, part(10), part(12))
    core.plan()
    other = core.job(2).shares[0].node
    failed = wire.LaunchFailed(job_id=2, restarts=0, message="the GPUs are not empty", again=True)
    outcome = core.apply(LaunchRefused(name=NodeName(other), failed=failed))
    assert states(core) == {"1+0": COMPLETING, "1+1": PENDING}
    end_all(core, outcome)
    assert states(core) == {"1+0": PENDING, "1+1": PENDING}


@pytest.mark.parametrize("requeue", [True, False])
def test_a_lost_node_ends_all_components(requeue: bool) -> None:
    core = Core("a", "b")
    submit(core, part(10, requeue=requeue), part(12, requeue=requeue))
    core.launch(core.plan().effects)
    node = core.job(2).shares[0].node
    core.agents[node].reboot()
    outcome = core.up(node)
    assert states(core)["1+0"] is COMPLETING
    end_all(core, outcome)
    wanted = PENDING if requeue else JobState.NODE_FAIL
    assert states(core) == {"1+0": wanted, "1+1": wanted}


def test_a_cancel_during_a_requeue_ends_all_components() -> None:
    core = Core("a", "b")
    running(core)
    first, second = [
        effect
        for effect in core.apply(Requeued(principal=ROOT, jobs=("1",))).effects
        if isinstance(effect, KillShare)
    ]
    core.report(first.node, core.agents[first.node].end((first.job_id, first.restarts)))
    core.apply(Cancelled(principal=ANN, jobs=("1",)))
    core.report(second.node, core.agents[second.node].end((second.job_id, second.restarts)))
    assert states(core) == {"1+0": CANCELLED, "1+1": CANCELLED}
