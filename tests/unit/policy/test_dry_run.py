"""Advice on changes that start a job now, and its start time without changes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.builders import GIB, node, pending, running, view

from warpdeck.model import Allocation, GpuRequest, JobId, NodeName, Resources
from warpdeck.policy import PartitionView, PendingJob, PlannerSettings, PlannerView, RunningJob, dry_run, plan
from warpdeck.policy.dry_run import MAX_FORECASTS, MAX_STEPS, _below

NOW = 1000.0


def busy_until(number: int, name: str, ends: float, gpus: int = 8) -> RunningJob:
    return running(number, name, tuple(range(gpus)), ends=ends)


def changed(cluster: PlannerView, job: PendingJob) -> PlannerView:
    return msgspec.structs.replace(
        cluster, pending=(*(each for each in cluster.pending if each.id != job.id), job)
    )


def test_a_job_that_fits_starts_now() -> None:
    advice = dry_run(view([node("a")], [pending(1, gpus=2)]), NOW, PlannerSettings(), JobId(1))
    assert advice.starts_now and advice.nodes == ("a",)


def test_a_time_limit_that_fits_before_the_first_job_is_advised() -> None:
    head = pending(1, gpus=8)
    held = [busy_until(9, "a", NOW + 7800, gpus=4)]
    cluster = view([node("a")], [head, pending(2, gpus=2, limit_s=86_400)], held)
    advice = dry_run(cluster, NOW, PlannerSettings(), JobId(2))
    assert "starts now with --time=02:10:00" in advice.changes
    again = plan(changed(cluster, pending(2, gpus=2, limit_s=7800)), NOW, PlannerSettings())
    assert [start.job_id for start in again.starts] == [2]
    longer = plan(changed(cluster, pending(2, gpus=2, limit_s=7801)), NOW, PlannerSettings())
    assert not longer.starts


def test_the_advised_time_limit_is_in_whole_minutes() -> None:
    held = [busy_until(9, "a", NOW + 7859, gpus=4)]
    jobs = [pending(1, gpus=8), pending(2, gpus=2, limit_s=86_400)]
    advice = dry_run(view([node("a")], jobs, held), NOW, PlannerSettings(), JobId(2))
    assert "starts now with --time=02:10:00" in advice.changes


def test_fewer_gpus_and_another_partition_are_advised_where_they_help() -> None:
    parts = (
        PartitionView(name="long", nodes=frozenset({NodeName("a"), NodeName("b")})),
        PartitionView(name="short", nodes=frozenset({NodeName("c"), NodeName("d")})),
    )
    held = [busy_until(8, "a", NOW + 600, gpus=6), busy_until(9, "b", NOW + 600)]
    cluster = msgspec.structs.replace(
        view(
            [node("a"), node("b"), node("c"), node("d")],
            [pending(1, gpus=4, nodes=2, partition="long")],
            held,
        ),
        partitions=parts,
    )
    assert dry_run(cluster, NOW, PlannerSettings(), JobId(1)).changes == (
        "starts now with --partition=short",
    )
    alone = msgspec.structs.replace(cluster, pending=(pending(1, gpus=4, partition="long"),))
    assert dry_run(alone, NOW, PlannerSettings(), JobId(1)).changes == (
        "starts now with --gpus-per-node=2",
        "starts now with --partition=short",
    )


@pytest.mark.parametrize(
    ("fields", "change"),
    [
        ({"cpus_per_task": 40}, "--cpus-per-task=14"),
        ({"mem_per_node_bytes": 500 * GIB}, "--mem=100G"),
        ({"exclusive": True}, "other jobs on its nodes (without --exclusive)"),
        ({"gpus": GpuRequest(per_node=2, type="a100")}, "GPUs of any type"),
    ],
)
def test_a_smaller_request_is_advised_for_the_resource_that_is_missing(
    fields: dict[str, Any], change: str
) -> None:
    held = [
        running(9, "a", (0, 1, 2), ends=NOW + 600, cpus=50),
        running(8, "b", tuple(range(8)), ends=NOW + 900),
    ]
    share = msgspec.structs.replace(held[0].allocation.shares[0], mem_bytes=400 * GIB)
    held[0] = msgspec.structs.replace(held[0], allocation=Allocation(shares=(share,)))
    job = pending(1, resources=Resources(**{"gpus": GpuRequest(per_node=2), **fields}))
    cluster = view([node("a"), node("b", gpu_type="a100")], [job], held)
    assert dry_run(cluster, NOW, PlannerSettings(), JobId(1)).changes == (f"starts now with {change}",)


def test_a_large_request_is_tried_at_a_limited_number_of_smaller_sizes() -> None:
    tried = list(_below(10_000))
    assert len(tried) <= MAX_STEPS and tried[0] > 9_000 and tried[-1] < 1_000
    assert list(_below(4)) == [3, 2, 1] and not list(_below(1)) and not list(_below(0))


def test_advice_forecasts_a_start_that_the_pass_does_not_compute() -> None:
    jobs = [pending(number, gpus=8, limit_s=600) for number in range(1, 6)]
    cluster = view([node("a")], jobs, [busy_until(9, "a", NOW + 100)])
    settings = PlannerSettings(max_forecasts=1)
    assert plan(cluster, NOW, settings).pending_reasons[JobId(5)].expected_start_unix is None
    advice = dry_run(cluster, NOW, settings, JobId(5))
    assert advice.reason is not None and advice.reason.expected_start_unix == NOW + 100 + 4 * 600
    assert advice.ahead == 4 and advice.first_ahead == (1, 2, 3)


def test_no_start_is_forecast_for_a_job_beyond_the_forecast_limit() -> None:
    jobs = [pending(number, gpus=8, limit_s=600) for number in range(1, MAX_FORECASTS + 2)]
    cluster = view([node("a")], jobs, [busy_until(9, "a", NOW + 100)])
    for number, known in ((MAX_FORECASTS, True), (MAX_FORECASTS + 1, False)):
        why = dry_run(cluster, NOW, PlannerSettings(), JobId(number)).reason
        assert why is not None and why.sentence
        assert (why.expected_start_unix is not None) is known


def test_only_jobs_that_compete_for_the_same_nodes_are_ahead() -> None:
    parts = (
        PartitionView(name="all"),
        PartitionView(name="left", nodes=frozenset({NodeName("a")})),
        PartitionView(name="right", nodes=frozenset({NodeName("b")})),
    )
    names = ("left", "right", "left", "all", "right")
    jobs = [pending(number, gpus=8, partition=name) for number, name in enumerate(names, 1)]
    held = [busy_until(8, "a", NOW + 600), busy_until(9, "b", NOW + 600)]
    cluster = msgspec.structs.replace(view([node("a"), node("b")], jobs, held), partitions=parts)
    assert dry_run(cluster, NOW, PlannerSettings(), JobId(5)).first_ahead == (2, 4)
    assert dry_run(cluster, NOW, PlannerSettings(), JobId(4)).first_ahead == (1, 2, 3)


def test_advice_for_a_job_that_is_not_in_the_queue_raises_keyerror() -> None:
    with pytest.raises(KeyError):
        dry_run(view([node("a")], []), NOW, PlannerSettings(), JobId(1))
