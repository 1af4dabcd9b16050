"""Effects of a node's health reports: drained and resumed nodes and GPUs, notified jobs, and requeued
jobs.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.core import Core, ask

from warpdeck.base.errors import UserError
from warpdeck.config import Config, build_site
from warpdeck.config.tables import Health
from warpdeck.controller.events.events import (
    HealthReported,
    KillShare,
    NodeDrained,
    NodeResumed,
    Outcome,
    ShowNotice,
)
from warpdeck.controller.presenters.node_rows import node_health_row, node_row
from warpdeck.model import JobState, Node, NodeName
from warpdeck_agent.wire import messages as wire

A = NodeName("a")
WELL = [wire.Check("disk", "ok"), wire.Check("mount", "ok"), wire.Check("gpu_lost", "ok", "4 GPUs")]
FULL = wire.Check("disk", "fail", "/tmp is full: 3 MiB are free")
LOST = wire.Check("gpu_lost", "fail", "the GPU has fallen off the bus", gpu=1, uuid="a-1")
HOT = wire.Check("thermal", "fail", "throttled by heat for over 60 s", gpu=2, uuid="a-2")


class Ward(Core):
    """A core whose node reports its health."""

    def __init__(self, **rules: Any) -> None:
        super().__init__("a")
        self.state.site = build_site(Config(health=Health(**rules)))

    def says(self, *checks: wire.Check, faults: tuple[wire.Fault, ...] = (), **fields: Any) -> Outcome:
        told = wire.Health(at_unix=self.now, checks=list(checks), faults=list(faults), **fields)
        return self.apply(HealthReported(name=A, health=told, received_unix=self.now))

    @property
    def node(self) -> Node:
        return self.state.nodes[A]

    def drains(self) -> dict[str, str]:
        return {drain.uuid: drain.reason for drain in self.node.gpu_drains}

    def history(self, job_id: int) -> list[str]:
        journal = self.store._journal  # of the memory store itself
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


def test_a_full_disk_drains_its_node_until_there_is_room() -> None:
    core = Ward()
    assert core.says(*WELL).replan is False and not core.node.drained
    core.says(FULL, *WELL[1:])
    assert core.node.drained and core.node.reason == "/tmp is full: 3 MiB are free"
    core.submit()
    assert core.plan().effects == ()
    core.says(*WELL)
    assert not core.node.drained and core.node.reason == ""
    assert core.plan().effects


def test_what_an_admin_drained_only_an_admin_resumes() -> None:
    core = Ward()
    core.apply(NodeDrained(name=A, reason="new fan"))
    core.says(FULL)
    assert core.node.reason == "new fan"
    core.says(*WELL)
    assert core.node.drained
    core.says(FULL)
    core.apply(NodeResumed(name=A))
    assert not core.node.drained
    core.says(FULL)
    assert core.node.drained, "it is still full, so that the next look drains it"
    core.apply(NodeDrained(name=A, reason="taken over"))
    core.says(*WELL)
    assert core.node.drained and core.node.reason == "taken over"


def test_several_causes_are_all_told_and_all_have_to_go() -> None:
    core = Ward()
    core.says(FULL, wire.Check("program", "fail", "no scratch"))
    assert core.node.reason == "/tmp is full: 3 MiB are free; no scratch"
    core.says(WELL[0], wire.Check("program", "fail", "no scratch"))
    assert core.node.drained and core.node.reason == "no scratch"
    core.says(*WELL)
    assert not core.node.drained, "a site that has no program any more has no reason either"


def test_what_fails_now_is_the_reason_of_a_drain_that_goes_on() -> None:
    core = Ward()
    core.says(wire.Check("program", "fail", "/check was not done after 30 s"), *WELL)
    since = core.node.reason_at_unix
    core.now += 60
    core.says(wire.Check("program", "fail", "ib0 is down"), *WELL)
    assert (core.node.drained, core.node.reason) == (True, "ib0 is down")
    assert core.node.reason_at_unix == since


def test_a_new_figure_in_the_same_reason_writes_nothing() -> None:
    core = Ward()
    core.says(FULL)
    before = core.node
    core.now += 60
    core.says(wire.Check("disk", "fail", "/tmp is full: 2 MiB are free"))
    assert core.node is before


def test_an_agent_that_has_not_looked_yet_resumes_nothing() -> None:
    core = Ward()
    core.says(FULL, LOST, HOT)
    core.says()
    assert core.node.drained and set(core.drains()) == {"a-1", "a-2"}


def test_warnings_and_ignored_checks_drain_nothing_and_are_shown() -> None:
    core = Ward(ignore=("disk", "thermal"))
    core.says(FULL, HOT, wire.Check("program", "warn", "cannot be run"), wire.Check("new", "odd", "?"))
    assert not core.node.drained and core.drains() == {}
    shown = [(row.check, row.verdict) for row in node_row(core.state, core.node).health]
    assert shown == [("disk", "fail"), ("thermal", "fail"), ("program", "warn"), ("new", "warn")]


# ---- Its GPUs


def test_a_fault_drains_its_gpu_once_and_for_good() -> None:
    core = Ward()
    core.says(*WELL, faults=(xid(7),))
    assert core.drains() == {"a-3": "Xid 79"} and not core.node.drained
    core.submit(ask(gpus=4))
    assert core.plan().effects == ()
    core.submit(ask(gpus=3))
    assert len(core.plan().effects) == 1
    core.says(*WELL, faults=(xid(7),))
    assert core.drains(), "nothing but an admin ends it"
    core.apply(NodeResumed(name=A, gpus=(3,)))
    core.says(*WELL, faults=(xid(7),))
    assert core.drains() == {}, "the same fault is no news"
    core.says(*WELL, faults=(xid(7), xid(8)))
    assert core.drains() == {"a-3": "Xid 79"}


def test_it_survives_a_restart_of_the_controller() -> None:
    core = Ward()
    core.says(FULL, faults=(xid(7),))
    node = core.reload().nodes[A]
    assert node == core.node and node.faults_until == 7 and node.drain_checks == ("disk",)


def test_faults_from_before_the_node_was_ours_are_not_held_against_it() -> None:
    core = Ward()
    core.says(*WELL, faults=(xid(7, at=1.0),))
    assert core.drains() == {} and core.node.faults_until == 7


def test_heat_drains_a_gpu_while_it_lasts_and_a_lost_gpu_stays_drained() -> None:
    core = Ward()
    core.says(*WELL[:2], LOST, HOT)
    assert set(core.drains()) == {"a-1", "a-2"}
    core.says(*WELL)
    assert set(core.drains()) == {"a-1"}


def test_a_lasting_cause_takes_the_place_of_heat() -> None:
    core = Ward()
    core.says(*WELL[:2], HOT)
    core.says(*WELL[:2], HOT, faults=(xid(5, gpu=2),))
    core.says(*WELL)
    assert core.drains() == {"a-2": "Xid 79"}


def test_gpus_that_are_not_found_any_more_drain_the_node_until_they_are() -> None:
    core = Ward()
    whole = core.agents[A].welcome()
    part = msgspec.json.decode(msgspec.json.encode(whole), type=wire.Welcome)
    part.inventory.gpus.pop()
    core.agents[A].welcome = lambda: part  # type: ignore[method-assign]
    core.up("a")
    core.says(*WELL)
    assert core.node.reason == "3 of 4 GPUs found: a-3 is missing"
    core.agents[A].welcome = lambda: whole  # type: ignore[method-assign]
    core.up("a")
    core.says(*WELL)
    assert not core.node.drained
    core.agents[A].welcome = lambda: part  # type: ignore[method-assign]
    core.up("a")
    core.says(*WELL)
    core.apply(NodeResumed(name=A))
    core.says(*WELL)
    assert not core.node.drained, "the admin knows that it was taken out"


def test_an_admin_drains_single_gpus() -> None:
    core = Ward()
    core.apply(NodeDrained(name=A, gpus=(0, 2), reason="cable"))
    core.says(*WELL)
    assert core.drains() == {"a-0": "cable", "a-2": "cable"}
    row = node_row(core.state, core.node)
    assert [gpu.blocked for gpu in row.gpus] == ["drained: cable", "", "drained: cable", ""]
    assert [(check.check, check.gpu) for check in row.health] == [("admin", 0), ("admin", 2)]
    core.apply(NodeResumed(name=A, gpus=(0,)))
    assert core.drains() == {"a-2": "cable"}
    with pytest.raises(UserError, match="a has no GPU 9"):
        core.apply(NodeDrained(name=A, gpus=(9,), reason="x"))


def test_a_start_on_a_gpu_that_was_drained_meanwhile_is_not_made() -> None:
    core = Ward()
    core.submit(ask(gpus=4))
    from warpdeck.controller.events.events import Planned
    from warpdeck.controller.state.planner_view import build_view
    from warpdeck.policy import PlannerSettings, plan

    made = plan(build_view(core.state, now=core.now), core.now, PlannerSettings())
    core.says(*WELL, faults=(xid(7),))
    assert made.starts and core.apply(Planned(starts=made.starts)).effects == ()


# ---- The jobs


def test_the_jobs_on_a_gpu_are_told_and_go_on() -> None:
    core = Ward()
    hit, other = core.run(ask(gpus=2)), core.run(ask(gpus=1))
    index = core.job(hit).allocation.shares[0].gpus[0]  # type: ignore[union-attr]
    outcome = core.says(*WELL, faults=(xid(7, gpu=index),))
    words = f"GPU {index} of a: Xid 79"
    assert outcome.effects == (ShowNotice(node=A, job_id=hit, restarts=0, text=words),)
    assert (core.job(hit).notice, core.job(other).notice) == (words, "")
    assert words in core.history(hit) and words not in core.history(other)
    assert core.job(hit).state is JobState.RUNNING
    assert core.says(*WELL, faults=(xid(7, gpu=index),)).effects == ()


def test_an_xid_of_a_faulty_program_is_told_and_drains_nothing() -> None:
    core = Ward()
    job = core.run(ask(gpus=4))
    outcome = core.says(*WELL, faults=(xid(7, code=31),))
    assert [type(effect) for effect in outcome.effects] == [ShowNotice]
    assert core.job(job).notice == "GPU 3 of a: Xid 31" and core.drains() == {}
    assert core.says(*WELL, faults=(xid(7, code=31),)).effects == ()


def test_everybody_on_a_node_that_is_drained_is_told() -> None:
    core = Ward()
    jobs = [core.run(), core.run()]
    outcome = core.says(FULL)
    assert [effect.job_id for effect in outcome.effects if isinstance(effect, ShowNotice)] == jobs
    assert core.job(jobs[0]).notice == "node a: /tmp is full: 3 MiB are free"


def test_jobs_on_a_failed_gpu_wait_again_where_site_and_job_want_it() -> None:
    core = Ward(requeue_on=("xid",))
    moves, stays = core.run(ask(gpus=2, requeue=True)), core.run(ask(gpus=2, requeue=False))
    faults = tuple(xid(number + 1, gpu=number) for number in range(4))
    outcome = core.says(*WELL, faults=faults)
    kills = [effect for effect in outcome.effects if isinstance(effect, KillShare)]
    assert [(kill.job_id, kill.cause) for kill in kills] == [(moves, "requeued")]
    core.end(moves, signal=15, cause="requeued")
    assert (core.job(moves).state, core.job(moves).restarts) == (JobState.PENDING, 1)
    assert core.job(stays).state is JobState.RUNNING


# ---- The clock


@pytest.mark.parametrize(
    ("asked", "told", "received", "words"),
    [
        (1000.0, 1003.0, 1003.5, ""),
        (1000.0, 1030.0, 1060.0, ""),  # a slow link proves nothing
        (1000.0, 1030.0, 1001.0, "the clock is 29 s ahead of the controller's"),
        (1000.0, 970.0, 1001.0, "the clock is 30 s behind the controller's"),
        (1000.0, 989.0, 1300.0, "the clock is 11 s behind the controller's"),
    ],
)
def test_clocks_are_compared_however_slow_the_link(
    asked: float, told: float, received: float, words: str
) -> None:
    core = Ward()
    said = wire.Health(at_unix=told, checks=WELL, asked_at_unix=asked)
    core.apply(HealthReported(name=A, health=said, received_unix=received))
    assert core.node.reason == words and core.node.drained == bool(words)
    core.says(*WELL)
    assert core.node.drained == bool(words), "a word that was not asked for says nothing of the clock"
    core.says(*WELL, asked_at_unix=core.now)
    assert not core.node.drained


def test_checks_are_shown_with_what_follows() -> None:
    core = Ward()
    core.says(FULL, *WELL[1:], faults=(xid(7),), asked_at_unix=core.now)
    row = node_health_row(core.state, core.node)
    assert (row.state, row.reason) == ("drained", "/tmp is full: 3 MiB are free")
    assert [(check.check, check.verdict, check.gpu) for check in row.checks] == [
        ("disk", "fail", None),
        ("mount", "ok", None),
        ("gpu_lost", "ok", None),
        ("clock", "ok", None),
        ("xid", "fail", 3),
    ]
