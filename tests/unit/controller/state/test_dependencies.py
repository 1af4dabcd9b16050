"""Dependencies of every kind: satisfied, waiting and impossible, with arrays, joined by "," and "?"."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.core import ANN, BOB, NEW_ANN, Core, make_request

from warpdeck.controller.events.events import Cancelled, Requeued, Submitted, Updated
from warpdeck.model import ArraySpec, Dependencies, JobId, JobState
from warpdeck.model.change import JobChange
from warpdeck.notation.values.dependencies import parse_dependencies


def on(text: str, **fields: Any) -> Any:
    """Return a request with these dependencies."""
    return make_request(dependencies=msgspec.convert(parse_dependencies(text), Dependencies), **fields)


def verdict(core: Core, job_id: int) -> str:
    """Return "starts", or the reason code of the next pass."""
    starts = core.plan().effects
    if any(getattr(effect, "job_id", 0) == job_id for effect in starts):
        return "starts"
    return core.state.planned.pending_reasons[JobId(job_id)].code


STARTS, WAITS, NEVER = "starts", "Dependency", "DependencyNeverSatisfied"


@pytest.mark.parametrize(
    ("kind", "waiting", "running", "completed", "failed", "cancelled"),
    [
        ("after", WAITS, STARTS, STARTS, STARTS, STARTS),
        ("afterany", WAITS, WAITS, STARTS, STARTS, STARTS),
        ("afterok", WAITS, WAITS, STARTS, NEVER, NEVER),
        ("afternotok", WAITS, WAITS, NEVER, STARTS, STARTS),
        ("aftercorr", WAITS, WAITS, STARTS, NEVER, NEVER),
    ],
)
def test_each_dependency_kind_follows_the_state_of_the_other_job(
    kind: str, waiting: str, running: str, completed: str, failed: str, cancelled: str
) -> None:
    for wanted, event in (
        (waiting, "wait"),
        (running, "run"),
        (completed, "complete"),
        (failed, "fail"),
        (cancelled, "cancel"),
    ):
        core = Core("a")
        other = core.submit(make_request(hold=True)) if event in ("wait", "cancel") else core.run()
        if event == "cancel":
            core.apply(Cancelled(principal=ANN, jobs=(str(other),)))
        elif event in ("complete", "fail"):
            core.end(other, exit_code=int(event == "fail"))
        assert verdict(core, core.submit(on(f"{kind}:{other}"))) == wanted, event


def test_the_reason_names_the_job_it_depends_on_and_its_end() -> None:
    core = Core("a")
    first = core.run()
    job_id = core.submit(on(f"afterok:{first}"))
    core.plan()
    assert core.state.planned.pending_reasons[job_id].sentence == f"waits for job {first} to end (afterok)"
    core.end(first, exit_code=1)
    core.plan()
    assert core.state.planned.pending_reasons[job_id].sentence == (
        f"can never start: depends on the success of job {first}, but {first} ended as FAILED"
    )
    assert core.job(job_id).state is JobState.PENDING


def test_a_failed_job_that_is_queued_again_may_still_succeed() -> None:
    core = Core("a")
    first = core.run()
    job_id = core.submit(on(f"afterok:{first}"))
    core.end(first, exit_code=1)
    assert verdict(core, job_id) == NEVER
    core.apply(Requeued(principal=ANN, jobs=(str(first),)))
    core.launch(core.plan().effects)
    assert verdict(core, job_id) == WAITS
    core.end(first, exit_code=0)
    assert verdict(core, job_id) == STARTS


def test_an_after_dependency_waits_its_minutes() -> None:
    core = Core("a")
    first = core.run()
    job_id = core.submit(on(f"after:{first}+10"))
    assert verdict(core, job_id) == WAITS
    assert "another 600 s" in core.state.planned.pending_reasons[job_id].sentence
    core.now += 600
    assert verdict(core, job_id) == STARTS


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("afterok:1,afterok:2", NEVER),
        ("afterok:1?afterok:2", STARTS),
        ("afterok:1,afterany:2", STARTS),
        ("afterok:1:3", WAITS),
        ("afterok:2?afterok:3", WAITS),
        ("afterok:2?afternotok:1", NEVER),
        ("afterok:2,afterok:3", NEVER),
    ],
)
def test_several_dependencies_require_all_or_any_of_them(text: str, wanted: str) -> None:
    core = Core("a")
    good, bad, running = core.run(), core.run(), core.run()
    core.end(good, exit_code=0)
    core.end(bad, exit_code=1)
    assert core.job(running).state is JobState.RUNNING
    assert verdict(core, core.submit(on(text))) == wanted


def test_an_array_has_ended_when_all_its_tasks_have_ended() -> None:
    core = Core("a")
    array = core.run(make_request(array=ArraySpec(ranges=((0, 4, 1),)), gpus=1))
    whole, second, fifth = (core.submit(on(f"afterok:{name}")) for name in ("1", "1_1", "1_4"))
    for job in core.state.array_members(array):
        if job.array_task_id in (0, 1):
            core.end(job.id, exit_code=0)
    assert core.job(whole).state is JobState.PENDING
    assert verdict(core, second) == STARTS
    core.launch(core.plan().effects)
    for job in core.state.array_members(array):
        if job.holds_resources:
            core.end(job.id, exit_code=int(job.array_task_id == 3))
    assert verdict(core, fifth) == STARTS
    core.plan()
    assert "1_3 ended as FAILED" in core.state.planned.pending_reasons[whole].sentence


def test_a_dependency_may_name_a_task_by_its_own_id() -> None:
    core = Core("a")
    array = core.run(make_request(array=ArraySpec(ranges=((0, 1, 1),)), gpus=1))
    task = next(job for job in core.state.array_members(array) if job.id != array)
    job_id = core.submit(on(f"afterok:{task.id}"))
    assert verdict(core, job_id) == WAITS
    core.end(task.id, exit_code=0)
    assert verdict(core, job_id) == STARTS


@pytest.mark.parametrize("name", ["99", "1_7", "2_0"])
def test_a_dependency_on_an_unknown_job_is_dropped_with_a_note(name: str) -> None:
    core = Core("a")
    core.submit(make_request(array=ArraySpec(ranges=((0, 4, 1),)), hold=True))
    held = core.submit(make_request(hold=True))
    for text, left in (
        (f"afterok:{name}", None),
        (f"afterok:{name},afterok:{held}", f"afterok:{held}"),
        (f"singleton,after:{name}", "singleton"),
        (f"afterok:{held}?afternotok:{name}", None),
    ):
        outcome = core.apply(Submitted(request=on(text), principal=ANN))
        assert outcome.job is not None
        assert outcome.job.request.dependencies == (on(left).dependencies if left else None)
        assert outcome.notes == (f"--dependency: job {name} is unknown and ignored",)


def test_a_dropped_dependency_of_an_update_is_recorded_in_the_history() -> None:
    core = Core("a")
    held = core.submit(make_request(hold=True))
    job_id = core.submit(on(f"afterok:{held}", hold=True))
    changed = JobChange(dependencies=on(f"afterok:98:99,after:{held}").dependencies)
    outcome = core.apply(Updated(principal=ANN, jobs=(str(job_id),), change=changed))
    assert not outcome.errors
    assert core.job(job_id).request.dependencies == on(f"after:{held}").dependencies
    assert "--dependency: jobs 98, 99 are unknown and ignored" in [
        entry.text for entry in core.store._journal[job_id]
    ]


def test_tasks_that_left_memory_count_for_dependencies() -> None:
    core = Core("a")
    array = core.run(make_request(array=ArraySpec(ranges=((0, 1, 1),)), gpus=1))
    bad, good = core.state.array_members(array)
    core.end(bad.id, exit_code=1)
    core.end(good.id, exit_code=0)
    old = core.job(bad.id)
    core.state.evict_job(bad.id)
    assert verdict(core, core.submit(on(f"afterok:{array}"), ended=(old,))) == NEVER


def test_singletons_of_a_user_run_one_after_the_other() -> None:
    core = Core("a")
    first = core.run(on("singleton", name="chain"))
    second, third = (core.submit(on("singleton", name="chain")) for _ in range(2))
    for other in (BOB, NEW_ANN):
        assert verdict(core, core.submit(on("singleton", name="chain"), who=other)) == STARTS
    assert (
        verdict(core, second) == WAITS
        and f"job {first}" in core.state.planned.pending_reasons[second].sentence
    )
    core.end(first, exit_code=1)
    assert verdict(core, second) == STARTS
    assert (
        verdict(core, third) == WAITS
        and f"job {second}" in core.state.planned.pending_reasons[third].sentence
    )


def test_the_tasks_of_a_singleton_array_do_not_wait_for_each_other() -> None:
    core = Core("a")
    core.submit(on("singleton", array=ArraySpec(ranges=((0, 3, 1),)), gpus=1))
    core.launch(core.plan().effects)
    assert len(core.state.index.active) == 4


# ---- aftercorr: task by task


def tasks_of(core: Core, array_id: int) -> dict[int, JobState]:
    """Return the tasks with separate records, by number."""
    members = core.state.array_members(JobId(array_id))
    return {job.array_task_id: job.state for job in members if job.array_task_id is not None}


def test_aftercorr_starts_each_task_after_the_task_with_its_number() -> None:
    core = Core("a")
    first = core.submit(make_request(array=ArraySpec(ranges=((0, 2, 1),))))
    core.launch(core.plan().effects)
    second = core.submit(on(f"aftercorr:{first}", array=ArraySpec(ranges=((0, 2, 1),))))
    assert verdict(core, second) == WAITS
    by_task = {job.array_task_id: job.id for job in core.state.array_members(first)}
    core.end(by_task[1])
    core.launch(core.plan().effects)
    assert tasks_of(core, second) == {1: JobState.RUNNING}
    assert verdict(core, second) == WAITS
    core.end(by_task[0], exit_code=1)
    core.end(by_task[2])
    core.launch(core.plan().effects)
    core.plan()
    states = tasks_of(core, second)
    assert (states[1], states[2]) == (JobState.RUNNING, JobState.RUNNING)
    left = [job for job in core.state.array_members(second) if job.state is JobState.PENDING]
    assert [job.label() for job in left] == [f"{second}_0"]
    assert core.state.planned.pending_reasons[left[0].id].code == NEVER


def test_aftercorr_on_a_missing_task_can_never_be_satisfied() -> None:
    core = Core("a")
    first = core.submit(make_request(array=ArraySpec(ranges=((0, 1, 1),))))
    second = core.submit(on(f"aftercorr:{first}", array=ArraySpec(ranges=((7, 7, 1),))))
    assert verdict(core, second) == NEVER


def test_aftercorr_on_a_plain_job_waits_for_the_whole_job() -> None:
    core = Core("a")
    other = core.run()
    second = core.submit(on(f"aftercorr:{other}", array=ArraySpec(ranges=((0, 1, 1),))))
    assert verdict(core, second) == WAITS
    core.end(other)
    core.launch(core.plan().effects)
    assert set(tasks_of(core, second).values()) == {JobState.RUNNING}
