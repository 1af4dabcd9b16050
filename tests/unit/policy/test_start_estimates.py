"""Starts far back in the queue are estimated by the work ahead divided by the rate of the job's nodes."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from tests.property.pass_player import PassPlayer
from tests.support.builders import node, pending, running, view

from warpdeck.model import GpuRequest, JobId, NodeName, Resources
from warpdeck.policy import (
    NO_ESTIMATES,
    PartitionView,
    PendingJob,
    PlannerSettings,
    PlannerView,
    RunningJob,
    StartEstimates,
    estimate_starts,
)

NOW = 10_000.0
HOUR_S = 3600.0
WHOLE = tuple(range(8))


def estimated(cluster: PlannerView, **settings: object) -> StartEstimates:
    return estimate_starts(cluster, NOW, PlannerSettings(**settings), priorities={})  # type: ignore[arg-type]


def hours(found: StartEstimates, number: int) -> float | None:
    at_unix = found.start_of(JobId(number))
    return None if at_unix is None else (at_unix - NOW) / HOUR_S


def busy(name: str = "a", *, ends: float | None = NOW + HOUR_S, gpus: tuple[int, ...] = WHOLE) -> RunningJob:
    return running(900, name, gpus, ends=ends)


def test_each_job_waits_for_running_jobs_and_all_jobs_ahead() -> None:
    found = estimated(view([node("a")], [pending(number, gpus=8) for number in (1, 2, 3)], [busy()]))
    assert [hours(found, number) for number in (1, 2, 3)] == pytest.approx([1, 2, 3])


def test_predicted_run_times_and_each_array_task_count() -> None:
    jobs = [pending(1, gpus=8, predicted_s=HOUR_S / 2, tasks=((0, 9, 1),)), pending(2, gpus=8)]
    assert hours(estimated(view([node("a")], jobs, [busy()])), 2) == pytest.approx(6)


def test_jobs_of_other_nodes_do_not_delay_a_job() -> None:
    parts = (
        PartitionView(name="x", nodes=frozenset({NodeName("a")})),
        PartitionView(name="y", nodes=frozenset({NodeName("b")})),
    )
    jobs = [pending(number, gpus=8, partition="x") for number in range(1, 9)]
    jobs.append(pending(9, gpus=8, partition="y"))
    cluster = view([node("a"), node("b")], jobs, [busy("b")])
    found = estimated(msgspec.structs.replace(cluster, partitions=parts))
    assert hours(found, 9) == pytest.approx(1)
    assert hours(found, 8) == pytest.approx(7)


def test_a_job_that_may_run_elsewhere_counts_in_part() -> None:
    of_type = Resources(gpus=GpuRequest(per_node=8, type="a100"))
    nodes = [node("a", gpu_type="a100"), node("b", gpu_type="h100")]
    jobs = [pending(1, gpus=8), pending(2, gpus=8), pending(3, resources=of_type)]
    assert hours(estimated(view(nodes, jobs)), 3) == pytest.approx(1)


def test_jobs_without_end_reduce_the_rate_and_may_make_the_start_unknown() -> None:
    jobs = [pending(1, gpus=4), pending(2, gpus=4)]
    half = busy(ends=None, gpus=(0, 1, 2, 3))
    assert hours(estimated(view([node("a")], jobs, [half])), 2) == pytest.approx(1)
    assert hours(estimated(view([node("a")], jobs, [busy(ends=None)])), 2) is None
    endless = [pending(1, gpus=8, limit_s=None), pending(2, gpus=8)]
    found = estimated(view([node("a")], endless))
    assert hours(found, 1) == 0 and hours(found, 2) is None
    assert hours(estimated(view([node("a")], endless), default_time_s=7200), 2) == pytest.approx(2)


def test_held_and_dependent_jobs_do_not_delay_others() -> None:
    jobs = [pending(1, gpus=8, held=True), pending(2, gpus=8, waits_for="job 1"), pending(3, gpus=8)]
    assert hours(estimated(view([node("a")], jobs)), 3) == 0
    found = estimate_starts(
        view([node("a")], jobs), NOW, PlannerSettings(), priorities={}, besides={JobId(3)}
    )
    assert len(found) == 0


def test_an_unknown_job_is_estimated_behind_all_others() -> None:
    found = estimated(view([node("a")], [pending(1, gpus=8), pending(2, gpus=8)], [busy()]))
    assert hours(found, 77) == pytest.approx(2)
    assert NO_ESTIMATES.start_of(JobId(1)) is None


def test_only_estimates_that_moved_by_much_of_the_wait_are_reported_as_moved() -> None:
    jobs = [pending(number, gpus=8) for number in range(1, 11)]
    before = estimated(view([node("a")], jobs, [busy()]))
    assert before.changed_since(NO_ESTIMATES, NOW) == [job.id for job in jobs]
    assert before.changed_since(before, NOW) == []
    later = estimated(view([node("a")], jobs, [busy(ends=NOW + 1.9 * HOUR_S)]))
    assert later.changed_since(before, NOW) == [1, 2, 3], (
        "0.9 hours are a large change for jobs that wait less than 4.5"
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_simulated_starts_match_the_estimates_within_a_third(seed: int) -> None:
    rng = Random(seed)
    jobs: list[PendingJob] = [
        pending(number, gpus=rng.choice([1, 2, 4, 8]), limit_s=rng.randint(600, 7200))
        for number in range(1, 201)
    ]
    cluster = view([node(name) for name in "abcd"], jobs)
    fifo = PlannerSettings(queue_order="submission", backfill_order="priority")
    found = estimate_starts(cluster, NOW, fifo, priorities={})
    player, started = PassPlayer(cluster, fifo, NOW), dict[JobId, float]()
    while True:
        now = player.now
        started.update({start.job_id: now - NOW for start in player.step().starts})
        if not player.wait():
            break
    tail = [(started[job.id], (found.start_of(job.id) or 0.0) - NOW) for job in jobs[64:]]
    error = sum(abs(actual - estimate) for actual, estimate in tail) / sum(actual for actual, _ in tail)
    assert len(started) == len(jobs) and error < 0.33
