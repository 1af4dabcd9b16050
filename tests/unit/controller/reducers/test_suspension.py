"""Suspended jobs: the resources they keep, their resumption, and the repair of lost orders. Holds by
admins.
"""

from __future__ import annotations

import signal
from typing import Any

import pytest
from tests.support.core import ANN, BOB, ROOT, Core, ask

from warpdeck.base.errors import UserError
from warpdeck.config import Config
from warpdeck.controller.events.events import (
    Cancelled,
    Held,
    KillShare,
    Outcome,
    Planned,
    Released,
    Requeued,
    Resumed,
    Suspended,
)
from warpdeck.controller.launch.launching import build_launch
from warpdeck.controller.state.planner_view import build_view
from warpdeck.controller.state.view import gpu_holders
from warpdeck.model import JobId, JobState, NodeName, PreemptedClaim, WarnSignal
from warpdeck.policy import Preempt, Resume
from warpdeck.ports.caller import Principal
from warpdeck_agent.wire.messages import RESUMED, SUSPENDED


def push(core: Core, job_id: int, *, mode: str = "suspend", **fields: Any) -> Outcome:
    """Let the planner preempt the job."""
    order = Preempt(
        job_id=JobId(job_id), for_job_id=JobId(99), mode=mode, grace_s=20, sentence="makes room", **fields
    )
    return core.apply(Planned(preempts=(order,)))


def let_go_on(core: Core, job_id: int) -> Outcome:
    return core.apply(Planned(resumes=(Resume(job_id=JobId(job_id)),)))


def suspend(core: Core, job_id: int, who: Any = ROOT) -> Outcome:
    return core.apply(Suspended(principal=who, jobs=(str(job_id),)))


def resume(core: Core, job_id: int, who: Any = ROOT) -> Outcome:
    return core.apply(Resumed(principal=who, jobs=(str(job_id),)))


STOP, GO_ON = ("a", SUSPENDED, int(signal.SIGSTOP)), ("a", RESUMED, int(signal.SIGCONT))


@pytest.mark.parametrize("keeps_gpus", [True, False])
def test_a_suspended_job_gives_up_its_cpus_and_perhaps_its_gpus(keeps_gpus: bool) -> None:
    core = Core("a")
    job_id = core.run(ask(gpus=4))
    assert core.kills(push(core, job_id, keeps_gpus=keeps_gpus)) == [STOP]
    assert core.job(job_id).state is JobState.SUSPENDED
    held = build_view(core.state, now=core.now).running[0]
    assert held.suspended and held.allocation.shares[0].cpus == 0
    assert held.allocation.gpu_count() == (4 if keeps_gpus else 0)
    other = core.submit(ask(gpus=4), BOB)
    core.launch(core.plan().effects)
    assert core.job(other).state is (JobState.PENDING if keeps_gpus else JobState.RUNNING)


def test_the_one_for_whom_others_leave_knows_where_until_it_starts() -> None:
    core = Core("a")
    victim = core.run(ask(gpus=4))
    other = core.submit(ask(gpus=4), BOB)
    room = PreemptedClaim(nodes=(NodeName("a"),), until_unix=core.now + 1000)
    order = Preempt(
        job_id=victim,
        for_job_id=other,
        mode="requeue",
        grace_s=20,
        sentence="makes room",
        preempted_claim=room,
    )
    core.apply(Planned(preempts=(order,)))
    assert core.reload().jobs[other].preempted_claim == room
    assert [job.preempted_claim for job in build_view(core.state, now=core.now).pending] == [room]
    core.end(victim, cause="preempted")
    core.launch(core.plan().effects)
    assert core.job(other).state is JobState.RUNNING and core.job(other).preempted_claim is None
    assert core.job(victim).state is JobState.PENDING


def test_a_suspended_job_that_is_cancelled_does_not_take_back_what_it_gave_away() -> None:
    core = Core("a")
    job_id = core.run(ask(gpus=4))
    push(core, job_id, keeps_gpus=False)
    core.run(ask(gpus=4), BOB)
    core.apply(Cancelled(principal=ANN, jobs=(str(job_id),)))
    assert core.job(job_id).state is JobState.COMPLETING
    assert list(gpu_holders(core.state, NodeName("a")).values()) == [JobId(2)] * 4
    core.end(job_id, cause="cancelled")
    assert core.job(job_id).state is JobState.CANCELLED


def test_the_time_of_a_suspension_does_not_count() -> None:
    core = Core("a")
    job_id = core.run(ask(time_limit_s=600))
    before = core.job(job_id).ends_by_unix()
    assert before is not None
    push(core, job_id)
    core.now += 100
    assert core.kills(let_go_on(core, job_id)) == [GO_ON]
    assert core.job(job_id).state is JobState.RUNNING
    assert core.job(job_id).ends_by_unix() == before + 100


def test_the_planner_resumes_what_it_suspended_once_there_is_room() -> None:
    core = Core("a")
    job_id = core.run(ask(gpus=4))
    push(core, job_id, keeps_gpus=False)
    other = core.run(ask(gpus=4), BOB)
    assert core.kills(core.plan()) == []
    core.end(other)
    assert core.kills(core.plan()) == [GO_ON]
    assert core.job(job_id).state is JobState.RUNNING


def test_what_an_admin_suspended_only_an_admin_lets_go_on() -> None:
    core = Core("a")
    job_id = core.run(ask(gpus=1))
    assert core.kills(suspend(core, job_id)) == [STOP]
    assert core.kills(core.plan()) == [] and core.kills(let_go_on(core, job_id)) == []
    with pytest.raises(UserError, match="only admins"):
        resume(core, job_id, ANN)
    assert core.kills(resume(core, job_id)) == [GO_ON]
    assert core.job(job_id).state is JobState.RUNNING
    with pytest.raises(UserError, match="only admins"):
        suspend(core, job_id, ANN)


def test_an_admin_keeps_suspended_what_the_planner_had_suspended() -> None:
    core = Core("a")
    job_id = core.run()
    push(core, job_id)
    assert core.kills(suspend(core, job_id)) == []
    assert core.kills(let_go_on(core, job_id)) == []
    assert core.job(job_id).state is JobState.SUSPENDED


def test_a_job_does_not_go_on_while_others_have_what_it_held() -> None:
    core = Core("a")
    job_id = core.run(ask(gpus=4))
    push(core, job_id, keeps_gpus=False)
    core.run(ask(gpus=1), BOB)
    assert core.kills(let_go_on(core, job_id)) == []
    assert "are in use" in resume(core, job_id).errors[0]
    assert core.job(job_id).state is JobState.SUSPENDED


@pytest.mark.parametrize("state", ["waiting", "ended"])
def test_only_running_jobs_are_suspended_and_only_suspended_ones_resumed(state: str) -> None:
    core = Core("a")
    job_id = core.submit()
    if state == "ended":
        core.launch(core.plan().effects)
        core.end(job_id)
    assert "is not running" in suspend(core, job_id).errors[0]
    assert "is not suspended" in resume(core, job_id).errors[0]


def test_orders_that_were_lost_with_the_link_are_given_again() -> None:
    core = Core("a")
    job_id = core.run()
    suspend(core, job_id)
    assert core.kills(core.up("a")) == [STOP]
    said = core.agents[NodeName("a")].jobs[job_id, 0]
    core.agents[NodeName("a")].jobs[job_id, 0] = type(said)(**{**vars(said), "suspended": True})
    assert core.kills(core.up("a")) == []
    resume(core, job_id)
    assert core.kills(core.up("a")) == [GO_ON]


def test_a_suspended_job_can_be_cancelled() -> None:
    core = Core("a")
    job_id = core.run()
    suspend(core, job_id)
    assert core.kills(core.apply(Cancelled(principal=ANN, jobs=(str(job_id),)))) == [("a", "cancelled", 0)]
    core.end(job_id, signal=15, cause="cancelled")
    assert core.job(job_id).state is JobState.CANCELLED


def test_a_preempted_job_has_its_grace_time_and_waits_again_with_a_new_start_count() -> None:
    core = Core("a")
    job_id = core.run(ask(time_limit_s=600))
    outcome = push(core, job_id, mode="requeue")
    assert [effect.grace_s for effect in outcome.effects if isinstance(effect, KillShare)] == [20]
    assert core.job(job_id).ends_by_unix() == core.now + 20
    core.end(job_id, exit_code=0, cause="preempted")
    job = core.job(job_id)
    assert (job.state, job.restarts, job.leaves_by_unix) == (JobState.PENDING, 1, None)


def test_a_job_that_is_preempted_for_good_ends_so() -> None:
    core = Core("a")
    job_id = core.run()
    push(core, job_id, mode="cancel")
    core.end(job_id, signal=15, cause="preempted")
    assert core.job(job_id).state is JobState.PREEMPTED


# ---- Times


def test_a_job_that_cannot_end_before_its_deadline_any_more_ends() -> None:
    core = Core("a")
    core.run(ask(gpus=4))
    late = core.submit(ask(gpus=4, time_limit_s=600, deadline_unix=core.now + 1000), BOB)
    core.plan()
    assert core.job(late).state is JobState.PENDING
    core.now += 401
    core.plan()
    assert core.job(late).state is JobState.DEADLINE


def test_a_job_without_a_limit_may_run_until_its_deadline() -> None:
    core = Core("a")
    assert core.job(core.run(ask(deadline_unix=core.now + 1000))).time_limit_s == 1000


def test_a_job_that_takes_less_time_starts_before_a_reservation_and_is_warned_in_time() -> None:
    core = Core("a")
    core.run(ask(gpus=2, time_limit_s=600))
    core.submit(ask(gpus=4, time_limit_s=600), BOB)
    warn = WarnSignal(number=10, before_s=60)
    short = core.submit(ask(gpus=2, time_limit_s=7200, time_min_s=300, warn=warn))
    core.launch(core.plan().effects)
    job = core.job(short)
    assert job.state is JobState.RUNNING and job.time_limit_s is not None and 300 <= job.time_limit_s <= 600
    launch = build_launch(job, 0, submit_host="h", config=Config())
    assert (launch.time_limit_s, launch.warn_signal, launch.warn_before_s) == (job.time_limit_s, 10, 60.0)


# ---- Holds


def test_a_hold_of_an_admin_is_released_by_admins_only() -> None:
    core = Core("a")
    job_id = core.submit()
    core.apply(Held(principal=ROOT, jobs=(str(job_id),)))
    core.plan()
    assert core.state.planned.pending_reasons[JobId(job_id)].code == "JobHeldAdmin"
    assert "held by an admin" in core.apply(Released(principal=ANN, jobs=(str(job_id),))).errors[0]
    core.apply(Held(principal=ANN, jobs=(str(job_id),)))
    assert core.job(job_id).held_by_admin
    core.apply(Released(principal=ROOT, jobs=(str(job_id),)))
    assert not core.job(job_id).held and not core.job(job_id).held_by_admin


def test_what_an_admin_holds_for_its_owner_the_owner_releases() -> None:
    core = Core("a")
    job_id = core.submit()
    core.apply(Held(principal=ROOT, jobs=(str(job_id),)))
    core.apply(Held(principal=ANN, jobs=(str(job_id),), for_owner=True))
    assert core.job(job_id).held_by_admin, "an owner cannot undo an admin's hold so"
    core.apply(Held(principal=ROOT, jobs=(str(job_id),), for_owner=True))
    core.plan()
    assert core.state.planned.pending_reasons[JobId(job_id)].code == "JobHeldUser"
    core.apply(Released(principal=ANN, jobs=(str(job_id),)))
    assert not core.job(job_id).held


def test_a_job_that_never_wants_to_be_requeued_is_not() -> None:
    core = Core("a")
    job_id = core.submit(ask(requeue=False))
    said = core.apply(Requeued(principal=ROOT, jobs=(str(job_id),)))
    assert "--no-requeue" in said.errors[0]


def test_who_has_a_controller_for_himself_holds_his_jobs_like_anybody() -> None:
    core = Core("a")
    me = Principal(user="ann", uid=1, admin=True)
    job_id = core.submit(who=me)
    core.apply(Held(principal=me, jobs=(str(job_id),)))
    assert core.job(job_id).held and not core.job(job_id).held_by_admin
