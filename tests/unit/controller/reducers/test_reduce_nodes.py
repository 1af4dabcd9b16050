"""The reducer when nodes are lost, reconnect, reboot, are drained or removed: the effect on their jobs."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from tests.support.core import ANN, Core, make_request, result_of

from warpdeck.base.errors import UserError
from warpdeck.config.site import build_site
from warpdeck.config.tables import Config, Scheduler
from warpdeck.controller.events.effects import KillShare, LaunchShare
from warpdeck.controller.events.events import (
    NodeDrained,
    NodeLost,
    NodeRemoved,
    NodeResumed,
    NodeUp,
    Submitted,
)
from warpdeck.controller.reducers.progress import TOP_PRIORITY
from warpdeck.controller.reducers.reduce import reduce
from warpdeck.controller.state.transaction import Transaction
from warpdeck.model import Condition, JobState, NodeName


def test_a_lost_node_keeps_its_jobs_and_their_gpus() -> None:
    core = Core("a")
    job_id = core.run(make_request(gpus=4))
    core.lose("a")
    waiting = core.submit(make_request(gpus=1))
    assert core.plan().effects == () and core.job(job_id).state is JobState.RUNNING
    core.up("a")
    assert core.job(job_id).state is JobState.RUNNING and core.job(waiting).state is JobState.PENDING


def test_an_end_during_an_outage_is_reported_on_reconnect() -> None:
    core = Core("a")
    job_id = core.run()
    core.lose("a")
    core.agents[NodeName("a")].end((job_id, 0), exit_code=5)
    core.up("a")
    assert (core.job(job_id).state, str(core.job(job_id).exit)) == (JobState.FAILED, "5:0")


def test_a_launch_that_never_arrived_is_sent_again() -> None:
    core = Core("a")
    job_id = core.submit()
    core.plan()
    core.lose("a")
    assert core.up("a").effects == (LaunchShare(node=NodeName("a"), job_id=job_id),)


@pytest.mark.parametrize("requeue", [True, False])
@pytest.mark.parametrize("records", ["kept", "wiped"])
def test_a_rebooted_node_fails_or_requeues_its_jobs(requeue: bool, records: str) -> None:
    core = Core("a")
    job_id = core.run(make_request(requeue=requeue))
    core.lose("a")
    core.agents[NodeName("a")].reboot()
    if records == "wiped":
        core.agents[NodeName("a")].jobs.clear()
    core.up("a")
    job = core.job(job_id)
    if requeue:
        assert (job.state, job.restarts) == (JobState.PENDING, 1)
    else:
        assert job.state is JobState.NODE_FAIL and job.exit is not None and job.exit.cause == "node_fail"


def test_shares_without_a_process_end_with_a_reboot() -> None:
    """Return an allocation of salloc, or a node's share without the batch script. The agent still has a record."""
    core = Core("a", "b")
    job_id = core.run(make_request(nodes=2, requeue=False))
    core.lose("b")
    agent = core.agents[NodeName("b")]
    held = dict(agent.jobs)
    agent.reboot()
    agent.jobs = held
    effects = core.up("b").effects
    kills = [effect for effect in effects if isinstance(effect, KillShare)]
    assert ("b", True) in [(kill.node, kill.at_once) for kill in kills]
    core.report("a", core.agents[NodeName("a")].end((job_id, 0)))
    job = core.job(job_id)
    assert job.state is JobState.NODE_FAIL and job.exit is not None and "b was rebooted" in job.exit.message


def test_a_launch_that_a_reboot_may_have_interrupted_is_not_repeated() -> None:
    core = Core("a")
    job_id = core.submit()
    core.plan()
    core.agents[NodeName("a")].reboot()
    assert not any(isinstance(effect, LaunchShare) for effect in core.up("a").effects)
    assert (core.job(job_id).state, core.job(job_id).restarts) == (JobState.PENDING, 1)


@pytest.mark.parametrize(("permitted", "priority"), [(True, TOP_PRIORITY), (False, None)])
def test_a_job_with_expedited_requeue_goes_first_after_its_node_failed(
    permitted: bool, priority: int | None
) -> None:
    site = build_site(Config(scheduler=Scheduler(expedited_requeue=permitted)))
    core = Core("a")
    core.state.site = site
    request = msgspec.structs.replace(make_request(), requeue=True, expedite=True)
    assert bool(site.remarks(request)) is not permitted
    job_id = core.run(request)
    core.lose("a")
    core.agents[NodeName("a")].reboot()
    core.up("a")
    job = core.job(job_id)
    assert (job.state, job.request.priority) == (JobState.PENDING, priority)


def test_jobs_missing_from_a_nodes_records_fail() -> None:
    core = Core("a", "b")
    job_id = core.run(make_request(nodes=2, requeue=False))
    core.agents[NodeName("b")].jobs.clear()
    outcome = core.up("b")
    assert core.kills(outcome) == [("a", "node_fail", 0)]
    core.report("a", core.agents[NodeName("a")].end((job_id, 0), signal=15, cause="node_fail"))
    assert core.job(job_id).state is JobState.NODE_FAIL


def test_a_drained_node_finishes_its_jobs_and_accepts_none() -> None:
    core = Core("a")
    running = core.run()
    core.apply(NodeDrained(name=NodeName("a"), reason="fan"))
    core.submit()
    assert core.plan().effects == () and core.job(running).state is JobState.RUNNING
    core.apply(NodeResumed(name=NodeName("a")))
    assert core.plan().effects


def test_a_node_with_jobs_is_removed_only_by_force() -> None:
    core = Core("a")
    job_id = core.run(make_request(requeue=False))
    with pytest.raises(UserError, match="jobs are running on a: 1"):
        core.apply(NodeRemoved(name=NodeName("a")))
    core.apply(NodeRemoved(name=NodeName("a"), force=True))
    assert core.job(job_id).state is JobState.NODE_FAIL
    assert not core.state.nodes and not core.state.node_status.links
    with pytest.raises(UserError, match="there is no node a"):
        core.apply(NodeResumed(name=NodeName("a")))


def test_a_job_gets_gpus_that_the_agent_reports_as_linked() -> None:
    core = Core("a")
    welcome = core.agents[NodeName("a")].welcome()
    islands = (0, 1, 0, 1)
    linked = [
        dataclasses.replace(gpu, island=island)
        for gpu, island in zip(welcome.inventory.gpus, islands, strict=True)
    ]
    inventory = dataclasses.replace(welcome.inventory, gpus=linked)
    core.apply(NodeUp(name=NodeName("a"), welcome=dataclasses.replace(welcome, inventory=inventory)))
    allocated = []
    for count in (1, 2):
        allocation = core.job(core.run(make_request(gpus=count))).allocation
        assert allocation is not None
        allocated.append(allocation.shares[0].gpus)
    assert allocated == [(0,), (1, 3)], "0 and 2 are linked, and 0 is taken"


# ---- History of node states


def conditions(core: Core) -> list[Condition]:
    """Return the stored conditions of the only node."""
    return result_of(core.store.conditions(core.now))


def cut(core: Core, reason: str) -> None:
    core.now += 1
    core.apply(NodeLost(name=NodeName("a"), reason=reason))


def test_an_outage_is_recorded_once_with_its_last_reason() -> None:
    core = Core("a")
    for reason in (
        "reset; next attempt in 1 s",
        "no route, 3 tries; next attempt in 2 s",
        "no route, 4 tries",
    ):
        cut(core, reason)
    down = Condition(node=NodeName("a"), at_unix=1001.0, down=True, down_reason="no route, 3 tries")
    assert conditions(core) == [down]
    core.up("a")
    assert conditions(core) == [Condition(node=NodeName("a"), at_unix=1003.0)]
    core.now += 1
    core.up("a")
    assert conditions(core)[0].at_unix == 1003.0, "nothing new"


def test_a_drain_before_the_first_connection_keeps_the_node_down() -> None:
    core = Core("a")
    cut(core, "cut")
    core.state = core.reload()
    core.apply(NodeDrained(name=NodeName("a"), reason="cables"))
    (now,) = conditions(core)
    assert (now.drained, now.reason, now.down, now.down_reason) == (True, "cables", True, "cut")


def test_an_uncommitted_condition_is_recorded_with_the_next_attempt() -> None:
    core = Core("a")
    before = dict(core.state.node_status.conditions)
    for event in (NodeLost(name=NodeName("a"), reason="cut"), NodeRemoved(name=NodeName("a"))):
        txn = Transaction(core.state, core.now)
        reduce(txn, event)
        assert txn.changes().conditions or txn.changes().gone_nodes
        txn.rollback()
        assert core.state.node_status.conditions == before
    cut(core, "cut")
    assert [each.down for each in conditions(core)] == [True]


@pytest.mark.parametrize("known", ["leader", "component"])
def test_a_component_whose_launch_was_lost_ends_with_another_that_the_node_has_lost(known: str) -> None:
    """A leader stayed COMPLETING for ever: its lost launch was sent again, although the same Welcome ended its job."""
    core = Core("a")
    request = make_request(requeue=False)
    outcome = core.apply(Submitted(principal=ANN, request=request, components=(request,)))
    assert outcome.job is not None
    leader = outcome.job.id
    (component,) = core.state.jobs.keys() - {leader}
    assert len([each for each in core.plan().effects if isinstance(each, LaunchShare)]) == 2
    began = leader if known == "leader" else component
    agent = core.agents[NodeName("a")]
    core.report("a", agent.begin((began, 0)))
    core.lose("a")
    agent.jobs.clear()
    effects = core.up("a").effects
    assert not [each for each in effects if isinstance(each, LaunchShare)]
    assert all(core.job(job_id).is_finished for job_id in (leader, component))
    assert not core.state.jobs_on(NodeName("a"))
