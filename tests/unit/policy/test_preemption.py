"""Preemption by QoS, tiers and quotas: modes, grace time, and protected jobs."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.support.builders import node, pending, running, view

from warpdeck.model import JobId, NodeName, PreemptedClaim
from warpdeck.policy import (
    AccountView,
    PartitionView,
    PendingJob,
    Plan,
    PlannerSettings,
    PlannerView,
    QosView,
    ReservationView,
    RunningJob,
    plan,
)
from warpdeck.policy.preemption.preemption import CLAIM_KEPT_S

NOW = 10_000.0
QOS = (QosView(name="high", priority=10, preempts=frozenset({"low"})), QosView(name="low", grace_s=120))


def held(number: int, name: str, gpus: tuple[int, ...], **fields: Any) -> RunningJob:
    return msgspec.structs.replace(running(number, name, gpus, ends=NOW + 86_400), **fields)


def planned(cluster: PlannerView, **settings: Any) -> Plan:
    return plan(cluster, NOW, PlannerSettings(**settings))


def site(cluster: PlannerView, **tables: Any) -> PlannerView:
    return msgspec.structs.replace(cluster, **tables)


def test_a_qos_preempts_as_few_jobs_of_the_listed_qos_as_possible() -> None:
    running_jobs = [
        held(1, "a", (0, 1, 2, 3), qos="low", start_at_unix=NOW - 500),
        held(2, "a", (4, 5), qos="low", start_at_unix=NOW - 100),
        held(3, "a", (6, 7), qos="normal", start_at_unix=NOW - 10),
    ]
    made = planned(site(view([node("a")], [pending(4, gpus=2, qos="high")], running_jobs), qos=QOS))
    assert [(each.job_id, each.for_job_id, each.mode, each.grace_s) for each in made.preempts] == [
        (2, 4, "requeue", 120)
    ]
    assert "QoS high preempts QoS low" in made.preempts[0].sentence
    assert not made.starts
    why = made.pending_reasons[JobId(4)]
    assert "preempted job 2" in why.sentence and why.expected_start_unix == NOW + 120


def test_no_further_job_is_preempted_during_the_grace_time() -> None:
    running_jobs = [
        held(1, "a", (0, 1, 2, 3), qos="low", ending=True, ends_by_unix=NOW + 100),
        held(2, "a", (4, 5, 6, 7), qos="low", start_at_unix=NOW - 100),
    ]
    made = planned(site(view([node("a")], [pending(4, gpus=4, qos="high")], running_jobs), qos=QOS))
    assert not made.preempts
    assert made.reserves[0].at_unix == NOW + 100


def test_freed_nodes_are_reserved_for_the_preempting_job() -> None:
    running_jobs = [held(1, "a", tuple(range(8)), qos="low", ending=True, ends_by_unix=NOW + 100)]
    jobs = [pending(2, gpus=8, qos="normal"), pending(4, gpus=8, qos="high")]
    made = planned(site(view([node("a")], jobs, running_jobs), qos=QOS), reservations=0)
    assert [each.job_id for each in made.reserves] == [4]


def test_jobs_are_exempt_from_preemption_for_their_first_minutes() -> None:
    qos = (QOS[0], QosView(name="low", preempt_exempt_s=600))
    running_jobs = [held(1, "a", tuple(range(8)), qos="low", start_at_unix=NOW - 599)]
    cluster = site(view([node("a")], [pending(4, gpus=8, qos="high")], running_jobs), qos=qos)
    assert not planned(cluster).preempts
    older = site(cluster, running=(msgspec.structs.replace(running_jobs[0], start_at_unix=NOW - 600),))
    assert [each.job_id for each in planned(older).preempts] == [1]


def test_a_job_that_cannot_be_requeued_is_cancelled() -> None:
    running_jobs = [held(1, "a", tuple(range(8)), qos="low", requeue=False)]
    made = planned(site(view([node("a")], [pending(4, gpus=8, qos="high")], running_jobs), qos=QOS))
    assert made.preempts[0].mode == "cancel"


def test_partition_tiers_preempt_only_if_configured() -> None:
    parts = (PartitionView(name="p1"), PartitionView(name="p9", priority_tier=9))
    running_jobs = [held(1, "a", tuple(range(8)), partition="p1")]
    cluster = site(view([node("a")], [pending(4, gpus=8, partition="p9")], running_jobs), partitions=parts)
    assert not planned(cluster).preempts
    assert [each.job_id for each in planned(cluster, preempt_by="partition").preempts] == [1]


def test_an_account_reclaims_its_quota_from_borrowing_jobs() -> None:
    accounts = (
        AccountView(name="speech", quota={"gres/gpu": 4}),
        AccountView(name="vision", quota={"gres/gpu": 4}),
    )
    running_jobs = [
        held(1, "a", (0, 1, 2, 3), account="vision", start_at_unix=NOW - 900),
        held(2, "a", (4, 5, 6, 7), account="vision", start_at_unix=NOW - 100),
    ]
    jobs = [pending(3, gpus=4, account="speech")]
    made = planned(site(view([node("a")], jobs, running_jobs), accounts=accounts))
    assert [each.job_id for each in made.preempts] == [2]
    assert "borrows beyond its quota" in made.preempts[0].sentence
    greedy = planned(
        site(view([node("a")], [pending(3, gpus=6, account="speech")], running_jobs), accounts=accounts)
    )
    assert not greedy.preempts
    off = planned(site(view([node("a")], jobs, running_jobs), accounts=accounts), reclaim=False)
    assert not off.preempts


def test_a_job_within_its_quota_is_not_preempted_for_a_borrower() -> None:
    accounts = (AccountView(name="guests"), AccountView(name="vision", quota={"gres/gpu": 8}))
    running_jobs = [held(1, "a", tuple(range(8)), account="vision", qos="low")]
    cluster = site(
        view([node("a")], [pending(2, gpus=8, account="guests", qos="high")], running_jobs), qos=QOS
    )
    assert not planned(site(cluster, accounts=accounts)).preempts, (
        "the job within its quota would reclaim its GPUs at once"
    )
    assert planned(site(cluster, accounts=accounts), reclaim=False).preempts
    borrowing = (accounts[0], msgspec.structs.replace(accounts[1], quota={"gres/gpu": 7}))
    assert planned(site(cluster, accounts=borrowing)).preempts


def test_a_quota_reclaims_only_the_resources_that_it_names() -> None:
    accounts = (AccountView(name="guests"), AccountView(name="vision", quota={"gres/gpu": 2}))
    running_jobs = [
        msgspec.structs.replace(running(1, "a", (0, 1, 2, 3), ends=NOW + 9000, cpus=4), account="guests"),
        msgspec.structs.replace(running(2, "b", (), ends=NOW + 9000, cpus=16), account="guests"),
    ]
    nodes = [node("a", gpus=4, cpus=16), node("b", gpus=0, cpus=16)]

    def victims(job: PendingJob) -> list[int]:
        made = planned(site(view(nodes, [job], running_jobs), accounts=accounts))
        return [each.job_id for each in made.preempts]

    one = pending(3, gpus=2, account="vision")
    assert victims(one) == [1]
    whole = msgspec.structs.replace(one.resources, exclusive=True)
    assert not victims(msgspec.structs.replace(one, resources=whole)), "it would get all four GPUs"
    cpus = msgspec.structs.replace(pending(3, account="vision").resources, cpus_per_task=14)
    assert not victims(msgspec.structs.replace(one, resources=cpus)), "the job requests no GPU of the quota"


def test_a_job_within_its_quota_is_protected_from_requests_without_that_resource() -> None:
    accounts = (AccountView(name="guests"), AccountView(name="vision", quota={"gres/gpu": 2}))
    cpus = msgspec.structs.replace(pending(2).resources, cpus_per_task=64)
    job = pending(2, resources=cpus, account="guests", qos="high")
    for account in ("guests", "vision"):  # guaranteed jobs of its own account are protected, too
        running_jobs = [held(1, "a", (0,), account="vision", qos="low")]
        asking = msgspec.structs.replace(job, account=account)
        assert not planned(
            site(view([node("a")], [asking], running_jobs), qos=QOS, accounts=accounts)
        ).preempts
    running_jobs = [held(1, "a", (), account="vision", qos="low")]
    assert planned(site(view([node("a")], [job], running_jobs), qos=QOS, accounts=accounts)).preempts


def test_the_latest_jobs_of_an_account_count_as_borrowing() -> None:
    accounts: tuple[AccountView, ...] = (
        AccountView(name="bio", quota={"gres/gpu": 4}),
        AccountView(name="vision", quota={"gres/gpu": 3}),
    )
    running_jobs = [
        held(1, "a", (0,), account="vision", qos="low", start_at_unix=NOW - 900),
        held(2, "b", (0, 1, 2, 3), account="vision", qos="low", start_at_unix=NOW - 500),
    ]
    nodes = [node("a", gpus=1, cpus=8), node("b", gpus=4, cpus=8)]
    reclaims = pending(3, gpus=1, account="bio")
    made = planned(site(view(nodes, [reclaims], running_jobs), accounts=accounts))
    assert [each.job_id for each in made.preempts] == [2]
    guest = pending(4, gpus=1, account="guests", qos="high")
    accounts = (*accounts, AccountView(name="guests"))
    made = planned(site(view(nodes, [guest], running_jobs), qos=QOS, accounts=accounts))
    assert [each.job_id for each in made.preempts] == [2]


def test_the_quota_of_a_subaccount_protects_its_jobs_from_sibling_accounts() -> None:
    accounts = (
        AccountView(name="lab", quota={"gres/gpu": 4}),
        AccountView(name="speech", parent="lab", quota={"gres/gpu": 2}),
        AccountView(name="vision", parent="lab"),
    )
    running_jobs = [held(1, "a", (0, 1), account="speech", qos="low")]
    job = pending(2, gpus=2, account="vision", qos="high")
    cluster = site(view([node("a", gpus=2)], [job], running_jobs), qos=QOS)
    assert not planned(site(cluster, accounts=accounts)).preempts, "speech would reclaim its GPUs"
    no_less = (accounts[0], msgspec.structs.replace(accounts[1], quota={}), accounts[2])
    assert planned(site(cluster, accounts=no_less)).preempts


def test_preempt_mode_off_protects_jobs() -> None:
    qos = (QOS[0], QosView(name="low", preempt_mode="off"))
    running_jobs = [held(1, "a", tuple(range(8)), qos="low", partition="batch")]
    cluster = view([node("a")], [pending(2, gpus=8, qos="high", partition="batch")], running_jobs)
    assert not planned(site(cluster, qos=qos)).preempts
    for mode, victims in (("off", 0), ("requeue", 1)):
        batch = (PartitionView(name="batch", preempt_mode=mode),)
        assert len(planned(site(cluster, qos=QOS, partitions=batch)).preempts) == victims


def test_a_preempting_job_starts_first_and_on_the_freed_nodes() -> None:
    room = PreemptedClaim(nodes=(NodeName("b"),), until_unix=NOW + 10)
    first = msgspec.structs.replace(pending(1, gpus=8), time_limit_s=60)
    owner = msgspec.structs.replace(pending(2, gpus=8), preempted_claim=room)
    cluster = view([node("a"), node("b")], [first, owner], [held(3, "a", (0,))])
    for settings in ({}, {"reservations": 0}):
        made = planned(cluster, **settings)
        assert [(start.job_id, start.allocation.node_names()) for start in made.starts] == [(2, ("b",))]
    late = plan(cluster, NOW + 10, PlannerSettings())
    assert [start.job_id for start in late.starts] == [1]


def test_a_preemption_order_reserves_all_nodes_of_the_preempting_job() -> None:
    running_jobs = [held(1, "a", tuple(range(8)), qos="low"), held(2, "b", (0,), qos="low")]
    job = pending(4, gpus=8, nodes=3, qos="high")
    made = planned(site(view([node("a"), node("b"), node("c")], [job], running_jobs), qos=QOS))
    assert {order.preempted_claim for order in made.preempts} == {
        PreemptedClaim(
            nodes=(NodeName("a"), NodeName("b"), NodeName("c")), until_unix=NOW + 120 + CLAIM_KEPT_S
        )
    }


def test_jobs_within_their_quota_start_before_borrowing_jobs() -> None:
    accounts = (AccountView(name="guests"), AccountView(name="vision", quota={"gres/gpu": 8}))
    jobs = [pending(1, gpus=8, account="guests"), pending(2, gpus=8, account="vision")]
    made = planned(site(view([node("a")], jobs), accounts=accounts))
    assert [start.job_id for start in made.starts] == [2]


def test_a_suspended_job_resumes_when_its_resources_are_free() -> None:
    whole = running(1, "a", tuple(range(8)), ends=NOW + 500, cpus=8)
    kept = msgspec.structs.replace(
        whole.allocation, shares=(msgspec.structs.replace(whole.allocation.shares[0], cpus=0),)
    )
    stopped = msgspec.structs.replace(
        whole, allocation=kept, suspended=True, resumes_to=whole.allocation, qos="low"
    )
    assert [each.job_id for each in planned(site(view([node("a")], [], [stopped]), qos=QOS)).resumes] == [1]
    busy = held(2, "a", (), qos="high")
    busy = msgspec.structs.replace(
        busy,
        allocation=msgspec.structs.replace(
            busy.allocation, shares=(msgspec.structs.replace(busy.allocation.shares[0], cpus=60),)
        ),
    )
    assert not planned(site(view([node("a")], [], [stopped, busy]), qos=QOS)).resumes


def test_suspension_frees_cpus_and_gpus_only_if_configured() -> None:
    qos = (QOS[0], QosView(name="low", preempt_mode="suspend"))
    running_jobs = [held(1, "a", tuple(range(8)), qos="low")]
    cluster = site(view([node("a")], [pending(4, gpus=8, qos="high")], running_jobs), qos=qos)
    assert not planned(cluster).preempts
    made = planned(cluster, suspend_keeps_gpus=False)
    assert [(each.mode, each.grace_s, each.keeps_gpus) for each in made.preempts] == [("suspend", 0, False)]


def test_a_suspended_job_resumes_in_its_reservation_only_if_it_ends_in_time() -> None:
    kept = running(1, "a", tuple(range(8)), ends=NOW + 500, cpus=8)
    share = msgspec.structs.replace(kept.allocation.shares[0], cpus=0)
    stopped = msgspec.structs.replace(
        kept,
        allocation=msgspec.structs.replace(kept.allocation, shares=(share,)),
        suspended=True,
        resumes_to=kept.allocation,
        reservation="class",
    )
    for ends, resumes in ((NOW + 600, True), (NOW + 400, False), (NOW, True)):
        mine = ReservationView(
            name="class",
            nodes=frozenset({NodeName("a")}),
            start_unix=0.0,
            end_unix=ends,
            users=frozenset({"ann"}),
        )
        made = planned(site(view([node("a")], [], [stopped]), reservations=(mine,)))
        assert bool(made.resumes) == resumes, f"the reservation ends at {ends}"
