"""Suspended jobs: their resources, their resumption, and the repair of lost orders. Holds by admins."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from tests.support.core import ANN, BOB, ROOT, Core, make_request

from warpdeck.base.errors import UserError
from warpdeck.config import Config
from warpdeck.controller.events.effects import KillShare, Outcome
from warpdeck.controller.events.events import Cancelled, Held, Planned, Released, Requeued, Resumed, Suspended
from warpdeck.controller.launch.launching import build_launch
from warpdeck.controller.state.planner_view import build_view
from warpdeck.controller.state.view import gpu_holders
from warpdeck.model import JobId, JobState, NodeName, PreemptedClaim, WarnSignal
from warpdeck.policy import Preempt, Resume
from warpdeck.ports.caller import Principal
from warpdeck_agent.wire.messages import RESUMED, SUSPENDED


def preempt(core: Core, job_id: int, *, mode: str = "suspend", **fields: Any) -> Outcome:
    """Let the planner preempt the job."""
    order = Preempt(
        job_id=JobId(job_id), for_job_id=JobId(99), mode=mode, grace_s=20, sentence="makes room", **fields
    )
    return core.apply(Planned(preempts=(order,)))


def planner_resumes(core: Core, job_id: int) -> Outcome:
    return core.apply(Planned(resumes=(Resume(job_id=JobId(job_id)),)))


def suspend(core: Core, job_id: int, who: Any = ROOT) -> Outcome:
    return core.apply(Suspended(principal=who, jobs=(str(job_id),)))


def resume(core: Core, job_id: int, who: Any = ROOT) -> Outcome:
    return core.apply(Resumed(principal=who, jobs=(str(job_id),)))


STOP, CONTINUE = ("a", SUSPENDED, int(signal.SIGSTOP)), ("a", RESUMED, int(signal.SIGCONT))


@pytest.mark.parametrize("keeps_gpus", [True, False])
def test_a_suspended_job_releases_its_cpus_and_optionally_its_gpus(keeps_gpus: bool) -> None:
    core = Core("a")
    job_id = core.run(make_request(gpus=4))
    assert core.kills(preempt(core, job_id, keeps_gpus=keeps_gpus)) == [STOP]
    assert core.job(job_id).state is JobState.SUSPENDED
    held = build_view(core.state, now=core.now).running[0]
    assert held.suspended and held.allocation.shares[0].cpus == 0
    assert held.allocation.gpu_count() == (4 if keeps_gpus else 0)
    other = core.submit(make_request(gpus=4), BOB)
    core.launch(core.plan().effects)
    assert core.job(other).state is (JobState.PENDING if keeps_gpus else JobState.RUNNING)


def test_a_preempting_job_keeps_its_claim_until_it_starts() -> None:
    core = Core("a")
    victim = core.run(make_request(gpus=4))
    other = core.submit(make_request(gpus=4), BOB)
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


def test_a_canceled_suspended_job_does_not_reclaim_its_gpus() -> None:
    core = Core("a")
    job_id = core.run(make_request(gpus=4))
    preempt(core, job_id, keeps_gpus=False)
    core.run(make_request(gpus=4), BOB)
    core.apply(Cancelled(principal=ANN, jobs=(str(job_id),)))
    assert core.job(job_id).state is JobState.COMPLETING
    assert list(gpu_holders(core.state, NodeName("a")).values()) == [JobId(2)] * 4
    core.end(job_id, cause="cancelled")
    assert core.job(job_id).state is JobState.CANCELLED


def test_suspended_time_does_not_count_against_the_limit() -> None:
    core = Core("a")
    job_id = core.run(make_request(time_limit_s=600))
    before = core.job(job_id).ends_by_unix()
    assert before is not None
    preempt(core, job_id)
    core.now += 100
    assert core.kills(planner_resumes(core, job_id)) == [CONTINUE]
    assert core.job(job_id).state is JobState.RUNNING
    assert core.job(job_id).ends_by_unix() == before + 100


def test_the_planner_resumes_its_suspended_job_when_resources_are_free() -> None:
    core = Core("a")
    job_id = core.run(make_request(gpus=4))
    preempt(core, job_id, keeps_gpus=False)
    other = core.run(make_request(gpus=4), BOB)
    assert core.kills(core.plan()) == []
    core.end(other)
    assert core.kills(core.plan()) == [CONTINUE]
    assert core.job(job_id).state is JobState.RUNNING


def test_a_job_suspended_by_an_admin_is_resumed_only_by_an_admin() -> None:
    core = Core("a")
    job_id = core.run(make_request(gpus=1))
    assert core.kills(suspend(core, job_id)) == [STOP]
    assert core.kills(core.plan()) == [] and core.kills(planner_resumes(core, job_id)) == []
    with pytest.raises(UserError, match="only admins"):
        resume(core, job_id, ANN)
    assert core.kills(resume(core, job_id)) == [CONTINUE]
    assert core.job(job_id).state is JobState.RUNNING
    with pytest.raises(UserError, match="only admins"):
        suspend(core, job_id, ANN)


def test_an_admin_may_take_over_the_planners_suspension() -> None:
    core = Core("a")
    job_id = core.run()
    preempt(core, job_id)
    assert core.kills(suspend(core, job_id)) == []
    assert core.kills(planner_resumes(core, job_id)) == []
    assert core.job(job_id).state is JobState.SUSPENDED


def test_a_job_is_not_resumed_while_its_resources_are_in_use() -> None:
    core = Core("a")
    job_id = core.run(make_request(gpus=4))
    preempt(core, job_id, keeps_gpus=False)
    core.run(make_request(gpus=1), BOB)
    assert core.kills(planner_resumes(core, job_id)) == []
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


def test_suspend_orders_lost_with_the_connection_are_sent_again() -> None:
    core = Core("a")
    job_id = core.run()
    suspend(core, job_id)
    assert core.kills(core.up("a")) == [STOP]
    report = core.agents[NodeName("a")].jobs[job_id, 0]
    core.agents[NodeName("a")].jobs[job_id, 0] = type(report)(**{**vars(report), "suspended": True})
    assert core.kills(core.up("a")) == []
    resume(core, job_id)
    assert core.kills(core.up("a")) == [CONTINUE]


def test_a_suspended_job_can_be_cancelled() -> None:
    core = Core("a")
    job_id = core.run()
    suspend(core, job_id)
    assert core.kills(core.apply(Cancelled(principal=ANN, jobs=(str(job_id),)))) == [("a", "cancelled", 0)]
    core.end(job_id, signal=15, cause="cancelled")
    assert core.job(job_id).state is JobState.CANCELLED


def test_a_preempted_job_gets_grace_time_and_is_requeued() -> None:
    core = Core("a")
    job_id = core.run(make_request(time_limit_s=600))
    outcome = preempt(core, job_id, mode="requeue")
    assert [effect.grace_s for effect in outcome.effects if isinstance(effect, KillShare)] == [20]
    assert core.job(job_id).ends_by_unix() == core.now + 20
    core.end(job_id, exit_code=0, cause="preempted")
    job = core.job(job_id)
    assert (job.state, job.restarts, job.leaves_by_unix) == (JobState.PENDING, 1, None)


def test_a_job_preempted_by_cancellation_ends_as_preempted() -> None:
    core = Core("a")
    job_id = core.run()
    preempt(core, job_id, mode="cancel")
    core.end(job_id, signal=15, cause="preempted")
    assert core.job(job_id).state is JobState.PREEMPTED


# ---- Times


def test_a_job_that_can_no_longer_meet_its_deadline_ends() -> None:
    core = Core("a")
    core.run(make_request(gpus=4))
    late = core.submit(make_request(gpus=4, time_limit_s=600, deadline_unix=core.now + 1000), BOB)
    core.plan()
    assert core.job(late).state is JobState.PENDING
    core.now += 401
    core.plan()
    assert core.job(late).state is JobState.DEADLINE


def test_a_job_without_a_limit_may_run_until_its_deadline() -> None:
    core = Core("a")
    assert core.job(core.run(make_request(deadline_unix=core.now + 1000))).time_limit_s == 1000


def test_a_job_with_a_minimum_time_is_shortened_to_fit_before_a_reservation() -> None:
    core = Core("a")
    core.run(make_request(gpus=2, time_limit_s=600))
    core.submit(make_request(gpus=4, time_limit_s=600), BOB)
    warn = WarnSignal(number=10, before_s=60)
    short = core.submit(make_request(gpus=2, time_limit_s=7200, time_min_s=300, warn=warn))
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


def test_a_hold_placed_for_the_owner_is_released_by_the_owner() -> None:
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


def test_a_job_with_no_requeue_is_not_requeued() -> None:
    core = Core("a")
    job_id = core.submit(make_request(requeue=False))
    outcome = core.apply(Requeued(principal=ROOT, jobs=(str(job_id),)))
    assert "--no-requeue" in outcome.errors[0]


def test_the_user_of_a_private_controller_holds_jobs_as_owner() -> None:
    core = Core("a")
    me = Principal(user="ann", uid=1, admin=True)
    job_id = core.submit(who=me)
    core.apply(Held(principal=me, jobs=(str(job_id),)))
    assert core.job(job_id).held and not core.job(job_id).held_by_admin
