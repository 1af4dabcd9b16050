"""Launches that the database does not explain continue, stop the start of jobs, and are adopted or discarded by a person."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.core import ANN, Core, make_request

from warpdeck.base.site_seal import SiteSeal
from warpdeck.controller.events.effects import ForgetShare, KillShare, LaunchShare
from warpdeck.controller.events.events import FoundLaunch, NodeUp, Recovered
from warpdeck.controller.launch.launch_records import LOST_SCRIPT, open_record, with_record
from warpdeck.controller.reducers.recovering import Action, action_of
from warpdeck.controller.reducers.unknown_launches import Verdict, classify
from warpdeck.controller.state.invariants import violations
from warpdeck.controller.state.transaction import Transaction
from warpdeck.model import ArraySpec, Job, JobId, JobState, NodeName
from warpdeck.model.recovery import Recovery, UnknownLaunch
from warpdeck.ports.store import UnreadableRow
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire.past_launches import format_past, parse_past

A = NodeName("a")
SEAL = SiteSeal("secret")


def core_of(*nodes: str) -> Core:
    core = Core(*nodes)
    core.state.starts.seal = SEAL
    return core


def sent(job: Job, node: str = "a") -> wire.Launch:
    """Return the launch with its proof and record, as the node gets it."""
    bare = wire.Launch(
        job_id=job.id,
        restarts=job.restarts,
        user=job.user,
        uid=job.uid,
        role="batch",
        env={},
        cwd="/",
        cwd_visible=True,
    )
    return with_record(bare, job, NodeName(node), SEAL)


def report(job: Job, phase: str = "running", *, node: str = "a", **fields: Any) -> wire.JobReport:
    return wire.JobReport(job.id, job.restarts, phase=phase, proof=sent(job, node).proof, **fields)


def lost_job(**fields: Any) -> Job:
    """Return a job that ran on a controller with the same secret, and that other databases do not have."""
    core = core_of("a")
    for _ in range(4):
        core.submit()
    job = core.job(core.run(make_request("lost", gpus=1, env={"SECRET": "x"}, output="/out/%j")))
    return msgspec.structs.replace(job, **fields)


def verdict(
    core: Core, job: Job, *, node: str = "a", proof: str | None = None, restarts: int | None = None
) -> Verdict:
    shown = sent(job, node).proof if proof is None else proof
    number = job.restarts if restarts is None else restarts
    return classify(core.state, NodeName(node), job_id=job.id, restarts=number, proof=shown)


# ---- The verdict, row by row


def test_an_unreadable_row() -> None:
    core, job = core_of("a"), lost_job()
    core.state.unreadable = (UnreadableRow(table="jobs", key=str(job.id)),)
    assert verdict(core, job) is Verdict.UNREADABLE


def test_an_id_that_was_not_given_yet_is_unknown_with_a_proof() -> None:
    core, job = core_of("a"), lost_job()
    assert verdict(core, job) is Verdict.UNKNOWN
    assert verdict(core, job, proof="") is Verdict.UNPROVEN
    assert verdict(core, job, proof=sent(job, "b").proof) is Verdict.UNPROVEN, "a proof is of one node"


def test_a_lost_id_is_unknown_and_any_other_id_without_a_job_is_outdated() -> None:
    core, job = core_of("a"), lost_job()
    core.state.next_job_id = 100
    assert verdict(core, job) is Verdict.OUTDATED
    core.state.recovery = Recovery(lost_ids=((3, job.id),))
    assert verdict(core, job) is Verdict.UNKNOWN


def test_a_job_of_another_submission_with_the_same_id_is_unknown() -> None:
    core = core_of("a")
    job = core.job(core.run())
    assert verdict(core, job) is Verdict.CURRENT
    assert verdict(core, msgspec.structs.replace(job, submit_at_unix=5.0)) is Verdict.UNKNOWN
    assert verdict(core, job, proof="") is Verdict.CURRENT, "an agent of an earlier version has no proofs"


def test_starts_before_and_after_the_known_one() -> None:
    core = core_of("a")
    job = core.job(core.run())
    core.state.upsert_job(msgspec.structs.replace(job, restarts=3))
    assert verdict(core, msgspec.structs.replace(job, restarts=2)) is Verdict.OUTDATED
    assert verdict(core, msgspec.structs.replace(job, restarts=4)) is Verdict.UNKNOWN


def test_a_finished_job_is_outdated_and_a_waiting_one_or_one_elsewhere_is_unknown() -> None:
    core = core_of("a", "b")
    job = core.job(core.run(make_request(gpus=1)))
    node = job.shares[0].node
    elsewhere = "b" if node == "a" else "a"
    assert verdict(core, job, node=node) is Verdict.CURRENT
    assert verdict(core, job, node=elsewhere) is Verdict.UNKNOWN
    waiting = core.job(core.submit(make_request(gpus=4, nodes=2)))
    assert verdict(core, waiting) is Verdict.UNKNOWN
    core.end(job.id)
    assert verdict(core, core.job(job.id), node=node) is Verdict.OUTDATED


# ---- What follows


def test_an_unknown_launch_continues_stops_the_planner_and_its_id_is_not_given_again() -> None:
    core, job = core_of("a"), lost_job()
    core.submit()
    assert core.state.has_to_plan
    assert core.report("a", report(job)).effects == ()
    for state in (core.state, core.reload()):
        assert state.recovery.launches == (UnknownLaunch(node=A, job_id=job.id, restarts=0, phase="running"),)
        assert not state.has_to_plan and state.next_job_id == job.id + 1
    assert core.submit() == job.id + 1


def test_an_unproven_launch_continues_and_drains_only_its_node() -> None:
    core = core_of("a", "b")
    core.submit()
    assert core.report("a", wire.JobReport(77, 0, phase="running", proof="1-2")).effects == ()
    assert core.state.nodes[A].drained and not core.state.nodes[NodeName("b")].drained
    assert core.state.has_to_plan and core.state.next_job_id == 2
    assert [type(effect) for effect in core.report("a", wire.JobReport(77, 0, phase="exited")).effects] == [
        ForgetShare
    ]


def test_a_forgotten_launch_shows_that_a_waiting_job_has_run() -> None:
    core = core_of("a")
    job = core.job(core.submit())
    past = format_past([((job.id, 0), sent(job).proof)])
    core.apply(NodeUp(name=A, welcome=with_past(core.agents[A].welcome(), past)))
    assert [each.phase for each in core.state.recovery.launches] == ["forgotten"]
    assert not core.state.has_to_plan


def with_past(welcome: wire.Welcome, past: str) -> wire.Welcome:
    return dataclasses.replace(welcome, past=past)


def test_a_running_job_that_its_node_has_forgotten_is_neither_failed_nor_started_again() -> None:
    core = core_of("a")
    job = core.job(core.run())
    core.lose("a")
    core.agents[A].jobs.clear()
    past = format_past([((job.id, 0), sent(job).proof)])
    outcome = core.apply(NodeUp(name=A, welcome=with_past(core.agents[A].welcome(), past)))
    assert outcome.effects == () and core.job(job.id).state is JobState.RUNNING
    ended = FoundLaunch(launch=core.state.recovery.launches[0], report=report(job, "exited", exit_code=3))
    core.apply(Recovered(launches=(ended,)))
    assert (core.job(job.id).state, str(core.job(job.id).exit)) == (JobState.FAILED, "3:0")
    assert not core.state.recovery.is_needed


def found(core: Core, job: Job, answer: wire.JobReport | None) -> FoundLaunch:
    launch = next(each for each in core.state.recovery.launches if each.job_id == job.id)
    opened = open_record(
        sent(job, launch.node).record, SEAL, node=launch.node, job_id=job.id, restarts=job.restarts
    )
    return FoundLaunch(launch=launch, report=answer, job=opened, last_step=2)


def check(core: Core) -> None:
    assert violations(core.state) == []
    assert core.reload().jobs == core.state.jobs


def test_a_running_job_is_adopted_with_its_user_request_and_resources() -> None:
    core, job = core_of("a"), lost_job()
    core.report("a", report(job))
    outcome = core.apply(Recovered(launches=(found(core, job, report(job, started_at=1000.0)),)))
    adopted = core.job(job.id)
    assert (adopted.state, adopted.user, adopted.uid, adopted.allocation) == (
        JobState.RUNNING,
        "ann",
        1,
        job.allocation,
    )
    assert (adopted.request.name, adopted.request.output, adopted.request.script) == (
        "lost",
        "/out/%j",
        LOST_SCRIPT,
    )
    assert adopted.request.env == {} and not adopted.request.requeue and adopted.steps_made == 3
    assert not [effect for effect in outcome.effects if isinstance(effect, KillShare | LaunchShare)]
    check(core)
    core.report("a", report(job, "exited"))
    assert core.job(job.id).state is JobState.COMPLETED


def test_an_ended_job_is_adopted_with_its_exit_status() -> None:
    core, job = core_of("a"), lost_job()
    core.report("a", report(job, "exited", exit_code=7))
    core.apply(Recovered(launches=(found(core, job, report(job, "exited", exit_code=7, started_at=1000.0)),)))
    assert (core.job(job.id).state, str(core.job(job.id).exit)) == (JobState.FAILED, "7:0")
    assert not core.state.recovery.is_needed and core.state.may_start
    check(core)


def test_a_waiting_job_of_the_same_submission_keeps_its_request() -> None:
    core = core_of("a")
    waiting = core.job(core.submit(make_request(gpus=1, script="#!/bin/sh\necho original\n")))
    other = core_of("a")
    running = other.job(other.run(make_request(gpus=1, script="#!/bin/sh\necho original\n")))
    core.report("a", report(running))
    core.apply(Recovered(launches=(found(core, running, report(running, started_at=1000.0)),)))
    adopted = core.job(waiting.id)
    assert adopted.state is JobState.RUNNING and "original" in adopted.request.script
    check(core)


def test_a_task_is_taken_from_the_waiting_tasks_of_its_array() -> None:
    request = make_request(gpus=4, array=ArraySpec(ranges=((0, 3, 1),)))
    core, other = core_of("a"), core_of("a")
    core.submit(request)
    other.submit(request)
    other.launch(other.plan().effects)
    task = next(job for job in other.state.jobs.values() if job.state is JobState.RUNNING)
    core.report("a", report(task))
    core.apply(Recovered(launches=(found(core, task, report(task, started_at=1000.0)),)))
    labels = sorted(job.label() for job in core.state.jobs.values())
    assert labels == ["1_0", "1_[1-3]"] and core.job(task.id).state is JobState.RUNNING
    check(core)


def test_a_share_without_a_report_is_not_sent_again() -> None:
    core, other = core_of("a", "b"), core_of("a", "b")
    job = other.job(other.run(make_request(gpus=1, nodes=2)))
    core.report("a", report(job))
    core.apply(Recovered(launches=(found(core, job, report(job, started_at=1000.0)),)))
    assert core.job(job.id).state is JobState.RUNNING
    assert not [effect for effect in core.up("b").effects if isinstance(effect, LaunchShare)]
    check(core)


def test_a_discarded_launch_is_ended_and_forgotten_at_its_next_reports() -> None:
    core, job = core_of("a"), lost_job()
    core.report("a", report(job))
    core.apply(Recovered(launches=(found(core, job, None),), discard=True))
    assert core.state.may_start
    assert [type(effect) for effect in core.report("a", report(job)).effects] == [KillShare]
    assert [type(effect) for effect in core.report("a", report(job, "exited")).effects] == [ForgetShare]


def test_a_discarded_start_of_a_waiting_job_leaves_it_a_later_start() -> None:
    core = core_of("a")
    waiting = core.job(core.submit(make_request(gpus=1)))
    core.report("a", report(waiting))
    core.apply(Recovered(launches=(found(core, waiting, None),), discard=True))
    assert (core.job(waiting.id).restarts, core.job(waiting.id).user_restarts) == (1, 0)
    assert [type(effect) for effect in core.report("a", report(waiting)).effects] == [KillShare]
    check(core)


def test_the_launch_of_another_submission_is_kept_until_it_is_discarded() -> None:
    core = core_of("a")
    own = core.job(core.submit(make_request(gpus=1)))
    foreign = msgspec.structs.replace(lost_job(), id=own.id, array_job_id=own.id, submit_at_unix=5.0)
    core.report("a", report(foreign))
    kept = found(core, foreign, report(foreign))
    assert action_of(core.state, kept) is Action.KEEP
    assert core.apply(Recovered(launches=(kept,))).effects == () and not core.state.may_start
    core.apply(Recovered(launches=(kept,), discard=True))
    assert core.state.may_start and core.job(own.id).restarts == 1


def test_a_node_cannot_change_the_record_of_a_job() -> None:
    job = lost_job()
    record = sent(job).record
    kind: dict[str, Any] = {"node": A, "job_id": job.id, "restarts": 0}
    assert open_record(record, SEAL, **kind) is not None
    for changed in (
        "",
        record[:-4],
        record[:70] + "AAAA" + record[74:],
        "0" * 64 + record[64:],
        "x." + record,
    ):
        assert open_record(changed, SEAL, **kind) is None
    assert open_record(record, SEAL, **{**kind, "job_id": job.id + 1}) is None
    assert open_record(record, SEAL, **{**kind, "node": NodeName("b")}) is None
    assert open_record(record, SiteSeal("other"), **kind) is None


@given(st.lists(st.tuples(st.integers(1, 9**15), st.integers(0, 99)), max_size=50))
def test_the_list_of_forgotten_launches_is_read_as_it_was_written(keys: list[tuple[int, int]]) -> None:
    launches = [(key, "0a-1b") for key in keys]
    assert list(parse_past(format_past(launches))) == launches


@pytest.mark.parametrize(
    "text", ["1", "1.", "x.0.p", "-1.0.p", "1.0", "1.2.3.4 5.6.7", "." * 200, "1.0." + "9" * 200]
)
def test_a_damaged_list_of_forgotten_launches_is_read_as_far_as_possible(text: str) -> None:
    for (job_id, restarts), _ in parse_past(text):
        assert job_id >= 0 and restarts >= 0


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 5)), max_size=6),
    st.sets(st.integers(1, 40), max_size=20),
)
def test_recovered_ids_are_not_lost_any_more_and_all_others_stay(
    ranges: list[tuple[int, int]], ids: set[int]
) -> None:
    recovery = Recovery(lost_ids=tuple((first, first + length) for first, length in ranges))
    launches = tuple(UnknownLaunch(node=A, job_id=JobId(each), restarts=0, phase="ended") for each in ids)
    left = recovery.without(launches)
    assert {each for each in range(50) if left.lost(each)} == {
        each for each in range(50) if recovery.lost(each)
    } - ids


@given(st.data())
def test_no_ordinary_history_ever_needs_a_recovery(data: st.DataObject) -> None:
    """Reports of the past, repeated in any order after any events of one controller, are never unknown."""
    core = core_of("a", "b")
    seen: list[tuple[str, wire.JobReport]] = []
    for _ in range(data.draw(st.integers(1, 12))):
        match data.draw(st.sampled_from(["run", "end", "requeue", "repeat", "evict"])):
            case "run":
                job = core.job(core.submit(make_request(gpus=data.draw(st.integers(0, 4)), requeue=True)))
                core.launch(core.plan().effects)
            case "end" if core.state.index.active:
                job = core.job(data.draw(st.sampled_from(sorted(core.state.index.active))))
                for share in job.shares:
                    proven = report(
                        job, "exited", node=share.node, cause=data.draw(st.sampled_from(["", "node_fail"]))
                    )
                    seen.append((share.node, report(job, node=share.node)))
                    seen.append((share.node, proven))
                    core.report(share.node, proven)
                    core.agents[share.node].jobs.pop((job.id, job.restarts), None)
            case "repeat" if seen:
                core.report(*data.draw(st.sampled_from(seen)))
            case "evict":
                for job_id in [each.id for each in core.state.jobs.values() if each.is_finished][:1]:
                    core.state.evict_job(job_id)
            case _:
                for name in ("a", "b"):
                    core.up(name)
    for name, each in seen:
        core.report(name, each)
    assert not core.state.recovery.is_needed


def test_the_waiting_user_still_gets_the_next_id_after_a_recovery() -> None:
    core, job = core_of("a"), lost_job()
    core.report("a", report(job))
    core.apply(Recovered(launches=(found(core, job, report(job, started_at=1000.0)),)))
    assert core.submit(make_request(), who=ANN) == job.id + 1


def test_a_rollback_undoes_a_recovery() -> None:
    core, job = core_of("a"), lost_job()
    before = (core.state.recovery, core.state.next_job_id)
    txn = Transaction(core.state, 1.0)
    txn.put_recovery(Recovery(lost_ids=((1, 2),)))
    txn.raise_job_ids(job.id)
    txn.rollback()
    assert (core.state.recovery, core.state.next_job_id) == before
