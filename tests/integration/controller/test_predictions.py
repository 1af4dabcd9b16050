"""Facts that the planner learns from the past: run times of users' jobs, waiting times, and announced
starts.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.core import ANN, BOB, ROOT, Core, make_request
from tests.support.served import served

from warpdeck.config import tables
from warpdeck.controller.events.events import Cancelled, Held, Released, Submitted
from warpdeck.controller.state.planner_view import build_view
from warpdeck.model import ArraySpec, Dependencies, Dependency, JobId
from warpdeck.ports.store import WAITS_PERIOD_S, Waits

DAY_S = 86_400.0


def run_for(core: Core, seconds: float, **facts: object) -> None:
    job_id = core.run()
    core.now += seconds
    core.end(job_id, ended_at=core.now, **facts)


def predictions(core: Core) -> list[float | None]:
    core.submit(make_request(time_limit_s=3600))
    core.submit(make_request(time_limit_s=100))
    core.submit(make_request(), BOB)
    return [job.predicted_s for job in build_view(core.state, now=core.now).pending[-3:]]


def test_a_prediction_is_the_mean_of_the_last_two_runs_up_to_the_limit() -> None:
    core = Core("a")
    assert predictions(core) == [None, None, None]
    core = Core("a")
    for seconds in (5000.0, 200.0, 400.0):
        run_for(core, seconds)
    assert predictions(core) == [300.0, 100.0, None]


def test_cancelled_jobs_do_not_affect_predictions() -> None:
    core = Core("a")
    run_for(core, 200.0, exit_code=1)
    job_id = core.run()
    core.now += 5
    core.apply(Cancelled(principal=ANN, jobs=(str(job_id),)))
    core.end(job_id, ended_at=core.now)
    assert predictions(core) == [200.0, 100.0, None]


def test_predictions_survive_a_killed_controller() -> None:
    core = Core("a")
    for seconds in (200.0, 400.0, 600.0):
        run_for(core, seconds)
    waiting = core.submit(make_request(hold=True))
    before, links = core.state, core.state.node_status.links
    core.state = core.reload()
    core.state.node_status.links = links
    assert core.job(waiting).predicted_s == 500.0
    assert core.state.planned.waits == before.planned.waits
    assert predictions(core) == [500.0, 100.0, None]


def test_a_running_job_has_a_predicted_end_and_its_error() -> None:
    core = Core("a")
    run_for(core, 300.0)
    job_id = core.run(make_request(time_limit_s=3600))
    (running,) = build_view(core.state, now=core.now + 10).running
    assert running.expects_end_unix == core.now + 300.0
    assert running.ends_by_unix == core.now + 3600
    core.now += 500
    core.end(job_id, ended_at=core.now)
    job = core.job(job_id)
    assert (job.predicted_s, job.ran_s()) == (300.0, 500.0)


def test_waiting_tasks_are_predicted_from_ended_tasks_of_their_array() -> None:
    core = Core("a")
    run_for(core, 3000.0)
    array = core.run(make_request(gpus=4, time_limit_s=3600, array=ArraySpec(ranges=((0, 9, 1),))))
    assert core.job(array).predicted_s == 3000.0
    for task, known in ((0, 1505.0), (1, 10.0)):
        running = next(job for job in core.state.array_members(array) if job.array_task_id == task)
        core.now += 10
        core.end(running.id, ended_at=core.now)
        assert core.job(array).predicted_s == known
        core.launch(core.plan().effects)
    third = next(job for job in core.state.array_members(array) if job.array_task_id == 2)
    assert third.predicted_s == 10.0
    assert core.reload().jobs[array].predicted_s == 10.0, "a restarted controller knows it too"


def test_the_prediction_of_short_tasks_does_not_change_with_each_end() -> None:
    core = Core("a")
    run_for(core, 2.0)
    array = core.run(make_request(gpus=4, time_limit_s=3600, array=ArraySpec(ranges=((0, 9, 1),))))
    for task in range(3):
        running = next(job for job in core.state.array_members(array) if job.array_task_id == task)
        core.now += 1.2
        core.end(running.id, ended_at=core.now)
        assert core.job(array).predicted_s == 2.0
        core.launch(core.plan().effects)


def test_the_longest_wait_counts_from_the_eligible_time() -> None:
    core = Core("a")
    first = core.run()
    held = core.submit(make_request(hold=True))
    after = core.submit(
        make_request(dependencies=Dependencies(clauses=(Dependency(kind="afterany", job_id=JobId(first)),)))
    )
    core.now += 1000
    core.end(first, ended_at=core.now - 400)
    core.apply(Held(principal=ROOT, jobs=(str(held),)))
    core.apply(Released(principal=ROOT, jobs=(str(held),)))
    core.now += 50
    waiting = {job.id: job.eligible_at_unix for job in build_view(core.state, now=core.now).pending}
    assert waiting == {held: core.now - 50, after: core.now - 450}
    core.plan()
    assert core.job(after).eligible_at_unix == core.now - 450
    assert build_view(core.state, now=core.now).longest_wait_s == 450.0


def test_a_long_wait_is_forgotten_after_a_while() -> None:
    waits = Waits().after(5.0, 10.0).after(3.0, 20.0)
    assert waits.longest_s(30.0) == 5.0
    later = waits.after(2.0, WAITS_PERIOD_S + 11.0)
    assert later.longest_s(WAITS_PERIOD_S + 12.0) == 5.0
    assert later.longest_s(2 * WAITS_PERIOD_S + 12.0) == 2.0
    assert later.longest_s(3 * WAITS_PERIOD_S + 12.0) == 0.0


async def test_conservative_backfill_keeps_reserved_starts_between_passes(short_tmp: Path) -> None:
    scheduler = tables.Scheduler(backfill="conservative")
    async with served(short_tmp / "h", scheduler=scheduler) as site:
        agent = await site.add_node("a")
        for _ in range(2):
            await site.controller.apply(
                Submitted(principal=ANN, request=make_request(gpus=4, time_limit_s=600))
            )
        await site.report("a", agent.begin((1, 0), at=site.controller.clock()))
        await site.controller.apply(Submitted(principal=ANN, request=make_request(gpus=4, time_limit_s=600)))
        state = site.controller.state
        await site.until(lambda: set(state.planned.reserved_starts) == {2, 3})
        assert state.planned.reserved_starts[JobId(3)] == pytest.approx(
            state.planned.reserved_starts[JobId(2)] + 600, abs=5
        )
        await site.controller.apply(Cancelled(principal=ANN, jobs=("3",)))
        assert set(state.planned.reserved_starts) == {2}
