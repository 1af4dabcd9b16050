"""Components of a heterogeneous job start in one pass or not at all."""

from __future__ import annotations

from typing import Any

import msgspec
from tests import invariants
from tests.builders import node, pending, running, view

from warpdeck.model import JobId, NodeName, Resources
from warpdeck.policy import AccountView, Limits, PendingJob, Plan, Settings, UserView, View, plan

NOW = 1000.0


def together(first: PendingJob, *others: PendingJob) -> PendingJob:
    return msgspec.structs.replace(first, components=others)


def seen(nodes: list[Any], jobs: list[PendingJob], held: list[Any] | None = None, **more: Any) -> View:
    leaders = tuple(job.id for job in jobs if job.components)
    return msgspec.structs.replace(view(nodes, jobs, held), leaders=leaders, **more)


def started(made: Plan) -> dict[int, tuple[str, ...]]:
    return {start.job_id: start.allocation.node_names() for start in made.starts}


def asks(number: int, cpus: int, **fields: Any) -> PendingJob:
    resources = Resources(cpus_per_task=cpus, tasks=1, **fields.pop("asked", {}))
    return pending(number, resources=resources, **fields)


def test_all_components_start_in_one_pass_on_nodes_that_they_may_share() -> None:
    seen_now = seen([node("n1", cpus=8), node("n2", cpus=8)], [together(asks(1, 2), asks(2, 8), asks(3, 6))])
    made = plan(seen_now, NOW, Settings())
    assert started(made).keys() == {1, 2, 3}
    invariants.nothing_is_held_twice(seen_now, made)
    assert not made.whys


def test_none_starts_where_one_has_no_room_and_each_says_why() -> None:
    held = [running(90, "n1", (), ends=NOW + 500, cpus=4)]
    seen_now = seen(
        [node("n1", cpus=8), node("n2", cpus=8)], [together(asks(1, 2), asks(2, 8), asks(3, 8))], held
    )
    made = plan(seen_now, NOW, Settings())
    assert not made.starts
    assert {job_id: why.code for job_id, why in made.whys.items()} == dict.fromkeys((1, 2, 3), "Resources")
    assert "its 3 components start together" in made.whys[JobId(1)].sentence
    assert set(made.priorities) == {1, 2, 3}


def test_who_can_go_to_the_fewest_nodes_is_placed_first() -> None:
    only = asks(2, 8, asked={"nodelist": ("n1",)})
    made = plan(seen([node("n1", cpus=8), node("n2", cpus=8)], [together(asks(1, 4), only)]), NOW, Settings())
    assert started(made) == {1: ("n2",), 2: ("n1",)}


def test_what_a_failed_try_took_is_free_for_others_in_the_same_pass() -> None:
    """CPUs, GPUs and licenses: the job behind gets all that the components could not use."""
    nodes, licenses = [node("n1", cpus=8, gpus=4)], (("matlab", 1),)
    held = [running(90, "n1", (), ends=NOW + 500, cpus=4)]
    behind = pending(5, gpus=4, licenses=licenses, limit_s=400)
    found = seen(
        nodes, [together(asks(1, 2, licenses=licenses), asks(2, 6)), behind], held, licenses=licenses
    )
    made = plan(found, NOW, Settings(backfill="none", queue_order="submit"))
    assert not made.starts and made.whys.keys() == {1, 2, 5}, "in strict order nobody passes"
    assert started(plan(found, NOW, Settings(queue_order="submit"))) == {5: ("n1",)}


def test_shared_gpus_are_given_back() -> None:
    from warpdeck.model import GpuAsk

    part = pending(1, resources=Resources(gpus=GpuAsk(share_pct=50)))
    whole = pending(2, gpus=1)
    nodes = [node("n1", gpus=1)]
    made = plan(seen(nodes, [together(part, whole), pending(3, gpus=1)]), NOW, Settings(queue_order="submit"))
    assert started(made) == {3: ("n1",)}


def test_the_leader_keeps_the_moment_at_which_all_fit() -> None:
    """Both nodes free at different moments; a job behind that would take either beyond that moment waits."""
    held = [running(90, "n1", (), ends=NOW + 600, cpus=8), running(91, "n2", (), ends=NOW + 300, cpus=8)]
    nodes = [node("n1", cpus=8), node("n2", cpus=8)]
    job = together(asks(1, 8), asks(2, 8))
    made = plan(seen(nodes, [job], held), NOW, Settings())
    assert {(each.job_id, each.at_unix) for each in made.reserves} == {(1, NOW + 600), (2, NOW + 600)}
    assert {why.expected_start_unix for why in made.whys.values()} == {NOW + 600}
    later = NOW + 400
    nodes_now = [running(90, "n1", (), ends=NOW + 600, cpus=8)]
    long, short = asks(7, 8, limit_s=3600), asks(8, 8, limit_s=200)
    made = plan(seen(nodes, [job, long], nodes_now), later, Settings(queue_order="submit"))
    assert not made.starts
    made = plan(seen(nodes, [job, short], nodes_now), later, Settings(queue_order="submit"))
    assert started(made) == {8: ("n2",)}


def test_one_that_waits_does_not_close_the_way_for_plain_jobs_of_the_same_request() -> None:
    same = Resources(cpus_per_task=2, tasks=1)
    first = together(pending(1, resources=same), asks(2, 64))
    made = plan(seen([node("n1", cpus=8)], [first, pending(5, resources=same)]), NOW, Settings())
    assert started(made) == {5: ("n1",)}


def test_the_limits_count_all_components_together() -> None:
    accounts = (AccountView(name="lab", limits=Limits(grp_tres={"cpu": 6})),)
    users = (UserView(user="ann", account="lab"),)
    mine: dict[str, Any] = {"account": "lab"}
    job = together(asks(1, 4, **mine), asks(2, 4, **mine))
    found = seen([node("n1", cpus=64)], [job, asks(5, 4, **mine)], accounts=accounts, users=users)
    made = plan(found, NOW, Settings(queue_order="submit"))
    assert started(made) == {5: ("n1",)}
    assert made.whys[JobId(2)].code == "AssocGrpCpuLimit"


def test_what_one_waits_for_all_wait_for() -> None:
    job = together(pending(1, waits_for="component 1+1, which is held"), pending(2))
    made = plan(seen([node("n1")], [job]), NOW, Settings())
    assert made.whys[JobId(1)] == made.whys[JobId(2)]
    assert "which is held" in made.whys[JobId(2)].sentence


def test_nodes_are_named() -> None:
    made = plan(seen([node("n1")], [together(pending(1), pending(2))]), NOW, Settings())
    assert {share.node for start in made.starts for share in start.allocation.shares} == {NodeName("n1")}


def test_what_does_not_fit_beside_the_others_may_fit_by_itself() -> None:
    small = Resources(cpus_per_task=4, tasks=1)
    first = together(pending(1, resources=small), asks(2, 8))
    made = plan(seen([node("n1", cpus=8)], [first, pending(5, resources=small)]), NOW, Settings())
    assert started(made) == {5: ("n1",)}
