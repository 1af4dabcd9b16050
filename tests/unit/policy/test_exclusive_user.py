"""--exclusive=user and partitions with ExclusiveUser: users never share a node, now and later."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.support.builders import node, pending, running, view

from warpdeck.model import JobId, NodeName, Resources
from warpdeck.policy import (
    PartitionView,
    PassCache,
    PendingJob,
    Plan,
    PlannerSettings,
    QosView,
    RunningJob,
    plan,
)
from warpdeck.policy.dry_run import dry_run
from warpdeck.policy.input.view import NodeView, owner_of

NOW = 10_000.0


def exclusive_user(number: int, user: str = "ann", *, limit_s: int | None = 600, **fields: Any) -> PendingJob:
    return pending(number, user=user, limit_s=limit_s, resources=Resources(share_with="user", **fields))


def runs(number: int, user: str, *, ends: float | None = NOW + 500, **fields: Any) -> RunningJob:
    job = running(number, fields.pop("on", "a"), (), ends=ends, cpus=fields.pop("cpus", 1))
    return msgspec.structs.replace(job, user=user, **fields)


def planned(
    jobs: list[PendingJob], held: list[RunningJob], nodes: list[NodeView] | None = None, **tables: Any
) -> Plan:
    cluster = msgspec.structs.replace(view(nodes or [node("a")], jobs, held), **tables)
    return plan(cluster, NOW, PlannerSettings(preempt_by="qos", preempt_mode=tables.pop("mode", "requeue")))


def started(made: Plan) -> list[int]:
    return [start.job_id for start in made.starts]


def test_an_exclusive_user_job_gets_only_its_requested_resources() -> None:
    made = planned([exclusive_user(1)], [])
    assert made.starts[0].allocation.shares[0].cpus == 1


def test_an_exclusive_user_job_avoids_nodes_of_other_users() -> None:
    made = planned([exclusive_user(1)], [runs(8, "bob")])
    assert started(made) == []
    why = made.pending_reasons[JobId(1)]
    assert why.code == "Resources" and "a has free resources, but other users' jobs run there" in why.sentence
    assert why.expected_start_unix == NOW + 500
    assert started(planned([exclusive_user(1)], [runs(8, "ann")])) == [1]
    assert planned([exclusive_user(1)], [runs(8, "bob")], [node("a"), node("b")]).starts[
        0
    ].allocation.node_names() == ("b",)


def test_a_new_user_with_the_name_of_a_deleted_one_is_another_user() -> None:
    new, own = (msgspec.structs.replace(exclusive_user(1), uid=uid) for uid in (2, 0))
    assert started(planned([new], [runs(8, "ann")])) == []
    assert started(planned([own], [runs(8, "ann")])) == [1]
    beside = msgspec.structs.replace(pending(1, user="ann", limit_s=60), uid=2)
    assert started(planned([beside], [runs(8, "ann", excludes_users=True)])) == []
    assert started(planned([beside], [runs(8, "ann", excludes_users=True, uid=2)])) == [1]


def test_other_users_jobs_stay_off_its_node_but_its_own_users_start() -> None:
    held = [runs(8, "ann", excludes_users=True)]
    jobs = [
        pending(1, user="bob", limit_s=60),
        pending(2, user="ann", limit_s=60),
        exclusive_user(3, limit_s=400),
    ]
    made = planned(jobs, held)
    assert started(made) == [2, 3]
    why = made.pending_reasons[JobId(1)]
    assert why.code == "Resources" and "another user's job there excludes other users" in why.sentence
    assert why.expected_start_unix == NOW + 500
    late = planned([*jobs[:2], exclusive_user(3, limit_s=600)], held)
    assert started(late) == [2], "job 3 would still be there when job 1 may start"


def test_exclusive_user_holds_within_one_pass() -> None:
    assert started(planned([exclusive_user(1), pending(2, user="bob"), pending(3, user="ann")], [])) == [1, 3]
    assert started(planned([pending(1, user="bob"), exclusive_user(2), pending(3, user="cat")], [])) == [1, 3]


def test_a_partition_may_apply_exclusive_user_to_all_of_its_jobs() -> None:
    own = (PartitionView(name="own", exclusive_user=True), PartitionView(name="free"))
    held = [runs(8, "bob", partition="own")]
    jobs = [
        pending(1, partition="free"),
        pending(2, partition="own"),
        pending(3, user="bob", partition="free", limit_s=400),
    ]
    assert started(planned(jobs, held, partitions=own)) == [3]
    held = [runs(8, "bob", partition="free")]
    assert started(planned(jobs, held, partitions=own)) == [1, 3]


def test_other_users_jobs_do_not_delay_a_reserved_exclusive_user_job() -> None:
    held = [runs(8, "bob", cpus=64)]
    jobs = [exclusive_user(1), pending(2, user="bob", limit_s=3600), pending(3, user="ann", limit_s=3600)]
    made = planned(jobs, [*held, runs(9, "bob", on="b", cpus=64)], [node("a"), node("b")])
    where = {each.job_id: each.nodes for each in made.reserves if each.at_unix == NOW + 500}
    assert len(where) == 2 and where[JobId(1)] != where[JobId(2)]
    late = planned([exclusive_user(1), pending(2, user="bob", limit_s=3600)], [runs(8, "bob", cpus=2)])
    assert started(late) == [], "it would still be there when job 1 may start"
    soon = planned([exclusive_user(1), pending(2, user="bob", limit_s=400)], [runs(8, "bob", cpus=2)])
    assert started(soon) == [2]


def test_a_suspended_job_of_another_user_still_excludes_the_node() -> None:
    held = runs(8, "bob")
    stopped = msgspec.structs.replace(held, suspended=True, resumes_to=held.allocation)
    assert started(planned([exclusive_user(1)], [stopped])) == []


def test_preemption_removes_all_other_users_jobs_and_keeps_its_own() -> None:
    qos = (QosView(name="high", preempts=frozenset({"low"})), QosView(name="low"))
    job = msgspec.structs.replace(exclusive_user(1), qos="high")
    held = [runs(number, user, qos="low") for number, user in ((7, "bob"), (8, "cat"), (9, "ann"))]
    made = planned([job], held, qos=qos)
    assert sorted(each.job_id for each in made.preempts) == [7, 8]
    keeps = [runs(7, "bob", qos="high"), *held[1:]]
    assert planned([job], keeps, qos=qos).preempts == (), "a job that must not be preempted stays there"


def test_no_job_is_suspended_for_an_exclusive_user_job() -> None:
    qos = (
        QosView(name="high", preempts=frozenset({"low"})),
        QosView(name="low", preempt_mode="suspend"),
    )
    job = msgspec.structs.replace(exclusive_user(1), qos="high")
    assert planned([job], [runs(8, "bob", qos="low")], qos=qos).preempts == ()


def test_advice_names_exclusive_user_if_the_job_would_start_without_it() -> None:
    cluster = view([node("a")], [exclusive_user(1)], [runs(8, "bob")])
    found = dry_run(cluster, NOW, PlannerSettings(), JobId(1))
    assert "starts now with other users' jobs on its nodes (without --exclusive=user)" in found.changes


def test_the_cache_drops_node_owners_when_no_job_needs_them() -> None:
    cache, nodes = PassCache(), [node("a"), node("b")]
    held = [runs(8, "bob"), runs(9, "ann", on="b", excludes_users=True)]
    first = view(nodes, [pending(1, user="cat"), pending(2, user="bob")], held)
    assert plan(first, NOW, PlannerSettings(), cache=cache) == plan(first, NOW, PlannerSettings())
    later = msgspec.structs.replace(first, running=(held[0],))
    assert plan(later, NOW, PlannerSettings(), cache=cache) == plan(later, NOW, PlannerSettings())
    assert cache.cluster_table.classes.owners is None


def test_only_requests_of_node_owners_have_their_own_equivalence_classes() -> None:
    users = [f"u{number}" for number in range(20)]
    same = Resources(cpus_per_task=2)
    jobs = [pending(number, user=user, resources=same) for number, user in enumerate(users, start=1)]
    jobs += [exclusive_user(50, "u3"), exclusive_user(51, "u4")]
    cache = PassCache()
    plan(view([node("a")], jobs, [runs(99, "bob", cpus=64)]), NOW, PlannerSettings(), cache=cache)
    kinds = cache.queue.representatives
    assert cache.cluster_table.classes.owners == frozenset({owner_of("u3", 0), owner_of("u4", 0)})
    assert len(kinds) == 5, "that of all others, and of each owner two"


def test_users_excluded_for_the_same_reason_share_one_placement_test() -> None:
    jobs = [exclusive_user(number, f"u{number}") for number in range(1, 31)] + [
        exclusive_user(50, "bob", limit_s=400)
    ]
    few = PlannerSettings(max_backfill_tests=8, queue_order="submit", backfill_order="priority")
    made = plan(view([node("a")], jobs, [runs(99, "bob")]), NOW, few)
    assert started(made) == [50], "the others took all of the tests"
    assert len({made.pending_reasons[JobId(number)].sentence for number in range(2, 31)}) == 1
    assert "a has free resources, but other users' jobs run there" in made.pending_reasons[JobId(30)].sentence


def test_the_reason_differs_for_a_user_who_owns_one_of_the_nodes() -> None:
    held = [runs(7, "bob"), runs(8, "cat", on="b")]
    jobs = [
        exclusive_user(number, user, nodes_min=2, nodes_max=2) for number, user in ((1, "ann"), (2, "bob"))
    ]
    jobs.append(exclusive_user(3, "dan", nodes_min=2, nodes_max=2))
    made = planned(jobs, held, [node("a"), node("b")])
    assert "1 of 2 required nodes are available now" in made.pending_reasons[JobId(2)].sentence
    assert "a has free resources, but other users' jobs run there" in made.pending_reasons[JobId(3)].sentence


def test_advice_skips_an_exclusive_user_partition_with_other_users() -> None:
    a, b = frozenset({NodeName("a")}), frozenset({NodeName("b")})
    own = PartitionView(name="own", nodes=a, exclusive_user=True)
    parts = (PartitionView(name="free", nodes=b), PartitionView(name="other", nodes=a), own)
    jobs = [pending(1, user="dan", partition="other"), pending(2, user="cat", partition="free")]
    cluster = view([node("a"), node("b")], jobs, [runs(9, "bob", on="b", cpus=64, partition="free")])
    found = dry_run(msgspec.structs.replace(cluster, partitions=parts), NOW, PlannerSettings(), JobId(2))
    assert "starts now with --partition=other" in found.changes
    first = msgspec.structs.replace(cluster, partitions=(parts[0], own, parts[1]))
    assert "starts now with --partition=other" in dry_run(first, NOW, PlannerSettings(), JobId(2)).changes


def test_the_reason_names_the_partition_or_option_that_excludes_users() -> None:
    own = (PartitionView(name="own", exclusive_user=True), PartitionView(name="free"))
    held = [runs(8, "bob", partition="free")]
    by_partition = (
        planned([pending(1, partition="own")], held, partitions=own).pending_reasons[JobId(1)].sentence
    )
    assert "partition own requires nodes without other users (exclusive_user)" in by_partition
    by_job = planned([exclusive_user(1)], held).pending_reasons[JobId(1)].sentence
    assert "this job requires nodes without other users (--exclusive=user)" in by_job


def test_the_reason_names_the_node_of_the_nodelist() -> None:
    requested = Resources(nodelist=("b",), nodes_min=1, nodes_max=2, cpus_per_task=64)
    nodes = [node("a"), node("b"), node("c")]
    full = planned([pending(1, resources=requested)], [runs(8, "bob", on="b", cpus=60)], nodes)
    assert "b (--nodelist) has 4 CPUs free" in full.pending_reasons[JobId(1)].sentence
    alone = msgspec.structs.replace(requested, share_with="user")
    shared = planned(
        [pending(1, resources=msgspec.structs.replace(alone, cpus_per_task=1))],
        [runs(8, "bob", on="b")],
        nodes,
    )
    assert (
        "b has free resources, but other users' jobs run there" in shared.pending_reasons[JobId(1)].sentence
    )
    assert (
        "b (--nodelist) has 0 CPUs free"
        in planned(
            [pending(1, resources=requested)],
            [runs(8, "bob", on="b", cpus=64), runs(9, "bob", on="a"), runs(7, "bob", on="c")],
            nodes,
        )
        .pending_reasons[JobId(1)]
        .sentence
    )
