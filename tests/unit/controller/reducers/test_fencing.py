"""A fenced controller starts no jobs, also after a restart, until a person takes over with it."""

from __future__ import annotations

import dataclasses

import pytest
from tests.support.core import ANN, Core, make_request

from warpdeck.controller.events.effects import KillShare, LaunchShare
from warpdeck.controller.events.events import Cancelled, ClaimEnded, Fenced, NodeUp, StartBegun
from warpdeck.controller.reducers.reduce import reduce
from warpdeck.controller.state.transaction import Transaction
from warpdeck.model import JobState, NodeName
from warpdeck_agent.wire.epochs import ControllerStart

OWN = ControllerStart(epoch=5, instance="a")
HOLDER = ControllerStart(epoch=6, instance="b", host="login2")


def core_with_start() -> Core:
    core = Core("n1")
    core.apply(StartBegun(start=OWN))
    return core


def test_a_fence_is_durable_and_stops_planning() -> None:
    core = core_with_start()
    core.submit(make_request())
    assert core.state.has_to_plan
    core.apply(Fenced(holder=HOLDER))
    for state in (core.state, core.reload()):
        assert (state.starts.own, state.starts.fenced_by) == (OWN, HOLDER)
        assert not state.has_to_plan


def test_the_fence_with_the_highest_epoch_is_kept() -> None:
    core = core_with_start()
    core.apply(Fenced(holder=HOLDER))
    higher = ControllerStart(epoch=9, instance="c")
    core.apply(Fenced(holder=higher))
    core.apply(Fenced(holder=HOLDER))
    assert core.reload().starts.fenced_by == higher


def test_a_late_refusal_of_an_earlier_start_does_not_fence_the_present_one() -> None:
    core = core_with_start()
    core.apply(StartBegun(start=ControllerStart(epoch=7, instance="a")))
    core.apply(Fenced(holder=HOLDER))
    assert core.state.starts.fenced_by is None


def test_a_new_start_ends_the_fence() -> None:
    core = core_with_start()
    core.submit(make_request())
    core.apply(Fenced(holder=HOLDER))
    taken = ControllerStart(epoch=7, instance="d")
    core.apply(StartBegun(start=taken))
    for state in (core.state, core.reload()):
        assert (state.starts.own, state.starts.fenced_by) == (taken, None)
        assert state.has_to_plan


def test_a_rollback_undoes_fence_and_start() -> None:
    core = core_with_start()
    for event in (Fenced(holder=HOLDER), StartBegun(start=ControllerStart(epoch=8))):
        txn = Transaction(core.state, 1.0)
        reduce(txn, event)
        txn.rollback()
        assert (core.state.starts.own, core.state.starts.fenced_by) == (OWN, None)
        assert txn.changes().is_empty()


def test_no_job_starts_before_each_node_has_answered_or_failed_to() -> None:
    core = Core("n1", "n2", "n3")
    core.apply(StartBegun(start=OWN))
    core.submit(make_request())
    core.state.starts.unclaimed = dict.fromkeys(map(NodeName, ("n1", "n2", "n3")))
    core.up("n1")
    core.lose("n2")
    assert not core.state.has_to_plan
    core.apply(ClaimEnded(start=ControllerStart(epoch=4)))
    assert not core.state.has_to_plan, "it ended for an earlier start"
    core.up("n3")
    assert core.state.has_to_plan


def test_a_node_that_never_answers_delays_the_first_start_for_a_limited_time() -> None:
    core = Core("n1", "n2")
    core.apply(StartBegun(start=OWN))
    core.submit(make_request())
    core.state.starts.unclaimed = {NodeName("n2"): None}
    core.apply(ClaimEnded(start=OWN))
    assert core.state.has_to_plan


@pytest.mark.parametrize("first", ["n1", "n2"])
def test_a_postponed_share_ends_with_its_job(first: str) -> None:
    """The job stayed COMPLETING: a share that was not launched yet waited for a report of a node that did not know it."""
    core = Core("n1", "n2")
    core.apply(StartBegun(start=OWN))
    job_id = core.submit(make_request(nodes=2, requeue=False))
    core.plan()
    core.report("n1", core.agents[NodeName("n1")].begin((job_id, 0)))
    core.state.starts.unclaimed = dict.fromkeys(map(NodeName, ("n1", "n2")))
    core.agents[NodeName("n1")].reboot()
    outcomes = [core.up(name) for name in (first, *({"n1", "n2"} - {first}))]
    assert not [each for outcome in outcomes for each in outcome.effects if isinstance(each, LaunchShare)]
    assert core.job(job_id).state is JobState.NODE_FAIL


def test_a_share_that_a_node_is_starting_is_ended_by_its_report() -> None:
    """It was taken as lost, so nothing ended the process that began a moment later."""
    core = Core("n1", "n2")
    job_id = core.submit(make_request(nodes=2, requeue=False))
    core.plan()
    core.report("n1", core.agents[NodeName("n1")].begin((job_id, 0)))
    core.lose("n2")
    core.apply(Cancelled(principal=ANN, jobs=(str(job_id),)))
    core.report("n1", core.agents[NodeName("n1")].end((job_id, 0), signal=15))
    welcome = dataclasses.replace(core.agents[NodeName("n2")].welcome(), starting=[[job_id, 0]])
    core.apply(NodeUp(name=NodeName("n2"), welcome=welcome))
    assert not core.job(job_id).is_finished
    effects = core.report("n2", core.agents[NodeName("n2")].begin((job_id, 0))).effects
    assert [each.node for each in effects if isinstance(each, KillShare)] == ["n2"]
    core.report("n2", core.agents[NodeName("n2")].end((job_id, 0), signal=15))
    assert core.job(job_id).is_finished
