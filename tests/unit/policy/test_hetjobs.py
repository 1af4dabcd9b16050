"""The components of a heterogeneous job start in one pass or not at all."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.support import invariants
from tests.support.builders import node, pending, running, view

from warpdeck.model import JobId, NodeName, Resources
from warpdeck.policy import (
    AccountView,
    Limits,
    PartitionView,
    PendingJob,
    Plan,
    PlannerSettings,
    PlannerView,
    RunningJob,
    UserView,
    plan,
)

NOW = 1000.0


def together(first: PendingJob, *others: PendingJob) -> PendingJob:
    return msgspec.structs.replace(first, components=others)


def cluster_view(
    nodes: list[Any], jobs: list[PendingJob], held: list[Any] | None = None, **more: Any
) -> PlannerView:
    leaders = tuple(job.id for job in jobs if job.components)
    return msgspec.structs.replace(view(nodes, jobs, held), hetjob_leaders=leaders, **more)


def started(made: Plan) -> dict[int, tuple[str, ...]]:
    return {start.job_id: start.allocation.node_names() for start in made.starts}


def component(number: int, cpus: int, **fields: Any) -> PendingJob:
    resources = Resources(cpus_per_task=cpus, tasks=1, **fields.pop("resources", {}))
    return pending(number, resources=resources, **fields)


def test_all_components_start_in_one_pass_and_may_share_nodes() -> None:
    cluster = cluster_view(
        [node("n1", cpus=8), node("n2", cpus=8)],
        [together(component(1, 2), component(2, 8), component(3, 6))],
    )
    made = plan(cluster, NOW, PlannerSettings())
    assert started(made).keys() == {1, 2, 3}
    invariants.no_resource_is_allocated_twice(cluster, made)
    assert not made.pending_reasons


def test_no_component_starts_if_one_does_not_fit_and_each_has_a_reason() -> None:
    held = [running(90, "n1", (), ends=NOW + 500, cpus=4)]
    cluster = cluster_view(
        [node("n1", cpus=8), node("n2", cpus=8)],
        [together(component(1, 2), component(2, 8), component(3, 8))],
        held,
    )
    made = plan(cluster, NOW, PlannerSettings())
    assert not made.starts
    assert {job_id: why.code for job_id, why in made.pending_reasons.items()} == dict.fromkeys(
        (1, 2, 3), "Resources"
    )
    assert "its 3 components must start together" in made.pending_reasons[JobId(1)].sentence
    assert set(made.priorities) == {1, 2, 3}


def test_the_component_with_the_fewest_possible_nodes_is_placed_first() -> None:
    only = component(2, 8, resources={"nodelist": ("n1",)})
    made = plan(
        cluster_view([node("n1", cpus=8), node("n2", cpus=8)], [together(component(1, 4), only)]),
        NOW,
        PlannerSettings(),
    )
    assert started(made) == {1: ("n2",), 2: ("n1",)}


def test_resources_of_a_failed_attempt_are_free_in_the_same_pass() -> None:
    """CPUs, GPUs and licenses: the next job gets everything that the components could not use."""
    nodes, licenses = [node("n1", cpus=8, gpus=4)], (("matlab", 1),)
    held = [running(90, "n1", (), ends=NOW + 500, cpus=4)]
    behind = pending(5, gpus=4, licenses=licenses, limit_s=400)
    found = cluster_view(
        nodes,
        [together(component(1, 2, licenses=licenses), component(2, 6)), behind],
        held,
        licenses=licenses,
    )
    made = plan(found, NOW, PlannerSettings(backfill="none", queue_order="submit"))
    assert not made.starts and made.pending_reasons.keys() == {1, 2, 5}, (
        "in strict order no job passes another"
    )
    assert started(plan(found, NOW, PlannerSettings(queue_order="submit"))) == {5: ("n1",)}


def test_shared_gpus_of_a_failed_attempt_are_free_again() -> None:
    from warpdeck.model import GpuRequest

    part = pending(1, resources=Resources(gpus=GpuRequest(share_pct=50)))
    whole = pending(2, gpus=1)
    nodes = [node("n1", gpus=1)]
    made = plan(
        cluster_view(nodes, [together(part, whole), pending(3, gpus=1)]),
        NOW,
        PlannerSettings(queue_order="submit"),
    )
    assert started(made) == {3: ("n1",)}


def test_the_leader_reserves_the_time_at_which_all_components_fit() -> None:
    """Both nodes are free at different times. Later jobs must not hold either node beyond the common time."""
    held = [running(90, "n1", (), ends=NOW + 600, cpus=8), running(91, "n2", (), ends=NOW + 300, cpus=8)]
    nodes = [node("n1", cpus=8), node("n2", cpus=8)]
    job = together(component(1, 8), component(2, 8))
    made = plan(cluster_view(nodes, [job], held), NOW, PlannerSettings())
    assert {(each.job_id, each.at_unix) for each in made.reserves} == {(1, NOW + 600), (2, NOW + 600)}
    assert {why.expected_start_unix for why in made.pending_reasons.values()} == {NOW + 600}
    later = NOW + 400
    nodes_now = [running(90, "n1", (), ends=NOW + 600, cpus=8)]
    long, short = component(7, 8, limit_s=3600), component(8, 8, limit_s=200)
    made = plan(cluster_view(nodes, [job, long], nodes_now), later, PlannerSettings(queue_order="submit"))
    assert not made.starts
    made = plan(cluster_view(nodes, [job, short], nodes_now), later, PlannerSettings(queue_order="submit"))
    assert started(made) == {8: ("n2",)}


def test_a_waiting_component_does_not_block_equal_plain_jobs() -> None:
    same = Resources(cpus_per_task=2, tasks=1)
    first = together(pending(1, resources=same), component(2, 64))
    made = plan(
        cluster_view([node("n1", cpus=8)], [first, pending(5, resources=same)]), NOW, PlannerSettings()
    )
    assert started(made) == {5: ("n1",)}


def test_limits_count_all_components_together() -> None:
    accounts = (AccountView(name="lab", limits=Limits(grp_tres={"cpu": 6})),)
    users = (UserView(user="ann", account="lab"),)
    mine: dict[str, Any] = {"account": "lab"}
    job = together(component(1, 4, **mine), component(2, 4, **mine))
    found = cluster_view(
        [node("n1", cpus=64)], [job, component(5, 4, **mine)], accounts=accounts, users=users
    )
    made = plan(found, NOW, PlannerSettings(queue_order="submit"))
    assert started(made) == {5: ("n1",)}
    assert made.pending_reasons[JobId(2)].code == "AssocGrpCpuLimit"


def test_all_components_wait_for_the_dependency_of_one() -> None:
    job = together(pending(1, waits_for="component 1+1, which is held"), pending(2))
    made = plan(cluster_view([node("n1")], [job]), NOW, PlannerSettings())
    assert made.pending_reasons[JobId(1)] == made.pending_reasons[JobId(2)]
    assert "which is held" in made.pending_reasons[JobId(2)].sentence


def test_allocations_name_their_nodes() -> None:
    made = plan(cluster_view([node("n1")], [together(pending(1), pending(2))]), NOW, PlannerSettings())
    assert {share.node for start in made.starts for share in start.allocation.shares} == {NodeName("n1")}


def test_a_plain_job_starts_where_an_equal_component_does_not_fit() -> None:
    small = Resources(cpus_per_task=4, tasks=1)
    first = together(pending(1, resources=small), component(2, 8))
    made = plan(
        cluster_view([node("n1", cpus=8)], [first, pending(5, resources=small)]), NOW, PlannerSettings()
    )
    assert started(made) == {5: ("n1",)}


TIERS = (PartitionView(name="batch", priority_tier=1), PartitionView(name="urgent", priority_tier=5))
BY_TIER = PlannerSettings(preempt_by="partition", preempt_mode="requeue")


def low(number: int, on: str, *, cpus: int = 8, **fields: Any) -> RunningJob:
    made = running(number, on, (), ends=NOW + 9000, cpus=cpus)
    return msgspec.structs.replace(made, partition="batch", start_at_unix=NOW - 100, **fields)


def urgent(number: int, cpus: int, **fields: Any) -> PendingJob:
    return component(number, cpus, partition="urgent", **fields)


def crowd(jobs: list[PendingJob], held: list[RunningJob]) -> PlannerView:
    return cluster_view([node("n1", cpus=8), node("n2", cpus=8)], jobs, held, partitions=TIERS)


def victims(made: Plan) -> set[int]:
    return {each.job_id for each in made.preempts}


def test_each_component_preempts_the_jobs_that_it_may_preempt() -> None:
    made = plan(crowd([together(urgent(1, 8), urgent(2, 8))], [low(90, "n1"), low(91, "n2")]), NOW, BY_TIER)
    assert victims(made) == {90, 91} and {each.for_job_id for each in made.preempts} == {1}
    for order in made.preempts:
        rooms = {JobId(1): order.preempted_claim, **dict(order.component_claims)}
        assert {number: room.nodes for number, room in rooms.items() if room} == {1: ("n1",), 2: ("n2",)}
    assert "waits until preempted job" in made.pending_reasons[JobId(1)].sentence
    assert made.pending_reasons[JobId(2)] == made.pending_reasons[JobId(1)]


def test_no_job_is_preempted_if_another_component_cannot_be_placed() -> None:
    for fast in (msgspec.structs.replace(low(91, "n2"), partition="urgent"), low(91, "n2", suspended=True)):
        made = plan(crowd([together(urgent(1, 8), urgent(2, 8))], [low(90, "n1"), fast]), NOW, BY_TIER)
        assert not victims(made) and not made.starts
    slow = component(2, 8, partition="batch")
    made = plan(crowd([together(urgent(1, 8), slow)], [low(90, "n1"), low(91, "n2")]), NOW, BY_TIER)
    assert not victims(made), "a component in batch preempts no job in batch"


def test_one_preempted_job_may_free_enough_for_two_components() -> None:
    made = plan(crowd([together(urgent(1, 3), urgent(2, 5))], [low(90, "n1"), low(91, "n2")]), NOW, BY_TIER)
    assert len(victims(made)) == 1
    made = plan(crowd([together(urgent(1, 3), urgent(2, 6))], [low(90, "n1"), low(91, "n2")]), NOW, BY_TIER)
    assert victims(made) == {90, 91}


def test_a_component_that_fits_stays_off_nodes_freed_for_another() -> None:
    """Otherwise it would take the node that was cleared for the component that fits nowhere else."""
    job = together(urgent(1, 4), urgent(2, 8, resources={"nodelist": ("n1",)}), urgent(3, 4))
    view_before = crowd([job], [low(90, "n1")])
    made = plan(view_before, NOW, BY_TIER)
    order = made.preempts[0]
    rooms = {JobId(1): order.preempted_claim, **dict(order.component_claims)}
    assert victims(made) == {90}
    assert {number: room.nodes for number, room in rooms.items() if room} == {
        1: ("n2",),
        2: ("n1",),
        3: ("n2",),
    }
    kept = [msgspec.structs.replace(part, preempted_claim=rooms[part.id]) for part in (job, *job.components)]
    again = plan(crowd([msgspec.structs.replace(kept[0], components=tuple(kept[1:]))], []), NOW + 1, BY_TIER)
    assert started(again) == {1: ("n2",), 2: ("n1",), 3: ("n2",)}


def test_no_job_is_preempted_if_all_components_fit_soon() -> None:
    ends = [low(90, "n1", ending=True), low(91, "n2")]
    ends = [msgspec.structs.replace(job, ends_by_unix=NOW + 0.5) for job in ends]
    made = plan(crowd([together(urgent(1, 8), urgent(2, 8))], ends), NOW, BY_TIER)
    assert not victims(made) and {each.job_id for each in made.reserves} == {1, 2}
