"""Who is next among jobs of equal priority, and who may not be passed any more."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.builders import node, pending, running, view

from warpdeck.model import JobId
from warpdeck.policy import PendingJob, Plan, RunningJob, Settings, plan

NOW = 100_000.0


def waiting(number: int, *, waited_s: float, limit_s: int, gpus: int = 8, **fields: Any) -> PendingJob:
    return pending(number, gpus=gpus, limit_s=limit_s, eligible_at_unix=NOW - waited_s, **fields)


def full(ends: float = NOW + 100) -> list[RunningJob]:
    return [running(1, "a", tuple(range(8)), ends=ends)]


def planned(
    jobs: list[PendingJob], *, longest_wait_s: float, held: list[RunningJob] | None = None, **how: Any
) -> Plan:
    picture = view([node("a")], jobs, full() if held is None else held)
    return plan(msgspec.structs.replace(picture, longest_wait_s=longest_wait_s), NOW, Settings(**how))


def first_reserved(made: Plan) -> JobId:
    return made.reserves[0].job_id


def test_who_waited_longest_for_what_the_job_is_worth_is_next() -> None:
    jobs = [waiting(2, waited_s=3600, limit_s=36_000), waiting(3, waited_s=600, limit_s=60)]
    assert first_reserved(planned(jobs, longest_wait_s=1e9)) == 3
    assert first_reserved(planned(jobs, longest_wait_s=1e9, queue_order="submission")) == 2


def test_a_prediction_counts_for_more_than_the_limit() -> None:
    jobs = [
        waiting(2, waited_s=600, limit_s=36_000, predicted_s=30.0),
        waiting(3, waited_s=600, limit_s=3600),
    ]
    assert first_reserved(planned(jobs, longest_wait_s=1e9)) == 2


def test_a_job_is_passed_no_more_when_its_wait_nears_the_longest() -> None:
    jobs = [waiting(2, waited_s=3600, limit_s=36_000), waiting(3, waited_s=600, limit_s=60)]
    assert first_reserved(planned(jobs, longest_wait_s=4000)) == 2


def test_the_work_that_stands_before_a_job_counts_as_its_wait() -> None:
    """Job 2 has hardly waited, but what runs will keep it for an hour, and nobody has lately waited longer than that."""
    jobs = [waiting(2, waited_s=10, limit_s=36_000), waiting(3, waited_s=5, limit_s=60)]
    assert first_reserved(planned(jobs, longest_wait_s=4000, held=full(NOW + 3600))) == 2
    assert first_reserved(planned(jobs, longest_wait_s=40_000, held=full(NOW + 3600))) == 3


def test_several_overdue_jobs_have_reservations_but_none_where_the_site_wants_none() -> None:
    jobs = [waiting(number, waited_s=4000 - number, limit_s=600) for number in (2, 3, 4)]
    assert [each.job_id for each in planned(jobs, longest_wait_s=4000).reserves] == [2, 3]
    assert not planned(jobs, longest_wait_s=4000, reservations=0).reserves


def test_conservative_backfill_keeps_promises_in_their_order() -> None:
    jobs = [
        waiting(2, waited_s=50, limit_s=600, promised_at_unix=NOW + 700),
        waiting(3, waited_s=40, limit_s=600, promised_at_unix=NOW + 100),
        waiting(4, waited_s=30, limit_s=600),
    ]
    made = planned(jobs, longest_wait_s=0.0, backfill="conservative")
    assert [(each.job_id, each.at_unix) for each in made.reserves] == [
        (3, NOW + 100),
        (2, NOW + 700),
        (4, NOW + 1300),
    ]


def test_a_reservation_may_hold_a_start_only_and_not_its_nodes() -> None:
    """The head can have all of b in 50 s: a small job may take half of it if it leaves by then, or if there is room elsewhere."""
    held = [running(1, "a", tuple(range(8)), ends=NOW + 100), running(5, "b", (0, 1, 2, 3), ends=NOW + 50)]
    head = waiting(2, waited_s=50, limit_s=600)
    small = waiting(3, waited_s=40, limit_s=6000, gpus=4)
    picture = view([node("a"), node("b")], [head, small], held)
    textbook = Settings(queue_order="submission", reservation_holds="start")
    assert not plan(picture, NOW, textbook).starts
    more = msgspec.structs.replace(picture, nodes=(*picture.nodes, node("c", gpus=4, cpus=8)))
    assert [each.job_id for each in plan(more, NOW, textbook).starts] == [3]
    wide = waiting(3, waited_s=40, limit_s=40, gpus=4)
    assert [
        each.job_id
        for each in plan(msgspec.structs.replace(picture, pending=(head, wide)), NOW, textbook).starts
    ] == [3]
