"""The number and choice of nodes of a job, by the resources that it requests in total and per node."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.builders import node, pending, running, view

from warpdeck.config import build_site, decode
from warpdeck.model import GpuRequest, JobId, NodeMinimum, NodeName, Resources, Topology
from warpdeck.policy import Limits, NodeView, PartitionView, PlannerSettings, QosView, RunningJob, admit, plan

NOW = 1000.0


def nodes(
    *names: str, cpus: int = 16, gpus: int = 8, features: dict[str, str] | None = None
) -> list[NodeView]:
    made = [node(name, gpus=gpus, cpus=cpus) for name in names]
    has = features or {}
    return [msgspec.structs.replace(one, features=frozenset(has.get(one.name, "").split())) for one in made]


def held(*names: str, cpus: int = 16, ends: float | None = None) -> list[RunningJob]:
    return [running(90 + at, name, (), ends=ends, cpus=cpus) for at, name in enumerate(names)]


def tasks_by_node(
    available: list[NodeView], busy: list[RunningJob] | None = None, **requested: Any
) -> dict[str, int]:
    """Return the number of tasks on each node on which a job with these resources starts now."""
    made = plan(view(available, [pending(1, resources=Resources(**requested))], busy), NOW, PlannerSettings())
    return {share.node: share.tasks for start in made.starts for share in start.allocation.shares}


def open_to(tasks: int, **requested: Any) -> dict[str, Any]:
    return {"tasks": tasks, "nodes_max": tasks, "nodes_open": True, **requested}


FOUR = ("n1", "n2", "n3", "n4")


def test_tasks_without_a_node_count_go_to_as_few_nodes_as_possible() -> None:
    available = nodes(*FOUR)
    assert tasks_by_node(available, **open_to(8)) == {"n1": 8}
    assert tasks_by_node(available, **open_to(40)) == {"n1": 16, "n2": 16, "n3": 8}
    assert tasks_by_node(available, **open_to(64)) == dict.fromkeys(FOUR, 16)
    assert tasks_by_node(available, **open_to(8, cpus_per_task=8)) == dict.fromkeys(FOUR, 2)
    assert tasks_by_node(available, **open_to(65)) == {}


@pytest.mark.parametrize(
    ("requested", "tasks"),
    [
        ({"nodes_min": 3, "nodes_max": 3, "tasks": 20}, [16, 3, 1]),
        ({"nodes_min": 2, "nodes_max": 4, "tasks": 20}, [14, 4, 1, 1]),
        ({"nodes_min": 3, "nodes_max": 3, "tasks": 10, "cpus_per_task": 3}, [5, 4, 1]),
        ({"nodes_min": 2, "nodes_max": 2, "tasks": 14, "cpus_per_node_min": 2}, [12, 2]),
        ({"nodes_min": 2, "nodes_max": 2, "tasks": 20, "cpus_per_node_min": 12}, [10, 10]),
        ({"nodes_min": 2, "nodes_max": 2, "tasks": 20, "exclusive": True}, [10, 10]),
        ({"nodes_min": 2, "nodes_max": 2, "tasks": 40, "overcommit": True}, [20, 20]),
        ({"nodes_min": 3, "nodes_max": 3, "tasks": 7, "gpus": GpuRequest(per_task=2)}, [4, 2, 1]),
        ({"nodes_min": 2, "nodes_max": 2, "tasks": 8, "gpus": GpuRequest(per_node=2)}, [4, 4]),
        ({"nodes_min": 2, "nodes_max": 2, "tasks": 8, "gpus": GpuRequest(total=8)}, [4, 4]),
    ],
)
def test_tasks_fill_nodes_one_after_the_other(requested: dict[str, Any], tasks: list[int]) -> None:
    found = tasks_by_node(nodes(*FOUR), **requested)
    assert list(found) == list(FOUR[: len(tasks)]) and list(found.values()) == tasks


def test_tasks_fill_only_resources_free_until_the_jobs_end() -> None:
    two: dict[str, Any] = {"nodes_min": 2, "nodes_max": 2, "nodelist": FOUR[:2]}
    assert tasks_by_node(nodes(*FOUR), held("n1", cpus=4), tasks=20, **two) == {"n1": 12, "n2": 8}
    assert tasks_by_node(nodes(*FOUR), held("n1", cpus=6), tasks=20, **two) == {"n1": 10, "n2": 10}
    memory: dict[str, Any] = {"mem_per_cpu_bytes": 64 * 2**30}  # of the 512 GiB of a node
    assert tasks_by_node(nodes(*FOUR), tasks=10, **two, **memory) == {"n1": 8, "n2": 2}


def test_tasks_fill_partly_free_nodes() -> None:
    available, open_20 = nodes(*FOUR), open_to(20)
    assert tasks_by_node(available, held("n1", "n3", "n4", cpus=12), **open_20) == {"n1": 4, "n2": 16}
    assert tasks_by_node(available, held(*FOUR, cpus=12), **open_20) == {}
    assert tasks_by_node(available, held("n3", "n4", "n1", cpus=13), **open_to(24)) == {
        "n1": 3,
        "n2": 16,
        "n3": 3,
        "n4": 2,
    }
    three: dict[str, Any] = {"nodes_min": 3, "nodes_max": 3}
    assert tasks_by_node(available, held("n1", "n3", "n4", cpus=14), **three, tasks=20) == {
        "n1": 2,
        "n2": 16,
        "n3": 2,
    }
    assert tasks_by_node(available, held("n1", "n3", "n4", cpus=14), **three, tasks=21) == {}
    ranged = {"nodes_min": 1, "nodes_max": 4, "use_min_nodes": True}
    assert tasks_by_node(available, held("n1", "n2", cpus=10), **ranged, tasks=40) == {
        "n1": 6,
        "n2": 6,
        "n3": 16,
        "n4": 12,
    }


def test_a_minimum_of_cpus_per_node_does_not_exceed_the_free_cpus() -> None:
    pair: dict[str, Any] = {
        "nodes_min": 2,
        "nodes_max": 2,
        "nodelist": FOUR[:2],
        "cpus_per_task": 2,
        "cpus_per_node_min": 3,
    }
    assert tasks_by_node(nodes(*FOUR), held("n1", "n2", cpus=13), tasks=2, **pair) == {"n1": 1, "n2": 1}
    assert tasks_by_node(nodes(*FOUR), held("n2", cpus=13), tasks=2, **pair) == {"n1": 1, "n2": 1}
    by_memory: dict[str, Any] = {**pair, "mem_per_cpu_bytes": 64 * 2**30}  # of the 512 GiB of a node
    assert tasks_by_node(nodes(*FOUR), tasks=8, **by_memory) == {"n1": 4, "n2": 4}
    assert tasks_by_node(nodes(*FOUR), tasks=9, **by_memory) == {}


def test_a_limit_per_node_limits_the_tasks_on_each_node() -> None:
    limit = (QosView(name="few", limits=Limits(max_tres_per_node={"cpu": 12})),)
    job = pending(1, qos="few", resources=Resources(nodes_min=2, nodes_max=2, tasks=20))
    made = plan(msgspec.structs.replace(view(nodes(*FOUR), [job]), qos=limit), NOW, PlannerSettings())
    assert [share.tasks for share in made.starts[0].allocation.shares] == [12, 8]


def test_tasks_use_more_nodes_if_that_starts_the_job_now() -> None:
    busy = held(*FOUR, cpus=12)
    assert tasks_by_node(nodes(*FOUR), busy, **open_to(8)) == {"n1": 4, "n2": 4}
    assert (
        tasks_by_node(nodes(*FOUR), busy, **open_to(8, gpus=GpuRequest(per_node=4))) == {}
    )  # it requested four, not eight


def test_a_range_of_nodes_gets_as_many_nodes_as_are_free() -> None:
    available = nodes(*FOUR)
    assert tasks_by_node(available, nodes_min=1, nodes_max=3) == dict.fromkeys(("n1", "n2", "n3"), 1)
    assert tasks_by_node(available, nodes_min=2, nodes_max=9) == dict.fromkeys(FOUR, 1)
    assert tasks_by_node(available, held("n1", "n2"), nodes_min=1, nodes_max=4) == {"n3": 1, "n4": 1}
    assert tasks_by_node(available, held("n1", "n2", "n3"), nodes_min=2, nodes_max=4) == {}
    assert len(tasks_by_node(nodes(*(f"m{at}" for at in range(200))), nodes_min=2, nodes_max=200)) == 200


def test_a_range_of_nodes_respects_limits_and_reservations() -> None:
    limit = (QosView(name="two", limits=Limits(max_tres_per_job={"node": 2})),)
    ranged = pending(1, qos="two", resources=Resources(nodes_min=1, nodes_max=4))
    cluster = msgspec.structs.replace(view(nodes(*FOUR), [ranged]), qos=limit)
    assert [len(start.allocation.shares) for start in plan(cluster, NOW, PlannerSettings()).starts] == [2]
    wide = pending(
        1, resources=Resources(nodes_min=4, nodes_max=4, tasks_per_node=16), limit_s=1000, priority=10
    )
    long = pending(2, resources=Resources(nodes_min=1, nodes_max=3), limit_s=10_000)
    made = plan(view(nodes(*FOUR), [wide, long], held("n4", ends=NOW + 100)), NOW, PlannerSettings())
    assert made.starts == (), "on none of one, two and three nodes it would be done in time"


def test_tasks_per_node_is_an_upper_limit_for_an_open_node_count() -> None:
    available = nodes(*FOUR, gpus=4)
    requested = open_to(6, tasks_per_node=4, nodes_min=2)
    assert tasks_by_node(available, **requested) == {"n1": 3, "n2": 3}
    assert tasks_by_node(available, **requested, gpus=GpuRequest(per_task=2)) == {"n1": 2, "n2": 2, "n3": 2}
    assert tasks_by_node(available, held(*FOUR[:3], cpus=14), **requested) == {}


def test_the_smallest_node_count_also_follows_from_gpus_and_memory() -> None:
    available = nodes(*FOUR)
    assert len(tasks_by_node(available, **open_to(12, gpus=GpuRequest(per_task=2)))) == 3
    assert len(tasks_by_node(available, nodes_max=24, nodes_open=True, gpus=GpuRequest(total=24))) == 3
    assert len(tasks_by_node(available, **open_to(4, mem_per_cpu_bytes=300 << 30))) == 4


def test_a_job_may_span_hundreds_of_nodes() -> None:
    available = nodes(*(f"n{number:03}" for number in range(300)))
    assert len(tasks_by_node(available, **open_to(4800))) == 300
    assert len(
        tasks_by_node(available, held(*(one.name for one in available), cpus=8), **open_to(320))
    ) in range(40, 60)


def test_the_node_count_follows_the_nodes_of_the_jobs_partition() -> None:
    available = [*nodes("big", cpus=256), *nodes("n1", "n2", "n3")]
    small = PartitionView(name="small", nodes=frozenset(map(NodeName, ("n1", "n2", "n3"))))
    job = pending(1, partition="small", resources=Resources(**open_to(48)))
    cluster = msgspec.structs.replace(view(available, [job]), partitions=(small,))
    assert len(plan(cluster, NOW, PlannerSettings()).starts[0].allocation.shares) == 3


def test_a_job_too_large_for_all_nodes_is_refused_in_terms_of_tasks() -> None:
    refusal = admit(pending(1, resources=Resources(**open_to(65))), view(nodes(*FOUR), []), PlannerSettings())
    assert refusal is not None and "65 tasks of 1 CPU" in refusal.sentence


def test_all_nodes_of_the_nodelist_are_allocated_and_others_added() -> None:
    available = nodes(*FOUR)
    named: dict[str, Any] = {"nodelist": ("n3",), "nodes_min": 2, "nodes_max": 2}
    assert tasks_by_node(available, **named) == {"n1": 1, "n3": 1}
    assert tasks_by_node(available, held("n3"), **named) == {}
    assert tasks_by_node(available, nodelist=("n2", "n4"), nodes_min=2, nodes_max=2) == {"n2": 1, "n4": 1}
    assert tasks_by_node(available, held("n2"), nodelist=("n2", "n4"), nodes_min=2, nodes_max=2) == {}
    assert tasks_by_node(available, **open_to(40, nodelist=("n4",))) == {"n1": 16, "n2": 16, "n4": 8}


def why(available: list[NodeView], busy: list[RunningJob], **requested: Any) -> str:
    """Return the pending reason of a job with these resources."""
    made = plan(view(available, [pending(1, resources=Resources(**requested))], busy), NOW, PlannerSettings())
    return made.pending_reasons[JobId(1)].sentence


def test_the_reason_names_the_node_of_the_nodelist_that_is_busy() -> None:
    available = nodes("n1", "n2")
    full = "n1 (--nodelist) has 0 CPUs free"
    assert why(available, held("n1"), **open_to(2, nodelist=("n1",))).endswith(full)
    assert why(available, held("n1"), nodelist=("n1",), nodes_min=2, nodes_max=2).endswith(full)
    out = [*nodes("n2"), node("n1", gpus=8, cpus=16, unavailable="drained")]
    requested: dict[str, Any] = {"nodelist": ("n1",), "nodes_min": 2, "nodes_max": 2}
    assert "n1 (--nodelist): drained" in why(out, [], **requested)
    assert why(available, held("n1", cpus=1), exclusive=True, **requested).endswith(
        "n1 (--nodelist) is not idle"
    )
    assert "1 of 2 required nodes" in why(available, held("n2"), **requested), (
        "it is the other that is missing"
    )


def test_a_node_of_the_nodelist_is_reserved_for_its_job() -> None:
    requested = Resources(nodelist=("n3",), nodes_min=2, nodes_max=2)
    cluster = view(nodes(*FOUR), [pending(1, resources=requested)], held("n3", ends=NOW + 60))
    made = plan(cluster, NOW, PlannerSettings())
    assert not made.starts and made.reserves[0].at_unix == NOW + 60
    assert NodeName("n3") in made.reserves[0].nodes


def test_a_node_of_the_nodelist_determines_the_switch() -> None:
    available = [
        msgspec.structs.replace(one, switch=switch)
        for one, switch in zip(nodes(*FOUR, "n5", "n6"), "aabbbb", strict=True)
    ]
    requested: dict[str, Any] = {"nodelist": ("n2",), "nodes_min": 2, "nodes_max": 2}
    assert tasks_by_node(available, **requested, max_switches=1) == {"n1": 1, "n2": 1}
    assert tasks_by_node(available, held("n1"), **requested, max_switches=1) == {}


def test_contiguous_nodes_follow_each_other_by_number() -> None:
    available = sorted(nodes("n2", "n8", "n9", "n10", "n11", "n12"), key=lambda one: one.name)
    three: dict[str, Any] = {"nodes_min": 3, "nodes_max": 3}
    assert set(tasks_by_node(available, contiguous=True, **three)) == {"n2", "n8", "n9"}
    assert set(tasks_by_node(available, held("n2", "n9"), contiguous=True, **three)) == {"n10", "n11", "n12"}
    assert tasks_by_node(available, held("n8", "n11"), contiguous=True, **three) == {}
    assert len(tasks_by_node(available, held("n8", "n11"), **three)) == 3


def test_contiguous_nodes_come_from_the_shortest_sufficient_run() -> None:
    available = nodes("n1", "n2", "n3", "n4", "n5", "n6", "n7")
    two: dict[str, Any] = {"nodes_min": 2, "nodes_max": 2, "contiguous": True}
    assert set(tasks_by_node(available, held("n4", "n7"), **two)) == {"n5", "n6"}


def test_preferred_features_are_used_if_possible() -> None:
    available = nodes(*FOUR, features={"n2": "nvme", "n3": "nvme ib"})
    assert tasks_by_node(available, prefer="nvme&ib") == {"n3": 1}
    assert tasks_by_node(available, held("n3"), prefer="nvme&ib") != {}
    assert tasks_by_node(available, prefer="ib", constraint="nvme") == {"n3": 1}
    assert tasks_by_node(available, held("n3"), prefer="ib", constraint="nvme") == {"n2": 1}
    assert tasks_by_node(available, held("n2", "n3"), prefer="ib", constraint="nvme") == {}


def test_a_preferred_feature_that_no_node_has_is_refused() -> None:
    refusal = admit(pending(1, resources=Resources(prefer="knl")), view(nodes(*FOUR), []), PlannerSettings())
    assert refusal is not None and (refusal.code, refusal.sentence) == ("InvalidPrefer", "no node has knl")


@pytest.mark.parametrize(
    "requested",
    [
        {"nodelist": ("n3",), "nodes_min": 2, "nodes_max": 2},
        {"contiguous": True, "nodes_min": 3, "nodes_max": 3},
    ],
)
def test_preemption_frees_the_nodes_that_the_job_can_use(requested: dict[str, Any]) -> None:
    site = build_site(
        decode('[scheduler]\npreempt_by = "qos"\n[qos.low]\n[qos.high]\npreempts = ["low"]', "f").config
    )
    busy = [msgspec.structs.replace(one, qos="low") for one in held("n2", "n3", ends=NOW + 9999)]
    job = pending(1, qos="high", resources=Resources(**requested))
    cluster = msgspec.structs.replace(view(nodes(*FOUR), [job], busy), qos=site.qos)
    made = plan(cluster, NOW, site.settings)
    leaving = {order.job_id for order in made.preempts}
    assert leaving and (91 in leaving)
    assert all(
        order.preempted_claim is not None and NodeName("n3") in order.preempted_claim.nodes
        for order in made.preempts
    )


def test_only_nodes_above_the_requested_minimum_are_used() -> None:
    small, large = nodes("n1", "n2")
    large = msgspec.structs.replace(
        large, topology=Topology(sockets=2, cores=4, threads=2), tmp_disk_bytes=100 << 30
    )
    for least in (NodeMinimum(cores=4), NodeMinimum(threads=2), NodeMinimum(tmp_disk_bytes=50 << 30)):
        assert tasks_by_node([small, large], node_minimum=least) == {"n2": 1}
    assert tasks_by_node([small, large], node_minimum=NodeMinimum(sockets=16)) == {"n1": 1}, (
        "each CPU a socket"
    )
    assert tasks_by_node([small, large], node_minimum=NodeMinimum(sockets=2, cores=4, tmp_disk_bytes=1)) == {
        "n2": 1
    }


@pytest.mark.parametrize(
    ("least", "code"),
    [
        (NodeMinimum(cores=2), "InvalidTopology"),
        (NodeMinimum(tmp_disk_bytes=1 << 40), "InvalidTmpDisk"),
        (NodeMinimum(sockets=16), ""),
    ],
)
def test_a_minimum_that_no_node_has_is_refused_with_its_code(least: NodeMinimum, code: str) -> None:
    requested = pending(1, resources=Resources(node_minimum=least))
    refused = admit(requested, view(nodes(*FOUR), []), PlannerSettings())
    assert (refused.code if refused else "") == code


def test_use_min_nodes_takes_as_few_nodes_as_possible() -> None:
    available = nodes(*FOUR)
    ranged: dict[str, Any] = {"nodes_min": 1, "nodes_max": 4, "use_min_nodes": True}
    assert tasks_by_node(available, **ranged, tasks=4) == {"n1": 4}
    assert tasks_by_node(available, **ranged, tasks=20) == {"n1": 16, "n2": 4}
