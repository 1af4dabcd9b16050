"""Parts of GPUs: preemption, accounting of shared GPUs, and resumption of suspended parts."""

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
    cluster: PlannerView = view([node("a", gpus=gpus)], jobs, held)
    return plan(msgspec.structs.replace(cluster, qos=qos), NOW, PlannerSettings(**settings))


def preempted(made: Plan) -> list[JobId]:
    return [each.job_id for each in made.preempts]


def test_a_gpu_share_preempts_as_few_sharers_as_possible() -> None:
    held = [sharer(1, 0, 50, start_at_unix=NOW - 500), sharer(2, 0, 50, start_at_unix=NOW - 100)]
    made = planned(1, [part(5, 40, qos="high")], held)
    assert preempted(made) == [2]
    assert made.pending_reasons[JobId(5)].expected_start_unix == NOW + 60


def test_a_whole_gpu_preempts_all_sharers_of_one_gpu() -> None:
    held = [
        sharer(1, 0, 30, start_at_unix=NOW - 900),
        sharer(2, 0, 30, start_at_unix=NOW - 100),
        sharer(3, 1, 30, start_at_unix=NOW - 300),
        sharer(4, 1, 30, start_at_unix=NOW - 200),
    ]
    made = planned(2, [pending(5, gpus=1, qos="high")], held)
    assert sorted(preempted(made)) == [3, 4]


def test_a_gpu_with_a_protected_sharer_is_not_freed_completely() -> None:
    held = [sharer(1, 0, 30), sharer(2, 0, 30, qos="normal")]
    assert preempted(planned(1, [pending(5, gpus=1, qos="high")], held)) == []
    assert preempted(planned(1, [part(5, 70, qos="high")], held)) == [1]


def test_a_gpu_share_preempts_a_whole_gpu_job_if_necessary() -> None:
    whole = msgspec.structs.replace(running(1, "a", (0,), ends=NOW + 1000), qos="low", start_at_unix=0.0)
    assert preempted(planned(1, [part(5, 40, qos="high")], [whole])) == [1]


def test_a_share_freed_by_preemption_is_not_given_to_another_job() -> None:
    held = [sharer(1, 0, 60)]
    jobs = [part(5, 70, qos="high"), part(6, 40, qos="normal", limit_s=90_000), part(7, 30, limit_s=90_000)]
    made = planned(1, jobs, held)
    assert preempted(made) == [1]
    assert [start.job_id for start in made.starts] == [7]


def test_a_gpu_freed_for_one_job_is_not_shared_meanwhile() -> None:
    made = planned(1, [pending(5, gpus=1, qos="high"), part(6, 30, qos="normal")], [sharer(1, 0, 60)])
    assert preempted(made) == [1] and not made.starts


def test_a_suspended_sharer_releases_its_share_only_if_configured() -> None:
    qos = (QOS[0], QosView(name="low", preempt_mode="suspend"))
    jobs = [part(5, 50, qos="high")]
    assert preempted(planned(1, jobs, [sharer(1, 0, 60)], qos=qos)) == []
    assert preempted(planned(1, jobs, [sharer(1, 0, 60)], qos=qos, suspend_keeps_gpus=False)) == [1]


def test_a_suspended_sharer_resumes_when_its_share_is_free() -> None:
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
    assert not made.starts, "the resources of the resumed job are not free"


def test_backfill_does_not_use_a_reserved_gpu_share() -> None:
    held = [sharer(1, 0, 30, ends=100.0), sharer(2, 0, 20)]
    jobs = [part(5, 70), part(6, 20, limit_s=7200), part(7, 50, limit_s=60)]
    made = planned(1, jobs, held, backfill_order="priority", queue_order="submission")
    assert [(each.job_id, each.at_unix) for each in made.reserves] == [(5, NOW + 100)]
    assert [start.job_id for start in made.starts] == [7], "6 would be in the way of 5, 7 is gone in time"
