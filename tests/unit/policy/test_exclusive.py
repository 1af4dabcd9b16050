"""--exclusive and exclusive partitions: a job gets all CPUs and GPUs of its nodes, and shares no node."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.builders import GIB, node, pending, running, view

from warpdeck.model import Allocation, GpuRequest, JobId, Resources
from warpdeck.policy import (
    AccountView,
    Limits,
    PartitionView,
    PendingJob,
    PlannerSettings,
    QosView,
    RunningJob,
    plan,
)
from warpdeck.policy.input.view import NodeView

NOW = 10_000.0


def exclusive_job(number: int, *, gpus: int = 1, kind: str = "", **fields: Any) -> PendingJob:
    ask = GpuRequest(per_node=gpus, type=kind) if gpus else GpuRequest()
    return pending(number, resources=Resources(gpus=ask, exclusive=True, **fields))


def allocated(
    nodes: list[NodeView], job: PendingJob, held: list[RunningJob] | None = None, **tables: Any
) -> Any:
    cluster = msgspec.structs.replace(view(nodes, [job], held), **tables)
    starts = plan(cluster, NOW, PlannerSettings()).starts
    return starts[0].allocation.shares[0] if starts else None


def test_an_exclusive_job_gets_all_resources_of_the_node() -> None:
    share = allocated([node("a", gpus=4)], exclusive_job(1))
    assert (share.cpus, share.gpus, share.mem_bytes) == (64, (0, 1, 2, 3), 512 * GIB)
    assert share.gpu_uuids == ("a-0", "a-1", "a-2", "a-3")


@pytest.mark.parametrize("gpus", [0, 1])
def test_a_job_without_gpus_gets_all_gpus_of_an_exclusive_node(gpus: int) -> None:
    whole = (PartitionView(name="whole", exclusive=True),)
    job = pending(1, gpus=gpus, partition="whole")
    assert allocated([node("a", gpus=4)], job, partitions=whole).gpus == (0, 1, 2, 3)
    assert allocated([node("a", gpus=4)], exclusive_job(1, gpus=gpus)).gpus == (0, 1, 2, 3)


def test_an_exclusive_job_gets_its_requested_memory_or_all() -> None:
    assert allocated([node("a")], exclusive_job(1, mem_per_node_bytes=8 * GIB)).mem_bytes == 8 * GIB
    assert allocated([node("a")], exclusive_job(1, mem_per_node_bytes=0)).mem_bytes == 512 * GIB


def test_a_blocked_gpu_is_not_allocated_to_an_exclusive_job() -> None:
    assert allocated([node("a", gpus=3, blocked={1: "Xid 79"})], exclusive_job(1)).gpus == (0, 2)


def test_an_exclusive_job_gets_whole_gpus_instead_of_shares() -> None:
    job = pending(1, resources=Resources(gpus=GpuRequest(share_pct=50), exclusive=True))
    share = allocated([node("a", gpus=2)], job)
    assert share.gpus == (0, 1) and share.gpu_share_pct == 100


def test_a_suspended_job_keeps_memory_and_gpus_beside_an_exclusive_job() -> None:
    stopped = running(9, "a", (0,), ends=NOW + 500)
    kept = msgspec.structs.replace(stopped.allocation.shares[0], cpus=0, mem_bytes=12 * GIB)
    stopped = msgspec.structs.replace(stopped, suspended=True, allocation=Allocation(shares=(kept,)))
    share = allocated([node("a", gpus=4)], exclusive_job(1), [stopped])
    assert share.gpus == (1, 2, 3) and share.mem_bytes == 500 * GIB


def test_all_resources_of_the_node_count_against_limits() -> None:
    qos = (QosView(name="small", limits=Limits(max_tres_per_user={"gres/gpu": 4})),)
    job = msgspec.structs.replace(exclusive_job(1), qos="small")
    assert allocated([node("a", gpus=8)], job, qos=qos) is None
    cluster = msgspec.structs.replace(view([node("a", gpus=8)], [job]), qos=qos)
    assert plan(cluster, NOW, PlannerSettings()).pending_reasons[JobId(1)].code == "QOSMaxGRESPerUser"
    assert allocated([node("a", gpus=8), node("b", gpus=4)], job, qos=qos).node == "b"


def test_a_waiting_exclusive_job_counts_whole_nodes_against_a_quota() -> None:
    accounts = (AccountView(name="guests"), AccountView(name="vision", quota={"gres/gpu": 2}))
    whole = msgspec.structs.replace(exclusive_job(1), account="vision")
    other = msgspec.structs.replace(pending(2, gpus=4), account="guests", priority=1)
    cluster = msgspec.structs.replace(view([node("a", gpus=4)], [whole, other]), accounts=accounts)
    borrowing = plan(cluster, NOW, PlannerSettings()).starts
    assert [start.job_id for start in borrowing] == [2], "all four GPUs are more than the quota of two"
    guaranteed = (accounts[0], msgspec.structs.replace(accounts[1], quota={"gres/gpu": 4}))
    within = plan(msgspec.structs.replace(cluster, accounts=guaranteed), NOW, PlannerSettings()).starts
    assert [start.job_id for start in within] == [1]


@pytest.mark.parametrize("source", ["request", "partition"])
def test_a_limit_counts_the_smallest_node_that_fits_an_exclusive_job(source: str) -> None:
    nodes = [node("large", gpus=8), node("small", gpus=4), node("bare", gpus=0)]
    partitions = (PartitionView(name="whole", exclusive=source == "partition"),)
    resources = Resources(gpus=GpuRequest(per_node=1), exclusive=source == "request")
    job = msgspec.structs.replace(pending(1, resources=resources, partition="whole"), qos="q")

    def why(most: int) -> str:
        qos = (QosView(name="q", limits=Limits(max_tres_per_user={"gres/gpu": most})),)
        cluster = msgspec.structs.replace(view(nodes, [job]), qos=qos, partitions=partitions)
        made = plan(cluster, NOW, PlannerSettings())
        return made.pending_reasons[JobId(1)].sentence if made.pending_reasons else "starts"

    assert why(4) == "starts"
    assert "this job needs 4" in why(3)
