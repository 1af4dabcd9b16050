"""The bound on waits: jobs beyond it go first, with reservations."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.builders import node, pending, running, view

from warpdeck.policy import PartitionView, PendingJob, Plan, PlannerSettings, plan

NOW = 100_000.0
BOUND_S = 5_000.0


def waiting(number: int, *, waited_s: float, gpus: int = 8, limit_s: int = 600, **fields: Any) -> PendingJob:
    return pending(number, gpus=gpus, limit_s=limit_s, eligible_at_unix=NOW - waited_s, **fields)


def planned(jobs: list[PendingJob], *, busy: int = 8, **how: Any) -> Plan:
    held = [running(1, "a", tuple(range(busy)), ends=NOW + 100)] if busy else []
    return plan(view([node("a")], jobs, held), NOW, PlannerSettings(wait_bound_s=BOUND_S, **how))


def test_a_job_beyond_the_bound_goes_before_a_higher_priority() -> None:
    jobs = [waiting(2, waited_s=4000, priority=1000), waiting(3, waited_s=6000, nice=500)]
    assert [start.job_id for start in planned(jobs, busy=0).starts] == [3]
    late = [waiting(2, waited_s=4000, priority=1000), waiting(3, waited_s=4900, nice=500)]
    assert [start.job_id for start in planned(late, busy=0).starts] == [2]


def test_it_goes_before_a_higher_partition_tier() -> None:
    jobs = [waiting(2, waited_s=10, partition="high"), waiting(3, waited_s=6000, partition="low")]
    site = view([node("a")], jobs, [])
    site = type(site)(
        nodes=site.nodes,
        running=(),
        pending=site.pending,
        partitions=(PartitionView(name="high", priority_tier=9), PartitionView(name="low")),
    )
    made = plan(site, NOW, PlannerSettings(wait_bound_s=BOUND_S))
    assert [start.job_id for start in made.starts] == [3]


@pytest.mark.parametrize("holds", ["nodes", "start"])
def test_each_job_beyond_the_bound_has_a_reservation_whatever_their_number(holds: str) -> None:
    jobs = [waiting(number, waited_s=6000 - number) for number in (2, 3, 4)]
    made = planned(jobs, reservations=1, reservation_holds=holds)
    assert [(each.job_id, each.at_unix - NOW) for each in made.reserves] == [(2, 100), (3, 700), (4, 1300)]


def test_nothing_that_would_delay_a_wide_job_beyond_the_bound_is_started() -> None:
    wide = waiting(2, waited_s=6000)
    assert not planned([wide, waiting(3, waited_s=10, gpus=1, limit_s=200)], busy=4).starts
    short = planned([wide, waiting(3, waited_s=10, gpus=1, limit_s=90)], busy=4)
    assert [start.job_id for start in short.starts] == [3]


def test_conservative_backfill_keeps_its_reserved_order() -> None:
    jobs = [
        waiting(2, waited_s=4000, reserved_start_unix=NOW + 100),
        waiting(3, waited_s=6000, reserved_start_unix=NOW + 700),
    ]
    assert [each.job_id for each in planned(jobs, backfill="conservative").reserves] == [2, 3]
