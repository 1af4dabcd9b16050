"""The reducer, event by event: changes of jobs, and effects after the commit."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.core import ANN, BOB, NEW_ANN, ROOT, Core, make_request

from warpdeck.base.errors import InvalidTransition, UserError
from warpdeck.config import Site
from warpdeck.controller.events.effects import ForgetShare, KillShare, LaunchShare
from warpdeck.controller.events.events import (
    Cancelled,
    Held,
    LaunchRefused,
    NodeDrained,
    NodeRemoved,
    Planned,
    Requeued,
)
from warpdeck.controller.reducers.reduce import reduce
from warpdeck.controller.state.state import State
from warpdeck.controller.state.transaction import Transaction
from warpdeck.model import ArraySpec, Job, JobId, JobState, NodeName, Resources
from warpdeck.policy import ReservationView, Start
from warpdeck.ports.caller import Principal
from warpdeck_agent.wire import messages as wire


def array(last: int, **fields: Any) -> Any:
    return make_request(array=ArraySpec(ranges=((0, last, 1),)), **fields)


def labels(core: Core, job_id: int) -> dict[str, JobState]:
    return {job.label(): job.state for job in core.state.array_members(JobId(job_id))}


# ---- Submission


def test_a_submission_gets_the_next_id_and_waits() -> None:
    core = Core("a")
    first, second = core.submit(), core.submit()
    assert (first, second) == (1, 2)
    assert core.job(1).state is JobState.PENDING and core.job(1).submit_at_unix == core.now


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (make_request(gpus=5), "can never start: the job requests 5 GPUs"),
        (make_request(nodes=3), "3 nodes; there are 2"),
        (make_request(script=""), "neither a script nor a command"),
        (make_request(array=ArraySpec(ranges=())), "empty or overlap"),
        (make_request(array=ArraySpec(ranges=((5, 1, 1),))), "empty or overlap"),
        (make_request(array=ArraySpec(ranges=((0, 9, 1), (5, 12, 1)))), "empty or overlap"),
        (make_request(array=ArraySpec(ranges=((0, 2_000_000, 1),))), "more than 1,000,000"),
        (make_request(nice=-1), "only admins"),
        (make_request(deadline_unix=1060.0, time_limit_s=60), "before its deadline"),
        (make_request(resources=Resources(constraint="(a")), "missing '\\)'"),
        (make_request(resources=Resources(constraint="a")), "can never start"),
    ],
)
def test_an_impossible_submission_is_refused_and_takes_no_id(request_: Any, words: str) -> None:
    core = Core("a", "b")
    with pytest.raises(UserError, match=words):
        core.submit(request_)
    assert core.state.next_job_id == 1 and not core.state.jobs


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mine", ""),
        ("over", "no reservation over"),
        ("none", "no reservation none"),
        ("theirs", "not for ann"),
    ],
)
def test_a_reservation_must_exist_and_admit_the_user(name: str, words: str) -> None:
    core = Core("a")
    made = [("mine", "ann", 9e9), ("over", "ann", core.now), ("theirs", "bob", 9e9)]
    core.state.site = Site(
        reservations=tuple(
            ReservationView(
                name=each,
                nodes=frozenset({NodeName("a")}),
                start_unix=0.0,
                end_unix=end,
                users=frozenset({user}),
            )
            for each, user, end in made
        )
    )
    if not words:
        assert core.job(core.run(make_request(reservation=name))).state is JobState.RUNNING
        return
    with pytest.raises(UserError, match=words):
        core.submit(make_request(reservation=name))


def test_an_array_is_one_record_until_its_tasks_start() -> None:
    core = Core("a")
    job_id = core.submit(array(99_999))
    assert len(core.state.jobs) == 1 and core.job(job_id).label() == "1_[0-99999]"
    assert core.submit(array(0)) == 2 and core.job(2).label() == "2_0"


# ---- Planning and starts


def test_a_start_is_committed_and_then_launched_on_every_node() -> None:
    core = Core("a", "b")
    job_id = core.submit(make_request(gpus=4, nodes=2))
    outcome = core.plan()
    assert core.job(job_id).state is JobState.CONFIGURING
    assert [effect.node for effect in outcome.effects if isinstance(effect, LaunchShare)] == ["a", "b"]
    a, b = core.agents.values()
    core.report("a", a.begin((job_id, 0)))
    assert core.job(job_id).state is JobState.CONFIGURING
    core.report("b", b.begin((job_id, 0)))
    assert core.job(job_id).state is JobState.RUNNING


def test_a_start_that_no_longer_fits_is_left_for_the_next_pass() -> None:
    core = Core("a")
    first = core.run(make_request(gpus=3))
    allocation = core.job(first).allocation
    assert allocation is not None
    second = core.submit(make_request(gpus=3))
    outcome = core.apply(Planned(starts=(Start(job_id=second, allocation=allocation),)))
    assert outcome.effects == () and core.job(second).state is JobState.PENDING


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("other", [BOB, NEW_ANN], ids=["another name", "another uid"])
def test_a_start_beside_another_users_new_job_is_dropped_if_one_is_exclusive(
    exclusive: int, other: Principal
) -> None:
    core, requests = Core("a"), [make_request(), make_request()]
    own = msgspec.structs.replace(requests[exclusive].resources, share_with="user")
    requests[exclusive] = msgspec.structs.replace(requests[exclusive], resources=own)
    allocation = core.job(core.run(requests[0])).allocation
    assert allocation is not None
    theirs, own_users = core.submit(requests[1], other), core.submit(requests[1], ANN)
    starts = [Start(job_id=job_id, allocation=allocation) for job_id in (theirs, own_users)]
    core.apply(Planned(starts=tuple(starts)))
    assert core.job(theirs).state is JobState.PENDING
    assert core.job(own_users).state is JobState.CONFIGURING


@pytest.mark.parametrize("happened", ["held", "cancelled", "drained", "lost", "gone"])
def test_a_start_is_checked_against_changes_since_it_was_planned(happened: str) -> None:
    core = Core("a")
    probe = core.run(make_request(gpus=1))
    allocation = core.job(probe).allocation
    core.end(probe)
    assert allocation is not None
    job_id = core.submit(make_request(gpus=1))
    if happened == "held":
        core.apply(Held(principal=ANN, jobs=(str(job_id),)))
    elif happened == "cancelled":
        core.apply(Cancelled(principal=ANN, jobs=(str(job_id),)))
    elif happened == "drained":
        core.apply(NodeDrained(name=NodeName("a"), reason="fan"))
    elif happened == "lost":
        core.lose("a")
    else:
        core.apply(NodeRemoved(name=NodeName("a")))
    assert core.apply(Planned(starts=(Start(job_id=job_id, allocation=allocation),))).effects == ()
    assert not core.state.index.active


def test_started_tasks_get_their_own_records_and_the_last_takes_the_arrays() -> None:
    core = Core("a")
    job_id = core.submit(array(2, gpus=1))
    core.launch(core.plan().effects)
    members = core.state.array_members(job_id)
    assert sorted((job.array_task_id, job.id) for job in members) == [(0, 2), (1, 3), (2, 1)]
    assert {job.state for job in members} == {JobState.RUNNING}


# ---- Ends


@pytest.mark.parametrize(
    ("facts", "state", "exit_code", "cause"),
    [
        ({"exit_code": 0}, JobState.COMPLETED, "0:0", ""),
        ({"exit_code": 3}, JobState.FAILED, "3:0", ""),
        ({"signal": 9}, JobState.FAILED, "0:9", ""),
        ({"exit_code": 137}, JobState.FAILED, "137:0", ""),
        ({"signal": 15, "cause": "timeout"}, JobState.TIMEOUT, "0:15", "timeout"),
        ({"signal": 9, "cause": "oom"}, JobState.OUT_OF_MEMORY, "0:9", "oom"),
        ({"phase": "lost"}, JobState.FAILED, "0:0", "unknown"),
        ({"exit_code": 1, "cause": "unknown"}, JobState.FAILED, "1:0", "unknown"),
    ],
)
def test_a_reported_end_determines_state_exit_code_and_cause(
    facts: Any, state: JobState, exit_code: str, cause: str
) -> None:
    core = Core("a")
    job_id = core.run()
    core.now += 60
    outcome = core.end(job_id, **facts)
    job = core.job(job_id)
    assert (job.state, str(job.exit), job.exit and job.exit.cause) == (state, exit_code, cause)
    assert job.end_at_unix == core.now and not core.state.index.active
    assert outcome.effects == (ForgetShare(node=NodeName("a"), job_id=job_id, restarts=0),)


def test_a_job_may_end_before_it_is_reported_as_running() -> None:
    core = Core("a")
    job_id = core.submit()
    core.plan()
    core.report("a", core.agents[NodeName("a")].end((job_id, 0), started_at=1000.5, ended_at=1000.6))
    job = core.job(job_id)
    assert (job.state, job.start_at_unix, job.end_at_unix) == (JobState.COMPLETED, 1000.5, 1000.6)


def test_an_end_is_never_before_its_start_if_a_clock_is_set_back() -> None:
    core = Core("a")
    job_id = core.run()
    core.end(job_id, ended_at=10.0)
    assert core.job(job_id).end_at_unix == core.job(job_id).start_at_unix


def test_the_end_of_a_batch_script_ends_the_other_nodes_of_its_gang() -> None:
    core = Core("a", "b")
    job_id = core.run(make_request(nodes=2))
    first, second = core.job(job_id).shares
    outcome = core.report(first.node, core.agents[first.node].end((job_id, 0), exit_code=4))
    assert core.job(job_id).state is JobState.COMPLETING
    assert core.kills(outcome) == [(second.node, "", 0)]
    core.report(second.node, core.agents[second.node].end((job_id, 0), signal=15, cause="cancelled"))
    assert (core.job(job_id).state, str(core.job(job_id).exit)) == (JobState.FAILED, "4:0")


def test_a_refused_launch_fails_the_job_with_the_reason() -> None:
    core = Core("a")
    job_id = core.submit()
    core.plan()
    refused = wire.LaunchFailed(job_id=job_id, restarts=0, message="no such user")
    core.apply(LaunchRefused(name=NodeName("a"), failed=refused))
    job = core.job(job_id)
    assert job.exit is not None
    assert (job.state, job.exit.cause, job.exit.message) == (JobState.FAILED, "launch_failed", "no such user")


# ---- Repeated, late and unexpected messages


def test_a_repeated_report_changes_nothing() -> None:
    core = Core("a")
    job_id = core.run()
    running = core.job(job_id)
    assert core.report("a", core.agents[NodeName("a")].begin((job_id, 0))).effects == ()
    assert core.job(job_id) == running
    core.end(job_id, exit_code=2)
    ended = core.job(job_id)
    again = core.end(job_id, exit_code=2)
    assert core.job(job_id) == ended
    assert again.effects == (ForgetShare(node=NodeName("a"), job_id=job_id, restarts=0),)


def test_a_superseded_run_is_killed_and_its_end_is_ignored() -> None:
    core = Core("a")
    job_id = core.run()
    core.apply(Requeued(principal=ANN, jobs=(str(job_id),)))
    core.end(job_id, signal=15, cause="requeued")
    assert (core.job(job_id).state, core.job(job_id).restarts) == (JobState.PENDING, 1)
    late = core.report("a", wire.JobReport(job_id=job_id, restarts=0, phase="running"))
    assert late.effects == (KillShare(node=NodeName("a"), job_id=job_id, restarts=0, at_once=True),)
    core.report("a", wire.JobReport(job_id=job_id, restarts=0, phase="exited", exit_code=0))
    assert core.job(job_id).state is JobState.PENDING


def test_a_launch_of_a_job_that_ended_long_ago_is_killed_and_its_end_is_forgotten() -> None:
    core = Core("a")
    core.state.next_job_id = 100
    running = core.report("a", wire.JobReport(job_id=77, restarts=0, phase="running"))
    assert [type(effect) for effect in running.effects] == [KillShare]
    ended = core.report("a", wire.JobReport(job_id=77, restarts=0, phase="exited"))
    assert [type(effect) for effect in ended.effects] == [ForgetShare]
    assert not core.state.jobs


# ---- Cancel, hold, release, requeue


def test_canceling_a_waiting_job_ends_it() -> None:
    core = Core("a")
    job_id = core.submit()
    outcome = core.apply(Cancelled(principal=ANN, jobs=(str(job_id),)))
    assert outcome.effects == () and core.job(job_id).state is JobState.CANCELLED
    assert not core.state.index.pending
    again = core.apply(Cancelled(principal=ANN, jobs=(str(job_id),)))
    assert "has already ended" in again.errors[0]


def test_canceling_a_running_job_waits_for_its_nodes() -> None:
    core = Core("a", "b")
    job_id = core.run(make_request(nodes=2))
    outcome = core.apply(Cancelled(principal=ANN, jobs=(str(job_id),)))
    assert core.kills(outcome) == [("a", "cancelled", 0), ("b", "cancelled", 0)]
    assert core.job(job_id).state is JobState.COMPLETING and core.state.index.active
    core.end(job_id, signal=15, cause="cancelled")
    assert core.job(job_id).state is JobState.CANCELLED and not core.state.index.active


def test_a_canceled_launch_that_starts_late_is_killed() -> None:
    core = Core("a")
    job_id = core.submit()
    core.plan()
    core.apply(Cancelled(principal=ANN, jobs=(str(job_id),)))
    outcome = core.report("a", core.agents[NodeName("a")].begin((job_id, 0)))
    assert core.kills(outcome) == [("a", "cancelled", 0)]


def test_a_signal_is_sent_without_ending_the_job() -> None:
    core = Core("a")
    job_id = core.run()
    outcome = core.apply(Cancelled(principal=ANN, jobs=(str(job_id),), signal=10))
    assert core.kills(outcome) == [("a", "cancelled", 10)] and core.job(job_id).state is JobState.RUNNING
    waiting = core.submit(make_request(gpus=4, hold=True))
    assert core.apply(Cancelled(principal=ANN, jobs=(str(waiting),), signal=10)).errors


@pytest.mark.parametrize(
    ("reference", "left"),
    [
        ("1_1", {"1_[0,2-9]": "PENDING", "1_1": "CANCELLED"}),
        ("1_[3-5]", {"1_[0-2,6-9]": "PENDING", "1_[3-5]": "CANCELLED"}),
        ("1_[0-8]", {"1_9": "PENDING", "1_[0-8]": "CANCELLED"}),
        ("1_[0-9]", {"1_[0-9]": "CANCELLED"}),
        ("1_[8-40]", {"1_[0-7]": "PENDING", "1_[8-9]": "CANCELLED"}),
        ("1_[0-9:3]", {"1_[1-2,4-5,7-8]": "PENDING", "1_[0-9:3]": "CANCELLED"}),
        ("1", {"1_[0-9]": "CANCELLED"}),
    ],
)
def test_tasks_of_a_waiting_array_are_canceled_by_number(reference: str, left: dict[str, str]) -> None:
    core = Core("a")
    core.submit(array(9, hold=True))
    assert not core.apply(Cancelled(principal=ANN, jobs=(reference,))).errors
    assert labels(core, 1) == left
    assert core.state.next_job_id == 1 + len(left)


def test_canceling_a_range_covers_running_and_waiting_tasks() -> None:
    core = Core("a")
    core.submit(array(9, gpus=1))
    core.launch(core.plan().effects)
    outcome = core.apply(Cancelled(principal=ANN, jobs=("1_[2-6]",)))
    assert len(core.kills(outcome)) == 2  # tasks 2 and 3 run
    assert labels(core, 1)["1_[4-6]"] is JobState.CANCELLED
    assert labels(core, 1)["1_[7-9]"] is JobState.PENDING


def test_an_invalid_job_name_does_not_affect_the_others() -> None:
    core = Core("a")
    mine, theirs = core.submit(), core.submit(who=BOB)
    outcome = core.apply(Cancelled(principal=ANN, jobs=(str(theirs), "99", "x", str(mine))))
    assert outcome.labels == (str(mine),) and len(outcome.errors) == 3
    assert "belongs to bob" in outcome.errors[0] and "not known" in outcome.errors[1]
    assert core.job(theirs).state is JobState.PENDING and core.job(mine).state is JobState.CANCELLED
    assert core.apply(Cancelled(principal=ROOT, jobs=(str(theirs),))).labels


# ---- The transaction


def test_a_rolled_back_transaction_leaves_no_trace() -> None:
    core = Core("a")
    core.submit(array(9))
    before = content(core.state)
    txn = Transaction(core.state, 5.0)
    reduce(txn, Cancelled(principal=ANN, jobs=("1_[2-4]", "1_7")))
    reduce(txn, NodeRemoved(name=NodeName("a")))
    assert content(core.state) != before
    txn.rollback()
    assert content(core.state) == before and not txn.changes().journal


def content(state: State) -> Any:
    return (
        dict(state.jobs),
        dict(state.nodes),
        state.next_job_id,
        dict(state.index.pending),
        dict(state.index.active),
    )


def test_a_transition_outside_the_state_table_is_an_error() -> None:
    core = Core("a")
    job_id = core.submit()
    txn = Transaction(core.state, 5.0)
    job: Job = core.job(job_id)
    with pytest.raises(InvalidTransition, match="PENDING -> RUNNING"):
        txn.put_job(
            type(job)(**{name: getattr(job, name) for name in job.__struct_fields__} | {"state": "RUNNING"})
        )


def test_a_running_job_keeps_the_priority_of_its_start() -> None:
    core = Core("a")
    job_id = core.submit()
    core.state.planned.priorities[job_id] = 1132
    core.launch(core.plan().effects)
    assert core.job(job_id).priority == 1132
    core.apply(Requeued(principal=ANN, jobs=(str(job_id),)))
    core.end(job_id, signal=15)
    assert core.job(job_id).priority is None
