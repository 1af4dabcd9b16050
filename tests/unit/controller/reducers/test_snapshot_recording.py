"""Code snapshots that arrive after the submission: waiting jobs, the deadline, and persistence."""

from __future__ import annotations

from tests.support.core import ANN, BOB, Core, make_request

from warpdeck.controller.events.effects import Outcome
from warpdeck.controller.events.events import CodeRecorded, Held
from warpdeck.controller.reducers.submitting import MAX_RECORDING_S
from warpdeck.controller.state.deadlines import next_deadline
from warpdeck.controller.state.planner_view import build_view
from warpdeck.model import ArraySpec, JobId, JobState, Snapshot
from warpdeck.policy import PlannerSettings, plan
from warpdeck.ports.caller import Principal

SNAPSHOT = Snapshot(commit="c" * 40, tree="t" * 40, root="/work")
DUE_S = 60.0


def submit(core: Core, *, due_s: float = DUE_S, array: ArraySpec | None = None) -> int:
    return core.submit(make_request(code_due_unix=core.now + due_s, array=array))


def record(core: Core, job: int, *, who: Principal = ANN, snapshot: Snapshot | None = SNAPSHOT) -> Outcome:
    return core.apply(
        CodeRecorded(principal=who, jobs=(str(job),), snapshot=snapshot, note="no snapshot: no git")
    )


def starts(core: Core) -> list[int]:
    """Return the jobs that a pass would start now."""
    return [
        start.job_id
        for start in plan(build_view(core.state, now=core.now), core.now, PlannerSettings()).starts
    ]


def test_a_job_waits_until_its_code_is_recorded() -> None:
    core = Core("a")
    job = submit(core)
    made = plan(build_view(core.state, now=core.now), core.now, PlannerSettings())
    assert not made.starts
    assert made.pending_reasons[JobId(job)].sentence == "its code snapshot is in progress"
    assert record(core, job).labels == (str(job),)
    assert starts(core) == [job]
    assert core.job(job).request.snapshot == SNAPSHOT == core.stored_job(job).request.snapshot


def test_a_job_starts_at_once_if_no_snapshot_can_be_recorded() -> None:
    core = Core("a")
    job = submit(core)
    assert not record(core, job, snapshot=None).errors
    assert starts(core) == [job]
    assert core.job(job).request.snapshot is None


def test_the_begin_time_is_the_reason_before_the_snapshot() -> None:
    core = Core("a")
    job = core.submit(make_request(code_due_unix=core.now + DUE_S, begin_at_unix=core.now + 2 * DUE_S))
    made = plan(build_view(core.state, now=core.now), core.now, PlannerSettings())
    assert made.pending_reasons[JobId(job)].code == "BeginTime"
    assert not record(core, job).errors
    assert not starts(core)


def test_a_job_starts_after_the_deadline_and_a_late_snapshot_is_stored() -> None:
    core = Core("a")
    job = submit(core, due_s=10 * MAX_RECORDING_S)
    assert next_deadline(core.state, core.now) == core.now + MAX_RECORDING_S
    core.now += MAX_RECORDING_S
    assert starts(core) == [job]
    core.plan()
    assert core.job(job).state is not JobState.PENDING
    assert not record(core, job).errors
    assert core.stored_job(job).request.snapshot == SNAPSHOT


def test_all_tasks_of_an_array_get_the_recorded_snapshot() -> None:
    core = Core("a")
    job = submit(core, array=ArraySpec(ranges=((0, 3, 1),)))
    core.apply(Held(principal=ANN, jobs=(f"{job}_2",)))
    assert not record(core, job).errors
    found = [each for each in core.reload().jobs.values() if each.array_job_id == job]
    assert len(found) == 2
    assert all(each.request.snapshot == SNAPSHOT for each in found)


def test_only_the_owner_may_record_and_only_for_waiting_jobs() -> None:
    core = Core("a")
    job, other = submit(core), core.submit(make_request())
    assert record(core, job, who=BOB).codes == ("not_owner",)
    assert record(core, other).codes == ("not_recording",)
    assert not record(core, job).errors
    assert record(core, job, snapshot=None).codes == ("not_recording",)
    assert core.job(job).request.snapshot == SNAPSHOT


def test_a_recorded_snapshot_of_a_held_job_causes_no_planning_pass() -> None:
    """A loop that submits held jobs would wait for a pass after every few."""
    core = Core("a")
    job = submit(core)
    core.apply(Held(principal=ANN, jobs=(str(job),)))
    assert not record(core, job).replan
    assert record(core, submit(core)).replan
