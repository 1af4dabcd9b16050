"""Parts of GPUs: preemption for them and of them, the accounting of shared GPUs, and the resumption of
suspended parts.
"""

from __future__ import annotations

from typing import Any

import msgspec
from tests.support.builders import node, pending, running, view

from warpdeck.model import Allocation, GpuRequest, JobId, Resources
from warpdeck.policy import PendingJob, Plan, PlannerSettings, PlannerView, QosView, RunningJob, plan

NOW = 10_000.0
QOS = (QosView(name="high", priority=10, preempts=frozenset({"low"})), QosView(name="low", grace_s=60))


def sharer(number: int, gpu: int, pct: int, *, ends: float = 86_400.0, **fields: Any) -> RunningJob:
    """A running job on a part of a GPU of node a."""
    job = running(number, "a", (gpu,), ends=NOW + ends)
    share = msgspec.structs.replace(job.allocation.shares[0], gpu_share_pct=pct)
    base: dict[str, Any] = {"qos": "low", "start_at_unix": NOW - 100, **fields}
    return msgspec.structs.replace(job, allocation=Allocation(shares=(share,)), **base)


def part(number: int, pct: int, **fields: Any) -> PendingJob:
    """A waiting job that requests a part of a GPU."""
    return pending(number, resources=Resources(gpus=GpuRequest(share_pct=pct)), **fields)


def planned(
    gpus: int,
    jobs: list[PendingJob],
    held: list[RunningJob],
    *,
    qos: tuple[QosView, ...] = QOS,
    **settings: Any,
) -> Plan:
    picture: PlannerView = view([node("a", gpus=gpus)], jobs, held)
    return plan(msgspec.structs.replace(picture, qos=qos), NOW, PlannerSettings(**settings))


def told(made: Plan) -> list[JobId]:
    return [each.job_id for each in made.preempts]


def test_for_a_part_no_more_sharers_leave_than_must() -> None:
    held = [sharer(1, 0, 50, start_at_unix=NOW - 500), sharer(2, 0, 50, start_at_unix=NOW - 100)]
    made = planned(1, [part(5, 40, qos="high")], held)
    assert told(made) == [2]
    assert made.pending_reasons[JobId(5)].expected_start_unix == NOW + 60


def test_for_a_whole_gpu_all_sharers_of_one_leave_and_those_of_others_stay() -> None:
    held = [
        sharer(1, 0, 30, start_at_unix=NOW - 900),
        sharer(2, 0, 30, start_at_unix=NOW - 100),
        sharer(3, 1, 30, start_at_unix=NOW - 300),
        sharer(4, 1, 30, start_at_unix=NOW - 200),
    ]
    made = planned(2, [pending(5, gpus=1, qos="high")], held)
    assert sorted(told(made)) == [3, 4]


def test_a_sharer_who_may_not_be_pushed_keeps_the_gpu_from_being_whole() -> None:
    held = [sharer(1, 0, 30), sharer(2, 0, 30, qos="normal")]
    assert told(planned(1, [pending(5, gpus=1, qos="high")], held)) == []
    assert told(planned(1, [part(5, 70, qos="high")], held)) == [1]


def test_for_a_part_a_job_on_whole_gpus_leaves_where_nothing_smaller_would_do() -> None:
    whole = msgspec.structs.replace(running(1, "a", (0,), ends=NOW + 1000), qos="low", start_at_unix=0.0)
    assert told(planned(1, [part(5, 40, qos="high")], [whole])) == [1]


def test_nobody_else_is_given_the_room_that_is_being_made() -> None:
    held = [sharer(1, 0, 60)]
    jobs = [part(5, 70, qos="high"), part(6, 40, qos="normal", limit_s=90_000), part(7, 30, limit_s=90_000)]
    made = planned(1, jobs, held)
    assert told(made) == [1]
    assert [start.job_id for start in made.starts] == [7]


def test_a_shared_gpu_is_made_whole_for_one_and_given_to_no_other_meanwhile() -> None:
    made = planned(1, [pending(5, gpus=1, qos="high"), part(6, 30, qos="normal")], [sharer(1, 0, 60)])
    assert told(made) == [1] and not made.starts


def test_a_suspended_sharer_gives_its_part_away_where_the_site_says_so() -> None:
    qos = (QOS[0], QosView(name="low", preempt_mode="suspend"))
    jobs = [part(5, 50, qos="high")]
    assert told(planned(1, jobs, [sharer(1, 0, 60)], qos=qos)) == []
    assert told(planned(1, jobs, [sharer(1, 0, 60)], qos=qos, suspend_keeps_gpus=False)) == [1]


def test_a_suspended_sharer_goes_on_beside_others_once_its_part_is_free() -> None:
    job = sharer(1, 0, 60)
    share = job.allocation.shares[0]
    stopped = msgspec.structs.replace(share, cpus=0, gpus=(), gpu_uuids=())
    waits = msgspec.structs.replace(
        job, suspended=True, resumes_to=job.allocation, allocation=Allocation(shares=(stopped,))
    )
    assert not planned(1, [], [waits, sharer(2, 0, 50, qos="high")]).resumes
    held, jobs = [waits, sharer(2, 0, 40, qos="high")], [pending(5, gpus=1), part(6, 40)]
    made = planned(1, jobs, held, queue_order="submission")
    assert [each.job_id for each in made.resumes] == [1]
    assert not made.starts, "what the resumed job holds again is not free"


def test_a_part_that_is_reserved_is_not_given_away_by_backfill() -> None:
    held = [sharer(1, 0, 30, ends=100.0), sharer(2, 0, 20)]
    jobs = [part(5, 70), part(6, 20, limit_s=7200), part(7, 50, limit_s=60)]
    made = planned(1, jobs, held, backfill_order="priority", queue_order="submission")
    assert [(each.job_id, each.at_unix) for each in made.reserves] == [(5, NOW + 100)]
    assert [start.job_id for start in made.starts] == [7], "6 would be in the way of 5, 7 is gone in time"
