"""The planner's decisions, one behavior per test."""

from __future__ import annotations

from tests.support.builders import node, pending, running, view

from warpdeck.model import GpuRequest, JobId, NodeName, Resources
from warpdeck.policy import Plan, PlannerSettings, PlannerView, never_fits, plan

NOW = 1000.0


def planned(picture: PlannerView) -> Plan:
    return plan(picture, NOW, PlannerSettings())


def started(made: Plan) -> list[int]:
    return [start.job_id for start in made.starts]


def test_older_jobs_start_first() -> None:
    made = planned(view([node("a", gpus=1)], [pending(2, gpus=1), pending(1, gpus=1)]))
    assert started(made) == [1]
    assert made.pending_reasons[JobId(2)].code == "Resources"


def test_a_priority_outranks_age_and_nice_gives_way() -> None:
    jobs = [pending(1, gpus=1, nice=10), pending(2, gpus=1), pending(3, gpus=1, priority=5)]
    assert started(planned(view([node("a", gpus=2)], jobs))) == [3, 2]


def test_gpus_are_taken_from_the_fullest_node_and_one_numa_node() -> None:
    held = [running(9, "b", (0, 1, 2), ends=NOW + 60)]
    made = planned(view([node("a"), node("b")], [pending(1, gpus=4)], held))
    share = made.starts[0].allocation.shares[0]
    assert (share.node, share.gpus) == ("b", (4, 5, 6, 7))
    assert share.gpu_uuids == ("b-4", "b-5", "b-6", "b-7")


def test_a_job_without_gpus_leaves_gpu_nodes_alone() -> None:
    made = planned(view([node("a"), node("z", gpus=0)], [pending(1)]))
    assert made.starts[0].allocation.node_names() == ("z",)


def test_a_gang_starts_whole_or_not_at_all() -> None:
    jobs = [pending(1, gpus=8, nodes=3)]
    assert started(planned(view([node("a"), node("b"), node("c")], jobs))) == [1]
    held = [running(9, "b", (0,), ends=NOW + 60)]
    assert started(planned(view([node("a"), node("b"), node("c")], jobs, held))) == []


def test_the_head_is_reserved_when_limits_let_it_start() -> None:
    held = [
        running(8, "a", tuple(range(8)), ends=NOW + 600),
        running(9, "b", tuple(range(8)), ends=NOW + 900),
    ]
    made = planned(view([node("a"), node("b")], [pending(1, gpus=8, nodes=2)], held))
    assert made.reserves[0].at_unix == NOW + 900
    assert made.pending_reasons[JobId(1)].expected_start_unix == NOW + 900


def test_backfill_never_delays_the_head() -> None:
    held = [running(9, "a", (0, 1, 2, 3), ends=NOW + 600)]
    head = pending(1, gpus=8)
    short, long = pending(2, gpus=2, limit_s=600), pending(3, gpus=2, limit_s=601)
    made = planned(view([node("a")], [head, long, short], held))
    assert started(made) == [2]
    assert made.pending_reasons[JobId(3)].code == "Priority"
    assert "job 1 of ann" in made.pending_reasons[JobId(3)].sentence


def test_a_long_job_may_use_what_the_head_leaves_over() -> None:
    held = [running(9, "a", (0, 1, 2, 3), ends=NOW + 600)]
    made = planned(view([node("a")], [pending(1, gpus=6), pending(2, gpus=2, limit_s=None)], held))
    assert started(made) == [2]


def test_a_job_that_runs_without_end_gives_no_expected_start() -> None:
    held = [running(9, "a", tuple(range(8)), ends=None)]
    why = planned(view([node("a")], [pending(1, gpus=1)], held)).pending_reasons[JobId(1)]
    assert (why.code, why.expected_start_unix) == ("Resources", None)


def test_array_tasks_start_in_order_up_to_the_throttle() -> None:
    job = pending(5, gpus=1, tasks=((0, 9, 1),), throttle=3)
    made = planned(view([node("a")], [job]))
    assert [start.task for start in made.starts] == [0, 1, 2]
    assert made.pending_reasons[JobId(5)].code == "JobArrayTaskLimit"


def test_a_gpu_that_a_stranger_holds_is_left_alone_and_named() -> None:
    blocked = {0: "held by bob outside the queue (pid 7, 30.0 GiB)"}
    made = planned(view([node("a", gpus=1, blocked=blocked)], [pending(1, gpus=1)]))
    assert not made.starts
    assert "bob" in made.pending_reasons[JobId(1)].sentence


def test_a_node_that_is_out_is_named() -> None:
    made = planned(view([node("a", unavailable="drained: bad fan")], [pending(1)]))
    assert made.pending_reasons[JobId(1)].code == "ReqNodeNotAvail"
    assert "bad fan" in made.pending_reasons[JobId(1)].sentence


def test_reasons_of_the_job_itself_come_first() -> None:
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


def test_types_nodelists_and_exclusions_are_honoured() -> None:
    nodes = [node("a"), node("b", gpu_type="A100"), node("c", gpu_type="a100")]
    asked = Resources(gpus=GpuRequest(per_node=1, type="a100"), exclude=("b",))
    made = planned(view(nodes, [pending(1, resources=asked)]))
    assert made.starts[0].allocation.node_names() == ("c",)
    only = Resources(nodelist=("b",))
    assert planned(view(nodes, [pending(1, resources=only)])).starts[0].allocation.node_names() == ("b",)


def test_an_exclusive_job_waits_for_an_empty_node() -> None:
    asked = Resources(exclusive=True)
    held = [running(9, "a", (), ends=NOW + 60)]
    assert not planned(view([node("a")], [pending(1, resources=asked)], held)).starts
    made = planned(view([node("a")], [pending(1, resources=asked)]))
    assert made.starts[0].allocation.shares[0].cpus == 64


def refused(asked: Resources, picture: PlannerView) -> str:
    refusal = never_fits(asked, None, picture, PlannerSettings())
    return "" if refusal is None else refusal.sentence


def test_what_can_never_start_is_said_at_once() -> None:
    picture = view([node("a"), node("b", gpu_type="a100", unavailable="drained")], [])
    assert "largest node has 8" in refused(Resources(gpus=GpuRequest(per_node=9)), picture)
    assert "of type v100" in refused(Resources(gpus=GpuRequest(per_node=1, type="v100")), picture)
    assert "3 nodes" in refused(Resources(nodes_min=3, nodes_max=3), picture)
    assert "no node x" in refused(Resources(nodelist=("x",)), picture)
    assert refused(Resources(gpus=GpuRequest(per_node=8, type="A100")), picture) == ""


def test_total_gpus_are_spread_over_the_nodes_asked_for() -> None:
    asked = Resources(nodes_min=2, nodes_max=2, gpus=GpuRequest(total=6))
    made = planned(view([node("a"), node("b")], [pending(1, resources=asked)]))
    assert [len(share.gpus) for share in made.starts[0].allocation.shares] == [3, 3]
    assert made.starts[0].allocation.node_names() == (NodeName("a"), NodeName("b"))


def test_who_asks_for_no_time_limit_has_none_where_there_is_a_default_one() -> None:
    picture = view([node("n1")], [pending(1, limit_s=None), pending(2, limit_s=None, unlimited=True)])
    settings = PlannerSettings(default_time_s=3600)
    found = {start.job_id: start.time_limit_s for start in plan(picture, 0.0, settings).starts}
    assert found == {1: 3600, 2: None}
