"""Holding, releasing and requeueing jobs."""

from __future__ import annotations

from tests.support.core import ANN, Core, make_request, result_of

from warpdeck.controller.events.events import Cancelled, Held, Released, Requeued
from warpdeck.model import ArraySpec, JobState, NodeName, PtySize


def test_held_jobs_wait_until_released() -> None:
    core = Core("a")
    job_id = core.submit()
    core.apply(Held(principal=ANN, jobs=(str(job_id),)))
    assert core.plan().effects == () and core.state.planned.pending_reasons[job_id].code == "JobHeldUser"
    core.apply(Released(principal=ANN, jobs=(str(job_id),)))
    core.launch(core.plan().effects)
    assert core.job(job_id).state is JobState.RUNNING


def test_a_running_job_may_be_held_and_stays_held_after_a_requeue() -> None:
    core = Core("a")
    job_id = core.run(make_request())
    reference = (str(job_id),)
    assert core.apply(Held(principal=ANN, jobs=reference)).errors == ()
    core.apply(Released(principal=ANN, jobs=reference))
    assert not core.job(job_id).held
    core.apply(Held(principal=ANN, jobs=reference))
    core.apply(Requeued(principal=ANN, jobs=reference))
    core.end(job_id, signal=15)
    core.plan()
    assert (core.job(job_id).state, core.state.planned.pending_reasons[job_id].code) == (
        JobState.PENDING,
        "JobHeldUser",
    )
    [run] = result_of(core.store.runs_of([job_id]))
    assert (run.restarts, run.exit.cause if run.exit else "") == (0, "requeued")


def test_an_ended_job_cannot_be_held() -> None:
    core = Core("a")
    job_id = core.run(make_request())
    core.end(job_id)
    assert "has ended" in core.apply(Held(principal=ANN, jobs=(str(job_id),))).errors[0]


def test_a_part_of_an_array_can_be_held() -> None:
    core = Core("a")
    core.submit(make_request(array=ArraySpec(ranges=((0, 9, 1),)), gpus=1))
    core.apply(Held(principal=ANN, jobs=("1_[0-4]",)))
    core.launch(core.plan().effects)
    assert {job.array_task_id for job in core.state.jobs.values() if job.holds_resources} == {5, 6, 7, 8}


def test_canceling_waiting_tasks_refuses_started_ones() -> None:
    core = Core("a")
    core.submit(make_request(array=ArraySpec(ranges=((0, 9, 1),)), gpus=4))
    core.launch(core.plan().effects)
    outcome = core.apply(Cancelled(principal=ANN, jobs=("1_[0-4]",), waiting_only=True))
    assert (outcome.labels, outcome.errors) == (("1_[0-4]",), ())
    left = {job.label() for job in core.state.jobs.values() if not job.is_finished}
    assert left == {"1_0", "1_[5-9]"}
    assert core.kills(outcome) == []
    refused = core.apply(Cancelled(principal=ANN, jobs=("1_0",), waiting_only=True))
    assert (refused.labels, refused.codes) == ((), ("already_begun",))


def test_requeue_ends_the_run_and_increments_the_start_count() -> None:
    core = Core("a")
    job_id = core.run(make_request(gpus=1))
    outcome = core.apply(Requeued(principal=ANN, jobs=(str(job_id),)))
    assert core.kills(outcome) == [("a", "requeued", 0)]
    core.end(job_id, signal=15, cause="requeued")
    job = core.job(job_id)
    assert (job.state, job.restarts, job.allocation, job.exit) == (JobState.PENDING, 1, None, None)
    core.launch(core.plan().effects)
    assert core.agents[NodeName("a")].begun == [(job_id, 0), (job_id, 1)]


def test_an_ended_job_that_left_memory_can_be_requeued() -> None:
    core = Core("a")
    job_id = core.run()
    core.end(job_id, exit_code=1)
    old = core.job(job_id)
    core.state.evict_job(job_id)
    assert "not known" in core.apply(Requeued(principal=ANN, jobs=(str(job_id),))).errors[0]
    assert core.apply(Requeued(principal=ANN, jobs=(str(job_id),), ended=(old,))).labels == (str(job_id),)
    assert (core.job(job_id).state, core.job(job_id).restarts) == (JobState.PENDING, 1)


def test_a_refused_requeue_names_the_reason() -> None:
    core = Core("a")
    waiting = core.submit(make_request(hold=True))
    shell = core.run(make_request(script="", argv=("sh",), pty=PtySize()))
    ending = core.run()
    core.apply(Cancelled(principal=ANN, jobs=(str(ending),)))
    outcome = core.apply(Requeued(principal=ANN, jobs=(str(waiting), str(shell), str(ending))))
    for error, words in zip(outcome.errors, ("already waiting", "interactive", "is ending"), strict=True):
        assert words in error


def test_a_cancellation_overrides_an_earlier_requeue() -> None:
    core = Core("a")
    job_id = core.run()
    core.apply(Requeued(principal=ANN, jobs=(str(job_id),)))
    core.apply(Cancelled(principal=ANN, jobs=(str(job_id),)))
    core.end(job_id, signal=15, cause="requeued")
    assert core.job(job_id).state is JobState.CANCELLED
