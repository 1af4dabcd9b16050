"""From the jobs of a log to requests on a machine: sizes, limits, and jobs that do not fit."""

from __future__ import annotations

import pytest

from warpdeck.base.errors import UserError
from warpdeck.sim.resource_model import GpuNodes, Pool
from warpdeck.sim.simjobs import limit_of, make_workload
from warpdeck.sim.trace import Trace, TraceJob


def job(**fields: object) -> TraceJob:
    base: dict[str, object] = {"job_id": "1", "submit_s": 0.0, "run_s": 100.0}
    return TraceJob(**{**base, **fields})  # type: ignore[arg-type]


def test_a_pool_measures_jobs_in_cpus_or_gpus_or_nodes() -> None:
    pool = Pool(64)
    sizes = [
        pool.request_of(job(**requested))
        for requested in ({"cpus": 5, "nodes": 2}, {"gpus": 3}, {"nodes": 4})
    ]
    assert [found and found.units for found in sizes] == [5, 3, 4]
    assert pool.request_of(job(cpus=65)) is None


def test_equal_requests_share_one_object() -> None:
    nodes = GpuNodes(4, gpus_per_node=8)
    first, again = (
        nodes.request_of(job(nodes=2, gpus=16)),
        nodes.request_of(job(job_id="2", nodes=2, gpus=16)),
    )
    assert first is not None and again is not None and first.resources is again.resources


@pytest.mark.parametrize(
    ("requested", "nodes", "per_node", "units"),
    [
        ({"nodes": 2, "gpus": 16}, 2, 8, 16),
        ({"gpus": 20}, 3, None, 20),
        ({"gpus": 3}, 1, 3, 3),
        ({"nodes": 5, "gpus": 2}, 2, 1, 2),
        ({"nodes": 3}, 3, None, 24),
    ],
)
def test_gpus_are_distributed_over_nodes(
    requested: dict[str, int], nodes: int, per_node: int | None, units: int
) -> None:
    found = GpuNodes(4, gpus_per_node=8).request_of(job(**requested))
    assert found is not None
    assert (found.resources.nodes_min, found.resources.gpus.per_node, found.units) == (nodes, per_node, units)
    assert found.resources.exclusive == ("gpus" not in requested)


@pytest.mark.parametrize(
    "requested", [{"nodes": 1, "gpus": 9}, {"gpus": 33}, {"nodes": 5}, {"nodes": 5, "gpus": 40}]
)
def test_a_job_larger_than_the_machine_has_no_request(requested: dict[str, int]) -> None:
    assert GpuNodes(4, gpus_per_node=8).request_of(job(**requested)) is None


def test_the_time_limit_follows_the_selected_rule() -> None:
    assert limit_of(job(limit_s=600.0), rule="log") == 600
    assert limit_of(job(), rule="log") == 100
    assert limit_of(job(limit_s=600.0, run_s=0.2), rule="exact") == 1
    # crc32("1") % 10007 is 7957: 100 s x 4.18 fits ten minutes, 200 s x 4.18 half an hour.
    assert limit_of(job(limit_s=5.0), rule="menu") == 600
    assert limit_of(job(run_s=200.0), rule="menu") == 1800
    assert limit_of(job(run_s=1e9), rule="menu") == 365 * 86_400


def test_a_workload_counts_skipped_jobs_and_invented_limits() -> None:
    trace = Trace(
        jobs=(
            job(cpus=4, submit_s=50.0),
            job(cpus=99, submit_s=51.0),
            job(cpus=8, submit_s=60.0, limit_s=7.0),
        ),
        skipped=2,
    )
    made = make_workload(trace, Pool(64), limits="log")
    assert (made.refused, made.skipped, made.without_limit) == (1, 2, 1)
    assert [each.pending.submit_at_unix for each in made.jobs] == [0.0, 10.0]
    assert [each.pending.id for each in made.jobs] == [1, 2]
    with pytest.raises(UserError, match="larger than the cluster"):
        make_workload(Trace(jobs=(job(cpus=99),)), Pool(64), limits="log")
