"""--exclusive=user, and partitions that share nodes only within a user: which jobs may share a node, now and
later.
"""

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


def apart(number: int, user: str = "ann", *, limit_s: int | None = 600, **fields: Any) -> PendingJob:
    return pending(number, user=user, limit_s=limit_s, resources=Resources(share_with="user", **fields))


def runs(number: int, user: str, *, ends: float | None = NOW + 500, **fields: Any) -> RunningJob:
    job = running(number, fields.pop("on", "a"), (), ends=ends, cpus=fields.pop("cpus", 1))
    return msgspec.structs.replace(job, user=user, **fields)


def planned(
    jobs: list[PendingJob], held: list[RunningJob], nodes: list[NodeView] | None = None, **tables: Any
) -> Plan:
    picture = msgspec.structs.replace(view(nodes or [node("a")], jobs, held), **tables)
    return plan(picture, NOW, PlannerSettings(preempt_by="qos", preempt_mode=tables.pop("mode", "requeue")))


def started(made: Plan) -> list[int]:
    return [start.job_id for start in made.starts]


def test_it_gets_what_it_asked_for_and_no_more() -> None:
    made = planned([apart(1)], [])
    assert made.starts[0].allocation.shares[0].cpus == 1


def test_it_goes_to_no_node_with_another_users_job_and_to_one_with_its_own_users() -> None:
    made = planned([apart(1)], [runs(8, "bob")])
    assert started(made) == []
    why = made.pending_reasons[JobId(1)]
    assert why.code == "Resources" and "a has free resources, but other users' jobs run there" in why.sentence
    assert why.expected_start_unix == NOW + 500
    assert started(planned([apart(1)], [runs(8, "ann")])) == [1]
    assert planned([apart(1)], [runs(8, "bob")], [node("a"), node("b")]).starts[
        0
    ].allocation.node_names() == ("b",)


def test_who_has_the_name_of_a_deleted_user_is_another_user() -> None:
    new, own = (msgspec.structs.replace(apart(1), uid=uid) for uid in (2, 0))
    assert started(planned([new], [runs(8, "ann")])) == []
    assert started(planned([own], [runs(8, "ann")])) == [1]
    beside = msgspec.structs.replace(pending(1, user="ann", limit_s=60), uid=2)
    assert started(planned([beside], [runs(8, "ann", excludes_users=True)])) == []
    assert started(planned([beside], [runs(8, "ann", excludes_users=True, uid=2)])) == [1]


def test_nobody_elses_job_comes_to_it_and_its_own_users_do() -> None:
    held = [runs(8, "ann", excludes_users=True)]
    jobs = [pending(1, user="bob", limit_s=60), pending(2, user="ann", limit_s=60), apart(3, limit_s=400)]
    made = planned(jobs, held)
    assert started(made) == [2, 3]
    why = made.pending_reasons[JobId(1)]
    assert why.code == "Resources" and "another user's job there excludes other users" in why.sentence
    assert why.expected_start_unix == NOW + 500
    late = planned([*jobs[:2], apart(3, limit_s=600)], held)
    assert started(late) == [2], "job 3 would still be there when job 1 may start"


def test_in_one_pass_too() -> None:
    assert started(planned([apart(1), pending(2, user="bob"), pending(3, user="ann")], [])) == [1, 3]
    assert started(planned([pending(1, user="bob"), apart(2), pending(3, user="cat")], [])) == [1, 3]


def test_a_partition_has_it_so_for_all_of_its_jobs() -> None:
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


def test_who_waits_for_the_node_is_delayed_by_nobody_who_may_not_be_beside_it() -> None:
    held = [runs(8, "bob", cpus=64)]
    jobs = [apart(1), pending(2, user="bob", limit_s=3600), pending(3, user="ann", limit_s=3600)]
    made = planned(jobs, [*held, runs(9, "bob", on="b", cpus=64)], [node("a"), node("b")])
    where = {each.job_id: each.nodes for each in made.reserves if each.at_unix == NOW + 500}
    assert len(where) == 2 and where[JobId(1)] != where[JobId(2)]
    late = planned([apart(1), pending(2, user="bob", limit_s=3600)], [runs(8, "bob", cpus=2)])
    assert started(late) == [], "it would still be there when job 1 may start"
    soon = planned([apart(1), pending(2, user="bob", limit_s=400)], [runs(8, "bob", cpus=2)])
    assert started(soon) == [2]


def test_a_suspended_job_is_still_there() -> None:
    held = runs(8, "bob")
    stopped = msgspec.structs.replace(held, suspended=True, resumes_to=held.allocation)
    assert started(planned([apart(1)], [stopped])) == []


def test_all_who_may_not_be_beside_it_leave_for_it_but_not_its_own_user() -> None:
    qos = (QosView(name="high", preempts=frozenset({"low"})), QosView(name="low"))
    job = msgspec.structs.replace(apart(1), qos="high")
    held = [runs(number, user, qos="low") for number, user in ((7, "bob"), (8, "cat"), (9, "ann"))]
    made = planned([job], held, qos=qos)
    assert sorted(each.job_id for each in made.preempts) == [7, 8]
    keeps = [runs(7, "bob", qos="high"), *held[1:]]
    assert planned([job], keeps, qos=qos).preempts == (), "who may not be pushed aside stays there"


def test_nobody_is_suspended_for_it_where_he_would_still_be_there() -> None:
    qos = (
        QosView(name="high", preempts=frozenset({"low"})),
        QosView(name="low", preempt_mode="suspend"),
    )
    job = msgspec.structs.replace(apart(1), qos="high")
    assert planned([job], [runs(8, "bob", qos="low")], qos=qos).preempts == ()


def test_without_it_the_job_would_start_and_the_advice_says_so() -> None:
    picture = view([node("a")], [apart(1)], [runs(8, "bob")])
    found = dry_run(picture, NOW, PlannerSettings(), JobId(1))
    assert "starts now with other users' jobs on its nodes (without --exclusive=user)" in found.changes


def test_a_memory_forgets_whose_jobs_are_where_when_it_matters_no_more() -> None:
    memory, nodes = PassCache(), [node("a"), node("b")]
    held = [runs(8, "bob"), runs(9, "ann", on="b", excludes_users=True)]
    first = view(nodes, [pending(1, user="cat"), pending(2, user="bob")], held)
    assert plan(first, NOW, PlannerSettings(), cache=memory) == plan(first, NOW, PlannerSettings())
    later = msgspec.structs.replace(first, running=(held[0],))
    assert plan(later, NOW, PlannerSettings(), cache=memory) == plan(later, NOW, PlannerSettings())
    assert memory.cluster_table.classes.owners is None


def test_requests_of_users_who_share_with_all_are_one_kind_and_those_of_owners_their_own() -> None:
    users = [f"u{number}" for number in range(20)]
    same = Resources(cpus_per_task=2)
    jobs = [pending(number, user=user, resources=same) for number, user in enumerate(users, start=1)]
    jobs += [apart(50, "u3"), apart(51, "u4")]
    memory = PassCache()
    plan(view([node("a")], jobs, [runs(99, "bob", cpus=64)]), NOW, PlannerSettings(), cache=memory)
    kinds = memory.queue.representatives
    assert memory.cluster_table.classes.owners == {owner_of("u3", 0), owner_of("u4", 0)}
    assert len(kinds) == 5, "that of all others, and of each owner two"


def test_users_who_are_kept_out_alike_are_not_looked_for_one_by_one_and_told_the_same() -> None:
    jobs = [apart(number, f"u{number}") for number in range(1, 31)] + [apart(50, "bob", limit_s=400)]
    few = PlannerSettings(max_backfill_tests=8, queue_order="submit", backfill_order="priority")
    made = plan(view([node("a")], jobs, [runs(99, "bob")]), NOW, few)
    assert started(made) == [50], "the others took all of the tests"
    assert len({made.pending_reasons[JobId(number)].sentence for number in range(2, 31)}) == 1
    assert "a has free resources, but other users' jobs run there" in made.pending_reasons[JobId(30)].sentence


def test_who_is_on_one_of_the_nodes_that_he_needs_is_told_of_it() -> None:
    held = [runs(7, "bob"), runs(8, "cat", on="b")]
    jobs = [apart(number, user, nodes_min=2, nodes_max=2) for number, user in ((1, "ann"), (2, "bob"))]
    jobs.append(apart(3, "dan", nodes_min=2, nodes_max=2))
    made = planned(jobs, held, [node("a"), node("b")])
    assert "1 of 2 required nodes are available now" in made.pending_reasons[JobId(2)].sentence
    assert "a has free resources, but other users' jobs run there" in made.pending_reasons[JobId(3)].sentence


def test_no_partition_of_one_user_at_a_time_is_advised_beside_another_who_starts_there() -> None:
    a, b = frozenset({NodeName("a")}), frozenset({NodeName("b")})
    own = PartitionView(name="own", nodes=a, exclusive_user=True)
    parts = (PartitionView(name="free", nodes=b), PartitionView(name="other", nodes=a), own)
    jobs = [pending(1, user="dan", partition="other"), pending(2, user="cat", partition="free")]
    picture = view([node("a"), node("b")], jobs, [runs(9, "bob", on="b", cpus=64, partition="free")])
    found = dry_run(msgspec.structs.replace(picture, partitions=parts), NOW, PlannerSettings(), JobId(2))
    assert "starts now with --partition=other" in found.changes
    first = msgspec.structs.replace(picture, partitions=(parts[0], own, parts[1]))
    assert "starts now with --partition=other" in dry_run(first, NOW, PlannerSettings(), JobId(2)).changes


def test_the_reason_names_who_wants_it_so() -> None:
    own = (PartitionView(name="own", exclusive_user=True), PartitionView(name="free"))
    held = [runs(8, "bob", partition="free")]
    by_partition = (
        planned([pending(1, partition="own")], held, partitions=own).pending_reasons[JobId(1)].sentence
    )
    assert "partition own requires nodes without other users (exclusive_user)" in by_partition
    by_job = planned([apart(1)], held).pending_reasons[JobId(1)].sentence
    assert "this job requires nodes without other users (--exclusive=user)" in by_job


def test_a_node_that_a_job_names_beside_others_is_the_one_of_the_reason() -> None:
    asked = Resources(nodelist=("b",), nodes_min=1, nodes_max=2, cpus_per_task=64)
    nodes = [node("a"), node("b"), node("c")]
    full = planned([pending(1, resources=asked)], [runs(8, "bob", on="b", cpus=60)], nodes)
    assert "b (--nodelist) has 4 CPUs free" in full.pending_reasons[JobId(1)].sentence
    alone = msgspec.structs.replace(asked, share_with="user")
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
            [pending(1, resources=asked)],
            [runs(8, "bob", on="b", cpus=64), runs(9, "bob", on="a"), runs(7, "bob", on="c")],
            nodes,
        )
        .pending_reasons[JobId(1)]
        .sentence
    )
