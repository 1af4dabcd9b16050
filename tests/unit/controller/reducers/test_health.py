"""Health reports drain and resume nodes and GPUs, notify jobs, and requeue jobs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.core import Core, make_request

from warpdeck.base.errors import UserError
from warpdeck.config import Config, build_site
from warpdeck.config.node_tables import Health
from warpdeck.controller.events.effects import KillShare, Outcome, ShowNotice
from warpdeck.controller.events.events import HealthReported, NodeDrained, NodeResumed
from warpdeck.controller.presenters.node_rows import node_health_row, node_row
from warpdeck.model import JobState, Node, NodeName
from warpdeck_agent.wire import messages as wire

A = NodeName("a")
WELL = [wire.Check("disk", "ok"), wire.Check("mount", "ok"), wire.Check("gpu_lost", "ok", "4 GPUs")]
FULL = wire.Check("disk", "fail", "/tmp is full: 3 MiB are free")
LOST = wire.Check("gpu_lost", "fail", "the GPU has fallen off the bus", gpu=1, uuid="a-1")
HOT = wire.Check("thermal", "fail", "throttled because of heat for over 60 s", gpu=2, uuid="a-2")


class MonitoredNode(Core):
    """Return a core with a node that reports its health."""

    def __init__(self, **rules: Any) -> None:
        super().__init__("a")
        self.state.site = build_site(Config(health=Health(**rules)))

    def reports(self, *checks: wire.Check, faults: tuple[wire.Fault, ...] = (), **fields: Any) -> Outcome:
        health = wire.Health(at_unix=self.now, checks=list(checks), faults=list(faults), **fields)
        return self.apply(HealthReported(name=A, health=health, received_unix=self.now))

    @property
    def node(self) -> Node:
        return self.state.nodes[A]

    def drains(self) -> dict[str, str]:
        return {drain.uuid: drain.reason for drain in self.node.gpu_drains}

    def history(self, job_id: int) -> list[str]:
        journal = self.store._journal  # an attribute of the store in memory only
        return [entry.text for entry in journal[self.job(job_id).id]]


def xid(number: int, *, gpu: int = 3, code: int = 79, at: float = 2000.0, check: str = "xid") -> wire.Fault:
    return wire.Fault(
        number=number,
        at_unix=at,
        check=check,
        gpu=gpu,
        uuid=f"a-{gpu}",
        message=f"Xid {code}",
        xid=code if check == "xid" else 0,
    )


# ---- The node


def test_a_full_disk_drains_its_node_until_there_is_space() -> None:
    core = MonitoredNode()
    assert core.reports(*WELL).replan is False and not core.node.drained
    core.reports(FULL, *WELL[1:])
    assert core.node.drained and core.node.reason == "/tmp is full: 3 MiB are free"
    core.submit()
    assert core.plan().effects == ()
    core.reports(*WELL)
    assert not core.node.drained and core.node.reason == ""
    assert core.plan().effects


def test_a_node_drained_by_an_admin_is_resumed_only_by_an_admin() -> None:
    core = MonitoredNode()
    core.apply(NodeDrained(name=A, reason="new fan"))
    core.reports(FULL)
    assert core.node.reason == "new fan"
    core.reports(*WELL)
    assert core.node.drained
    core.reports(FULL)
    core.apply(NodeResumed(name=A))
    assert not core.node.drained
    core.reports(FULL)
    assert core.node.drained, "the disk is still full, so the next report drains the node again"
    core.apply(NodeDrained(name=A, reason="taken over"))
    core.reports(*WELL)
    assert core.node.drained and core.node.reason == "taken over"


def test_all_causes_of_a_drain_are_listed_and_all_must_end() -> None:
    core = MonitoredNode()
    core.reports(FULL, wire.Check("program", "fail", "no scratch"))
    assert core.node.reason == "/tmp is full: 3 MiB are free; no scratch"
    core.reports(WELL[0], wire.Check("program", "fail", "no scratch"))
    assert core.node.drained and core.node.reason == "no scratch"
    core.reports(*WELL)
    assert not core.node.drained, "a site that has no program any more has no reason either"


def test_a_continued_drain_shows_the_current_failure() -> None:
    core = MonitoredNode()
    core.reports(wire.Check("program", "fail", "/check did not finish within 30 s"), *WELL)
    since = core.node.reason_at_unix
    core.now += 60
    core.reports(wire.Check("program", "fail", "ib0 is down"), *WELL)
    assert (core.node.drained, core.node.reason) == (True, "ib0 is down")
    assert core.node.reason_at_unix == since


def test_a_changed_number_in_the_reason_changes_nothing() -> None:
    core = MonitoredNode()
    core.reports(FULL)
    before = core.node
    core.now += 60
    core.reports(wire.Check("disk", "fail", "/tmp is full: 2 MiB are free"))
    assert core.node is before


def test_a_report_without_checks_resumes_nothing() -> None:
    core = MonitoredNode()
    core.reports(FULL, LOST, HOT)
    core.reports()
    assert core.node.drained and set(core.drains()) == {"a-1", "a-2"}


def test_warnings_and_ignored_checks_are_shown_but_drain_nothing() -> None:
    core = MonitoredNode(ignore=("disk", "thermal"))
    core.reports(FULL, HOT, wire.Check("program", "warn", "cannot be run"), wire.Check("new", "odd", "?"))
    assert not core.node.drained and core.drains() == {}
    shown = [(row.check, row.verdict) for row in node_row(core.state, core.node).health]
    assert shown == [("disk", "fail"), ("thermal", "fail"), ("program", "warn"), ("new", "warn")]


# ---- Its GPUs


def test_a_fault_drains_its_gpu_once_until_an_admin_resumes_it() -> None:
    core = MonitoredNode()
    core.reports(*WELL, faults=(xid(7),))
    assert core.drains() == {"a-3": "Xid 79"} and not core.node.drained
    core.submit(make_request(gpus=4))
    assert core.plan().effects == ()
    core.submit(make_request(gpus=3))
    assert len(core.plan().effects) == 1
    core.reports(*WELL, faults=(xid(7),))
    assert core.drains(), "only an admin ends the drain"
    core.apply(NodeResumed(name=A, gpus=(3,)))
    core.reports(*WELL, faults=(xid(7),))
    assert core.drains() == {}, "a known fault drains nothing again"
    core.reports(*WELL, faults=(xid(7), xid(8)))
    assert core.drains() == {"a-3": "Xid 79"}


def test_drains_survive_a_restart_of_the_controller() -> None:
    core = MonitoredNode()
    core.reports(FULL, faults=(xid(7),))
    node = core.reload().nodes[A]
    assert node == core.node and node.faults_until == 7 and node.drain_checks == ("disk",)


def test_faults_from_before_the_node_was_added_are_ignored() -> None:
    core = MonitoredNode()
    core.reports(*WELL, faults=(xid(7, at=1.0),))
    assert core.drains() == {} and core.node.faults_until == 7


def test_an_overheated_gpu_recovers_and_a_lost_gpu_stays_drained() -> None:
    core = MonitoredNode()
    core.reports(*WELL[:2], LOST, HOT)
    assert set(core.drains()) == {"a-1", "a-2"}
    core.reports(*WELL)
    assert set(core.drains()) == {"a-1"}


def test_a_permanent_fault_replaces_overheating_as_the_reason() -> None:
    core = MonitoredNode()
    core.reports(*WELL[:2], HOT)
    core.reports(*WELL[:2], HOT, faults=(xid(5, gpu=2),))
    core.reports(*WELL)
    assert core.drains() == {"a-2": "Xid 79"}


def test_missing_gpus_drain_the_node_until_they_are_found() -> None:
    core = MonitoredNode()
    whole = core.agents[A].welcome()
    part = msgspec.json.decode(msgspec.json.encode(whole), type=wire.Welcome)
    part.inventory.gpus.pop()
    core.agents[A].welcome = lambda: part  # type: ignore[method-assign]
    core.up("a")
    core.reports(*WELL)
    assert core.node.reason == "3 of 4 GPUs found: a-3 is missing"
    core.agents[A].welcome = lambda: whole  # type: ignore[method-assign]
    core.up("a")
    core.reports(*WELL)
    assert not core.node.drained
    core.agents[A].welcome = lambda: part  # type: ignore[method-assign]
    core.up("a")
    core.reports(*WELL)
    core.apply(NodeResumed(name=A))
    core.reports(*WELL)
    assert not core.node.drained, "the admin knows that it was taken out"


def test_an_admin_may_drain_single_gpus() -> None:
    core = MonitoredNode()
    core.apply(NodeDrained(name=A, gpus=(0, 2), reason="cable"))
    core.reports(*WELL)
    assert core.drains() == {"a-0": "cable", "a-2": "cable"}
    row = node_row(core.state, core.node)
    assert [gpu.blocked for gpu in row.gpus] == ["drained: cable", "", "drained: cable", ""]
    assert [(check.check, check.gpu) for check in row.health] == [("admin", 0), ("admin", 2)]
    core.apply(NodeResumed(name=A, gpus=(0,)))
    assert core.drains() == {"a-2": "cable"}
    with pytest.raises(UserError, match="a has no GPU 9"):
        core.apply(NodeDrained(name=A, gpus=(9,), reason="x"))


def test_a_start_on_a_gpu_drained_meanwhile_is_dropped() -> None:
    core = MonitoredNode()
    core.submit(make_request(gpus=4))
    from warpdeck.controller.events.events import Planned
    from warpdeck.controller.state.planner_view import build_view
    from warpdeck.policy import PlannerSettings, plan

    made = plan(build_view(core.state, now=core.now), core.now, PlannerSettings())
    core.reports(*WELL, faults=(xid(7),))
    assert made.starts and core.apply(Planned(starts=made.starts)).effects == ()


# ---- The jobs


def test_jobs_on_a_faulty_gpu_are_notified_and_continue() -> None:
    core = MonitoredNode()
    hit, other = core.run(make_request(gpus=2)), core.run(make_request(gpus=1))
    index = core.job(hit).allocation.shares[0].gpus[0]  # type: ignore[union-attr]
    outcome = core.reports(*WELL, faults=(xid(7, gpu=index),))
    words = f"GPU {index} of a: Xid 79"
    assert outcome.effects == (ShowNotice(node=A, job_id=hit, restarts=0, text=words),)
    assert (core.job(hit).notice, core.job(other).notice) == (words, "")
    assert words in core.history(hit) and words not in core.history(other)
    assert core.job(hit).state is JobState.RUNNING
    assert core.reports(*WELL, faults=(xid(7, gpu=index),)).effects == ()


def test_an_xid_caused_by_a_program_is_reported_and_drains_nothing() -> None:
    core = MonitoredNode()
    job = core.run(make_request(gpus=4))
    outcome = core.reports(*WELL, faults=(xid(7, code=31),))
    assert [type(effect) for effect in outcome.effects] == [ShowNotice]
    assert core.job(job).notice == "GPU 3 of a: Xid 31" and core.drains() == {}
    assert core.reports(*WELL, faults=(xid(7, code=31),)).effects == ()


def test_all_jobs_on_a_drained_node_are_notified() -> None:
    core = MonitoredNode()
    jobs = [core.run(), core.run()]
    outcome = core.reports(FULL)
    assert [effect.job_id for effect in outcome.effects if isinstance(effect, ShowNotice)] == jobs
    assert core.job(jobs[0]).notice == "node a: /tmp is full: 3 MiB are free"


def test_jobs_on_a_failed_gpu_are_requeued_if_site_and_job_allow_it() -> None:
    core = MonitoredNode(requeue_on=("xid",))
    moves, stays = core.run(make_request(gpus=2, requeue=True)), core.run(make_request(gpus=2, requeue=False))
    faults = tuple(xid(number + 1, gpu=number) for number in range(4))
    outcome = core.reports(*WELL, faults=faults)
    kills = [effect for effect in outcome.effects if isinstance(effect, KillShare)]
    assert [(kill.job_id, kill.cause) for kill in kills] == [(moves, "requeued")]
    core.end(moves, signal=15, cause="requeued")
    assert (core.job(moves).state, core.job(moves).restarts) == (JobState.PENDING, 1)
    assert core.job(stays).state is JobState.RUNNING


# ---- The clock


@pytest.mark.parametrize(
    ("asked_at", "node_time", "received", "words"),
    [
        (1000.0, 1003.0, 1003.5, ""),
        (1000.0, 1030.0, 1060.0, ""),  # a slow link proves nothing
        (1000.0, 1030.0, 1001.0, "the clock is 29 s ahead of the controller's"),
        (1000.0, 970.0, 1001.0, "the clock is 30 s behind the controller's"),
        (1000.0, 989.0, 1300.0, "the clock is 11 s behind the controller's"),
    ],
)
def test_a_clock_difference_beyond_the_links_delay_drains_the_node(
    asked_at: float, node_time: float, received: float, words: str
) -> None:
    core = MonitoredNode()
    health = wire.Health(at_unix=node_time, checks=WELL, asked_at_unix=asked_at)
    core.apply(HealthReported(name=A, health=health, received_unix=received))
    assert core.node.reason == words and core.node.drained == bool(words)
    core.reports(*WELL)
    assert core.node.drained == bool(words), "an unsolicited report does not check the clock"
    core.reports(*WELL, asked_at_unix=core.now)
    assert not core.node.drained


def test_all_checks_are_shown_with_the_nodes_state() -> None:
    core = MonitoredNode()
    core.reports(FULL, *WELL[1:], faults=(xid(7),), asked_at_unix=core.now)
    row = node_health_row(core.state, core.node)
    assert (row.state, row.reason) == ("drained", "/tmp is full: 3 MiB are free")
    assert [(check.check, check.verdict, check.gpu) for check in row.checks] == [
        ("disk", "fail", None),
        ("mount", "ok", None),
        ("gpu_lost", "ok", None),
        ("clock", "ok", None),
        ("xid", "fail", 3),
    ]
