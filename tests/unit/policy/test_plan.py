"""The planner's decisions, one behavior per test."""

from __future__ import annotations

from tests.support.builders import node, pending, running, view

from warpdeck.model import GpuRequest, JobId, NodeName, Resources
from warpdeck.policy import Plan, PlannerSettings, PlannerView, never_fits, plan

NOW = 1000.0


def planned(cluster: PlannerView) -> Plan:
    return plan(cluster, NOW, PlannerSettings())


def started(made: Plan) -> list[int]:
    return [start.job_id for start in made.starts]


def test_older_jobs_start_first() -> None:
    made = planned(view([node("a", gpus=1)], [pending(2, gpus=1), pending(1, gpus=1)]))
    assert started(made) == [1]
    assert made.pending_reasons[JobId(2)].code == "Resources"


def test_priority_comes_before_age_and_nice_lowers_it() -> None:
    jobs = [pending(1, gpus=1, nice=10), pending(2, gpus=1), pending(3, gpus=1, priority=5)]
    assert started(planned(view([node("a", gpus=2)], jobs))) == [3, 2]


def test_gpus_come_from_the_fullest_node_and_one_numa_node() -> None:
    held = [running(9, "b", (0, 1, 2), ends=NOW + 60)]
    made = planned(view([node("a"), node("b")], [pending(1, gpus=4)], held))
    share = made.starts[0].allocation.shares[0]
    assert (share.node, share.gpus) == ("b", (4, 5, 6, 7))
    assert share.gpu_uuids == ("b-4", "b-5", "b-6", "b-7")


def test_a_job_without_gpus_prefers_nodes_without_gpus() -> None:
    made = planned(view([node("a"), node("z", gpus=0)], [pending(1)]))
    assert made.starts[0].allocation.node_names() == ("z",)


def test_a_gang_starts_whole_or_not_at_all() -> None:
    jobs = [pending(1, gpus=8, nodes=3)]
    assert started(planned(view([node("a"), node("b"), node("c")], jobs))) == [1]
    held = [running(9, "b", (0,), ends=NOW + 60)]
    assert started(planned(view([node("a"), node("b"), node("c")], jobs, held))) == []


def test_the_first_job_is_reserved_when_the_time_limits_free_its_nodes() -> None:
    held = [
        running(8, "a", tuple(range(8)), ends=NOW + 600),
        running(9, "b", tuple(range(8)), ends=NOW + 900),
    ]
    made = planned(view([node("a"), node("b")], [pending(1, gpus=8, nodes=2)], held))
    assert made.reserves[0].at_unix == NOW + 900
    assert made.pending_reasons[JobId(1)].expected_start_unix == NOW + 900


def test_backfill_never_delays_the_first_job() -> None:
    held = [running(9, "a", (0, 1, 2, 3), ends=NOW + 600)]
    head = pending(1, gpus=8)
    short, long = pending(2, gpus=2, limit_s=600), pending(3, gpus=2, limit_s=601)
    made = planned(view([node("a")], [head, long, short], held))
    assert started(made) == [2]
    assert made.pending_reasons[JobId(3)].code == "Priority"
    assert "job 1 of ann" in made.pending_reasons[JobId(3)].sentence


def test_a_long_job_may_use_resources_that_the_first_job_does_not_need() -> None:
    held = [running(9, "a", (0, 1, 2, 3), ends=NOW + 600)]
    made = planned(view([node("a")], [pending(1, gpus=6), pending(2, gpus=2, limit_s=None)], held))
    assert started(made) == [2]


def test_a_running_job_without_a_limit_gives_no_expected_start() -> None:
    held = [running(9, "a", tuple(range(8)), ends=None)]
    why = planned(view([node("a")], [pending(1, gpus=1)], held)).pending_reasons[JobId(1)]
    assert (why.code, why.expected_start_unix) == ("Resources", None)


def test_array_tasks_start_in_order_up_to_the_throttle() -> None:
    job = pending(5, gpus=1, tasks=((0, 9, 1),), throttle=3)
    made = planned(view([node("a")], [job]))
    assert [start.task for start in made.starts] == [0, 1, 2]
    assert made.pending_reasons[JobId(5)].code == "JobArrayTaskLimit"


def test_a_gpu_in_foreign_use_is_not_allocated_and_the_reason_names_its_user() -> None:
    blocked = {0: "held by bob outside the queue (pid 7, 30.0 GiB)"}
    made = planned(view([node("a", gpus=1, blocked=blocked)], [pending(1, gpus=1)]))
    assert not made.starts
    assert "bob" in made.pending_reasons[JobId(1)].sentence


def test_the_reason_names_an_unavailable_node() -> None:
    made = planned(view([node("a", unavailable="drained: bad fan")], [pending(1)]))
    assert made.pending_reasons[JobId(1)].code == "ReqNodeNotAvail"
    assert "bad fan" in made.pending_reasons[JobId(1)].sentence


def test_reasons_of_the_job_itself_come_before_missing_resources() -> None:
    jobs = [
        pending(1, held=True),
        pending(2, waits_for="waits for job 9"),
        pending(3, never="job 9 failed"),
        pending(4, begin_at_unix=NOW + 60),
    ]
    made = planned(view([node("a")], jobs))
    codes = [made.pending_reasons[JobId(number)].code for number in (1, 2, 4)]
    assert codes == ["JobHeldUser", "Dependency", "BeginTime"]
    assert [(end.job_id, end.state, end.code) for end in made.ends] == [
        (3, "CANCELLED", "DependencyNeverSatisfied")
    ]
    kept = plan(view([node("a")], jobs), NOW, PlannerSettings(kill_invalid_dependency=False))
    assert kept.pending_reasons[JobId(3)].code == "DependencyNeverSatisfied"


def test_gpu_types_nodelists_and_exclusions_are_respected() -> None:
    nodes = [node("a"), node("b", gpu_type="A100"), node("c", gpu_type="a100")]
    requested = Resources(gpus=GpuRequest(per_node=1, type="a100"), exclude=("b",))
    made = planned(view(nodes, [pending(1, resources=requested)]))
    assert made.starts[0].allocation.node_names() == ("c",)
    only = Resources(nodelist=("b",))
    assert planned(view(nodes, [pending(1, resources=only)])).starts[0].allocation.node_names() == ("b",)


def test_an_exclusive_job_waits_for_an_empty_node() -> None:
    requested = Resources(exclusive=True)
    held = [running(9, "a", (), ends=NOW + 60)]
    assert not planned(view([node("a")], [pending(1, resources=requested)], held)).starts
    made = planned(view([node("a")], [pending(1, resources=requested)]))
    assert made.starts[0].allocation.shares[0].cpus == 64


def refused(requested: Resources, cluster: PlannerView) -> str:
    refusal = never_fits(requested, None, cluster, PlannerSettings())
    return "" if refusal is None else refusal.sentence


def test_a_request_that_can_never_fit_is_refused_with_the_reason() -> None:
    cluster = view([node("a"), node("b", gpu_type="a100", unavailable="drained")], [])
    assert "largest node has 8" in refused(Resources(gpus=GpuRequest(per_node=9)), cluster)
    assert "of type v100" in refused(Resources(gpus=GpuRequest(per_node=1, type="v100")), cluster)
    assert "3 nodes" in refused(Resources(nodes_min=3, nodes_max=3), cluster)
    assert "no node x" in refused(Resources(nodelist=("x",)), cluster)
    assert refused(Resources(gpus=GpuRequest(per_node=8, type="A100")), cluster) == ""


def test_total_gpus_are_spread_over_the_requested_nodes() -> None:
    requested = Resources(nodes_min=2, nodes_max=2, gpus=GpuRequest(total=6))
    made = planned(view([node("a"), node("b")], [pending(1, resources=requested)]))
    assert [len(share.gpus) for share in made.starts[0].allocation.shares] == [3, 3]
    assert made.starts[0].allocation.node_names() == (NodeName("a"), NodeName("b"))


def test_an_unlimited_job_gets_no_default_time_limit() -> None:
    cluster = view([node("n1")], [pending(1, limit_s=None), pending(2, limit_s=None, unlimited=True)])
    settings = PlannerSettings(default_time_s=3600)
    found = {start.job_id: start.time_limit_s for start in plan(cluster, 0.0, settings).starts}
    assert found == {1: 3600, 2: None}
