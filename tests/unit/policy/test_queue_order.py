"""The order of jobs with equal priority, and the starvation guard."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.support.builders import node, pending, running, view

from warpdeck.model import GpuRequest, JobId, NodeName, Resources
from warpdeck.policy import PartitionView, PendingJob, Plan, PlannerSettings, RunningJob, plan

NOW = 100_000.0


def waiting(number: int, *, waited_s: float, limit_s: int, gpus: int = 8, **fields: Any) -> PendingJob:
    return pending(number, gpus=gpus, limit_s=limit_s, eligible_at_unix=NOW - waited_s, **fields)


def full(ends: float = NOW + 100) -> list[RunningJob]:
    return [running(1, "a", tuple(range(8)), ends=ends)]


def planned(
    jobs: list[PendingJob], *, longest_wait_s: float, held: list[RunningJob] | None = None, **how: Any
) -> Plan:
    cluster = view([node("a")], jobs, full() if held is None else held)
    return plan(msgspec.structs.replace(cluster, longest_wait_s=longest_wait_s), NOW, PlannerSettings(**how))


def first_reserved(made: Plan) -> JobId:
    return made.reserves[0].job_id


def test_the_job_with_the_highest_response_ratio_is_next() -> None:
    jobs = [waiting(2, waited_s=3600, limit_s=36_000), waiting(3, waited_s=600, limit_s=60)]
    assert first_reserved(planned(jobs, longest_wait_s=1e9)) == 3
    assert first_reserved(planned(jobs, longest_wait_s=1e9, queue_order="submission")) == 2


def test_the_order_uses_the_predicted_run_time_before_the_limit() -> None:
    jobs = [
        waiting(2, waited_s=600, limit_s=36_000, predicted_s=30.0),
        waiting(3, waited_s=600, limit_s=3600),
    ]
    assert first_reserved(planned(jobs, longest_wait_s=1e9)) == 2


def test_a_job_is_overtaken_no_more_when_its_wait_nears_the_longest() -> None:
    jobs = [waiting(2, waited_s=3600, limit_s=36_000), waiting(3, waited_s=600, limit_s=60)]
    assert first_reserved(planned(jobs, longest_wait_s=4000)) == 2


def test_work_ahead_of_a_job_counts_as_waiting_time() -> None:
    """Job 2 has waited only briefly, but running jobs will delay it for an hour, longer than recent waits."""
    jobs = [waiting(2, waited_s=10, limit_s=36_000), waiting(3, waited_s=5, limit_s=60)]
    assert first_reserved(planned(jobs, longest_wait_s=4000, held=full(NOW + 3600))) == 2
    assert first_reserved(planned(jobs, longest_wait_s=40_000, held=full(NOW + 3600))) == 3


def test_overdue_jobs_get_two_reservations_unless_reservations_are_off() -> None:
    jobs = [waiting(number, waited_s=4000 - number, limit_s=600) for number in (2, 3, 4)]
    assert len(planned(jobs, longest_wait_s=9000, held=full(NOW + 9000)).reserves) == 1
    assert [each.job_id for each in planned(jobs, longest_wait_s=4000).reserves] == [2, 3]
    assert not planned(jobs, longest_wait_s=4000, reservations=0).reserves
    longer = [msgspec.structs.replace(job, time_limit_s=9000) for job in jobs]
    assert len(planned(longer, longest_wait_s=4000).reserves) == 1, "they wait for less than they will run"


def beside(jobs: list[PendingJob], *, busy_gpus: int, longest_wait_s: float = 4000, **how: Any) -> Plan:
    """Return the plan of a cluster with two nodes of 8 GPUs. `busy_gpus` of them are held for a long time."""
    on_b = min(8, busy_gpus)
    held = [running(1, "b", tuple(range(on_b)), ends=NOW + 9000)] if on_b else []
    if busy_gpus > 8:
        held.append(running(5, "a", tuple(range(busy_gpus - 8)), ends=NOW + 9000))
    cluster = view([node("a"), node("b")], jobs, held)
    return plan(msgspec.structs.replace(cluster, longest_wait_s=longest_wait_s), NOW, PlannerSettings(**how))


def both_nodes(number: int, *, waited_s: float) -> PendingJob:
    resources = Resources(nodes_min=2, nodes_max=2, cpus_per_task=8, gpus=GpuRequest(per_node=8))
    return waiting(number, waited_s=waited_s, limit_s=600, resources=resources)


def test_a_wide_overdue_job_starts_first_on_an_empty_machine() -> None:
    """Otherwise the narrow jobs ahead of it fill the machine, and it has to be drained again."""
    narrow = waiting(2, waited_s=3900, limit_s=6000, gpus=4)
    assert [each.job_id for each in beside([narrow, both_nodes(3, waited_s=3000)], busy_gpus=0).starts] == [3]
    soon = beside([narrow, both_nodes(3, waited_s=100)], busy_gpus=0, longest_wait_s=40_000)
    assert [each.job_id for each in soon.starts] == [2]


def test_a_wide_overdue_job_does_not_start_first_on_a_busy_machine() -> None:
    narrow = waiting(2, waited_s=3900, limit_s=60_000, gpus=4)
    made = beside([narrow, both_nodes(3, waited_s=3000)], busy_gpus=4)
    assert [each.job_id for each in made.starts] == [2]


def test_the_width_of_a_job_is_relative_to_its_partition() -> None:
    """All nodes of a small partition are most of it, however large the rest of the machine is."""
    jobs = [
        waiting(2, waited_s=3900, limit_s=600, gpus=4, partition="few"),
        waiting(3, waited_s=3000, limit_s=600, gpus=8, partition="few"),
    ]
    names = [node(name) for name in ("a", "b", "c", "d")]
    parts = (
        PartitionView(name="few", nodes=frozenset((NodeName("a"),))),
        PartitionView(name="many", nodes=frozenset(NodeName(name) for name in "bcd")),
    )
    cluster = msgspec.structs.replace(view(names, jobs, []), partitions=parts, longest_wait_s=4000)
    assert [each.job_id for each in plan(cluster, NOW, PlannerSettings()).starts] == [3]
    elsewhere = [msgspec.structs.replace(job, partition="many") for job in jobs]
    cluster = msgspec.structs.replace(cluster, pending=tuple(elsewhere))
    assert [each.job_id for each in plan(cluster, NOW, PlannerSettings()).starts] == [2, 3]


def test_conservative_backfill_keeps_reserved_starts_in_order() -> None:
    jobs = [
        waiting(2, waited_s=50, limit_s=600, reserved_start_unix=NOW + 700),
        waiting(3, waited_s=40, limit_s=600, reserved_start_unix=NOW + 100),
        waiting(4, waited_s=30, limit_s=600),
    ]
    made = planned(jobs, longest_wait_s=0.0, backfill="conservative")
    assert [(each.job_id, each.at_unix) for each in made.reserves] == [
        (3, NOW + 100),
        (2, NOW + 700),
        (4, NOW + 1300),
    ]


def test_a_reservation_of_the_start_only_leaves_the_nodes_open() -> None:
    """The head job can have all of node b in 50 s.

    A small job may take half of it if it ends by then, or if other nodes have room.
    """
    held = [running(1, "a", tuple(range(8)), ends=NOW + 100), running(5, "b", (0, 1, 2, 3), ends=NOW + 50)]
    head = waiting(2, waited_s=50, limit_s=600)
    small = waiting(3, waited_s=40, limit_s=6000, gpus=4)
    cluster = view([node("a"), node("b")], [head, small], held)
    textbook = PlannerSettings(queue_order="submission", reservation_holds="start")
    assert not plan(cluster, NOW, textbook).starts
    more = msgspec.structs.replace(cluster, nodes=(*cluster.nodes, node("c", gpus=4, cpus=8)))
    assert [each.job_id for each in plan(more, NOW, textbook).starts] == [3]
    wide = waiting(3, waited_s=40, limit_s=40, gpus=4)
    assert [
        each.job_id
        for each in plan(msgspec.structs.replace(cluster, pending=(head, wide)), NOW, textbook).starts
    ] == [3]
