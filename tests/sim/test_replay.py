"""Replays of workload logs. Each start equals that of a simple reference simulator."""

from __future__ import annotations

import random

import pytest
from tests.sim.reference_simulator import ReferenceJob, starts

from warpdeck.model import JobId
from warpdeck.policy import PlannerSettings, PlannerView
from warpdeck.sim.policies import settings_of
from warpdeck.sim.replay import ReplayResult, replay
from warpdeck.sim.report import bounded_slowdown, make_report, nearest_rank
from warpdeck.sim.resource_model import Machine, Pool
from warpdeck.sim.simjobs import SimJob, make_workload
from warpdeck.sim.trace import Trace, TraceJob

CPUS = 64


def site(machine: Machine) -> PlannerView:
    return PlannerView(nodes=machine.nodes, running=(), pending=())


def random_jobs(seed: int, *, count: int = 250) -> list[TraceJob]:
    """Return jobs of a crowded machine: bursts, equal times, and limits from half to ten times the run time."""
    rng = random.Random(seed)
    now, found = 0.0, []
    for number in range(count):
        now += 0.0 if not number else rng.choice((0.0, 0.0, 1.0, rng.randint(1, 120)))
        run_s = float(rng.choice((1, 5, 60, rng.randint(1, 2000))))
        limit_s = float(max(1, round(run_s * rng.choice((0.5, 1, 1, 2, 10)))))
        cpus = min(CPUS, rng.choice((1, 1, 2, 8, 16, rng.randint(1, CPUS))))
        found.append(
            TraceJob(
                job_id=str(number),
                submit_s=now,
                run_s=run_s,
                limit_s=limit_s,
                cpus=cpus,
                user=str(number % 5),
            )
        )
    return found


def play(jobs: list[TraceJob], policy: str, *, settings: PlannerSettings | None = None) -> ReplayResult:
    machine = Pool(CPUS)
    work = make_workload(Trace(jobs=tuple(jobs)), machine, limits="log")
    return replay(work.jobs, site(machine), settings or settings_of(policy, PlannerSettings()))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("policy", "backfill"), [("fcfs", False), ("fcfs-easy", True)])
def test_every_start_equals_the_reference(seed: int, policy: str, backfill: bool) -> None:
    jobs = random_jobs(seed)
    reference_jobs = [
        ReferenceJob(job.submit_s, job.cpus, job.run_s, job.limit_s or job.run_s) for job in jobs
    ]
    expected = starts(reference_jobs, cpus=CPUS, backfill=backfill)
    assert [run.start_s for run in play(jobs, policy).runs] == expected, f"seed {seed}"


@pytest.mark.parametrize("policy", ["fcfs", "fcfs-easy", "conservative", "default"])
def test_a_replay_never_exceeds_the_machine_and_starts_every_job(policy: str) -> None:
    jobs = random_jobs(99)
    played = play(jobs, policy)
    assert len(played.runs) == len(jobs) and not played.unstarted
    changes = sorted(
        change
        for run in played.runs
        for change in ((run.start_s, run.job.units), (run.end_s, -run.job.units))
    )
    held = 0
    for _, units in changes:
        held += units
        assert 0 <= held <= CPUS
    for run in played.runs:
        assert run.wait_s >= 0
        assert run.end_s - run.start_s == min(run.job.run_s, run.job.pending.time_limit_s or 0)


def test_equal_logs_give_equal_replays() -> None:
    first, again = (play(random_jobs(3), "default") for _ in range(2))
    assert first.runs == again.runs and first.predictions == again.predictions


def test_predictions_are_recorded_with_the_actual_run_times() -> None:
    jobs = [
        TraceJob(job_id=str(number), submit_s=1000.0 * number, run_s=run_s, limit_s=500.0, cpus=1, user="ann")
        for number, run_s in enumerate((100.0, 200.0, 400.0))
    ]
    predictions = play(jobs, "fcfs-easy").predictions
    assert [(each.predicted_s, each.ran_s, each.error_s) for each in predictions] == [
        (100, 200, -100),
        (150, 400, -250),
    ]
    assert [each.limit_error_s for each in predictions] == [300, 100]


def test_predictions_order_backfill_but_time_limits_bound_reservations() -> None:
    """Of two jobs that fit beside the reservation, the one predicted shorter starts first. Neither delays the first job."""

    def job(number: int, submit_s: float, run_s: float, limit_s: float, cpus: int, user: str) -> TraceJob:
        return TraceJob(
            job_id=str(number), submit_s=submit_s, run_s=run_s, limit_s=limit_s, cpus=cpus, user=user
        )

    jobs = [
        job(1, 0, 10, 10, 1, "quick"),
        job(2, 0, 90, 90, 1, "slow"),
        job(3, 100, 1000, 1000, 60, "wide"),
        job(4, 101, 50, 50, 64, "head"),
        job(5, 102, 100, 300, 4, "slow"),
        job(6, 102, 10, 300, 4, "quick"),
    ]
    settings = PlannerSettings(queue_order="submission")
    begun = {run.job.pending.label: run.start_s for run in play(jobs, "", settings=settings).runs}
    assert (begun["6"], begun["5"], begun["4"]) == (102, 112, 1100)


def test_a_job_that_can_never_start_is_reported() -> None:
    machine = Pool(CPUS)
    work = make_workload(Trace(jobs=(random_jobs(1)[0],)), machine, limits="log")
    small = Pool(0)
    played = replay(work.jobs, site(small), settings_of("fcfs-easy", PlannerSettings()))
    assert played.runs == () and [job.pending.id for job in played.unstarted] == [JobId(1)]
    assert make_report(played, machine_units=CPUS).unstarted == 1


def test_the_report_uses_the_standard_metrics() -> None:
    jobs = [
        TraceJob(job_id="1", submit_s=0, run_s=100, cpus=64),
        TraceJob(job_id="2", submit_s=0, run_s=1, cpus=64),
    ]
    report = make_report(play(jobs, "fcfs"), machine_units=CPUS, refused=3)
    assert (report.jobs, report.mean_wait_s, report.p95_wait_s, report.max_wait_s) == (2, 50, 100, 100)
    assert (report.makespan_s, report.utilization, report.refused) == (101, 1.0, 3)
    assert report.mean_bounded_slowdown == pytest.approx((1 + 101 / 10) / 2)
    assert bounded_slowdown(0.0, 0.0) == 1.0
    assert nearest_rank([1.0, 2.0, 3.0, 4.0], 0.5) == 2.0


def test_progress_is_reported_at_intervals() -> None:
    reported: list[tuple[int, int]] = []
    machine = Pool(CPUS)
    work = make_workload(Trace(jobs=tuple(random_jobs(1, count=600))), machine, limits="log")
    jobs: tuple[SimJob, ...] = work.jobs
    replay(
        jobs,
        site(machine),
        settings_of("fcfs", PlannerSettings()),
        progress=lambda done, total: reported.append((done, total)),
    )
    assert reported == [(256, 600), (512, 600)]
