"""Limits of partitions, QoS and accounts: the jobs that they block, and their pending reasons."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.builders import node, pending, running, view

from warpdeck.model import GpuRequest, JobId, NodeName, Resources
from warpdeck.policy import (
    AccountView,
    Limits,
    PartitionView,
    PendingJob,
    Plan,
    PlannerSettings,
    PlannerView,
    QosView,
    UserView,
    admit,
    plan,
)

NOW = 1000.0


def planned(cluster: PlannerView, **settings: object) -> Plan:
    return plan(cluster, NOW, PlannerSettings(**settings))  # type: ignore[arg-type]


def with_tables(cluster: PlannerView, **tables: object) -> PlannerView:
    return msgspec.structs.replace(cluster, **tables)


def code(made: Plan, number: int) -> str:
    return made.pending_reasons[JobId(number)].code


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(max_tres_per_user={"gres/gpu": 2}), "QOSMaxGRESPerUser"),
        (Limits(max_tres_per_user={"cpu": 2}), "QOSMaxCpuPerUserLimit"),
        (Limits(max_tres_per_account={"gres/gpu": 2}), "MaxGRESPerAccount"),
        (Limits(grp_tres={"gres/gpu": 2}), "QOSGrpGRES"),
        (Limits(grp_tres={"cpu": 2}), "QOSGrpCpuLimit"),
        (Limits(grp_tres={"node": 2}), "QOSGrpNodeLimit"),
        (Limits(grp_jobs=2), "QOSGrpJobsLimit"),
        (Limits(max_jobs_per_user=2), "QOSMaxJobsPerUserLimit"),
        (Limits(grp_tres_mins={"gres/gpu": 130}), "QOSGrpGRESMinutes"),
        (Limits(grp_tres_run_mins={"cpu": 130}), "QOSGrpCPURunMinutesLimit"),
        (Limits(grp_wall_s=130 * 60), "QOSGrpWallLimit"),
    ],
)
def test_a_qos_limit_blocks_the_third_of_three_equal_jobs(limits: Limits, reason: str) -> None:
    jobs = [pending(number, gpus=1, qos="normal", account="lab") for number in (1, 2, 3)]
    made = planned(with_tables(view([node("a")], jobs), qos=(QosView(name="normal", limits=limits),)))
    assert [start.job_id for start in made.starts] == [1, 2]
    assert code(made, 3) == reason
    assert "normal" in made.pending_reasons[JobId(3)].sentence


def test_a_job_blocked_by_a_limit_does_not_block_jobs_behind_it() -> None:
    jobs = [
        pending(1, gpus=8, qos="small"),
        pending(2, gpus=8, qos="large"),
    ]
    tables = (QosView(name="large"), QosView(name="small", limits=Limits(max_tres_per_user={"gres/gpu": 4})))
    made = planned(with_tables(view([node("a")], jobs), qos=tables))
    assert [start.job_id for start in made.starts] == [2]


def test_limits_of_an_account_cover_its_subaccounts() -> None:
    accounts = (
        AccountView(name="lab", limits=Limits(grp_tres={"gres/gpu": 3})),
        AccountView(name="vision", parent="lab"),
        AccountView(name="speech", parent="lab"),
    )
    jobs = [
        pending(1, gpus=2, account="vision"),
        pending(2, gpus=2, account="speech"),
        pending(3, gpus=1, account="speech"),
    ]
    made = planned(with_tables(view([node("a")], jobs), accounts=accounts))
    assert [start.job_id for start in made.starts] == [1, 3]
    assert code(made, 2) == "AssocGrpGRES"
    assert "account lab" in made.pending_reasons[JobId(2)].sentence


def test_running_jobs_count_against_limits() -> None:
    held = msgspec.structs.replace(
        running(9, "a", (0, 1), ends=NOW + 60), user="ann", account="lab", qos="normal"
    )
    users = (UserView(user="ann", account="lab", limits=Limits(max_jobs_per_user=1)),)
    cluster = with_tables(
        view([node("a")], [pending(1, gpus=1, account="lab")], [held]),
        accounts=(AccountView(name="lab"),),
        users=users,
    )
    assert code(planned(cluster), 1) == "AssocMaxJobsLimit"


LAB = (
    AccountView(name="lab", limits=Limits(max_jobs_per_user=1, max_tres_per_job={"gres/gpu": 2, "cpu": 8})),
    AccountView(name="vision", parent="lab", limits=Limits(max_tres_per_user={"gres/gpu": 3})),
)
"""Limits per user and per job belong to the accounts."""
CPUS = Resources(nodes_min=1, cpus_per_task=9)


@pytest.mark.parametrize(
    ("own", "job", "reason"),
    [
        (None, {"user": "bob"}, ""),
        (None, {}, "AssocMaxJobsLimit: limit of account lab for user ann: 1 running jobs"),
        (Limits(max_jobs_per_user=2), {}, ""),
        (None, {"user": "bob", "gpus": 3}, "AssocMaxGRESPerJob: limit of account lab: 2 GPUs per job"),
        (
            Limits(max_jobs_per_user=2, max_tres_per_job={"gres/gpu": 3}),
            {"gpus": 3},
            "AssocGrpGRES: limit of account vision",
        ),
        (
            Limits(max_jobs_per_user=2, max_tres_per_job={"gres/gpu": 3}),
            {"resources": CPUS},
            "AssocMaxCpuPerJobLimit",
        ),
        (Limits(max_jobs_per_user=2, max_tres_per_user={"gres/gpu": 4}), {"gpus": 2}, ""),
        (
            Limits(max_jobs_per_user=2),
            {"gpus": 2, "user": "ann"},
            "AssocGrpGRES: limit of account vision for user ann: 3 GPUs",
        ),
    ],
)
def test_a_user_without_limits_gets_those_of_the_nearest_account(
    own: Limits | None, job: dict[str, Any], reason: str
) -> None:
    held = msgspec.structs.replace(running(9, "a", (0, 1), ends=NOW + 60), user="ann", account="vision")
    users = () if own is None else (UserView(user="ann", account="vision", limits=own),)
    wanted = pending(1, **{"gpus": 1, "account": "vision", **job})
    made = planned(with_tables(view([node("a")], [wanted], [held]), accounts=LAB, users=users))
    why = made.pending_reasons.get(JobId(1))
    found = "" if why is None else f"{why.code}: {why.sentence}"
    assert found.startswith(reason) and bool(found) == bool(reason)


def test_a_job_waits_for_licenses() -> None:
    jobs = [pending(1, licenses=(("matlab", 2),)), pending(2, licenses=(("matlab", 2),))]
    made = planned(with_tables(view([node("a")], jobs), licenses=(("matlab", 3),)))
    assert [start.job_id for start in made.starts] == [1]
    assert code(made, 2) == "Licenses"
    assert "1 are free" in made.pending_reasons[JobId(2)].sentence


def refused(job: PendingJob, **tables: object) -> str:
    refusal = admit(job, with_tables(view([node("a"), node("b", gpus=0)], []), **tables), PlannerSettings())
    return "" if refusal is None else f"{refusal.code}: {refusal.sentence}"


def test_a_job_that_can_never_start_is_refused_at_submission() -> None:
    part = PartitionView(name="gpu", nodes=frozenset({NodeName("a")}), max_time_s=3600, max_nodes=1)
    gpu = {"partitions": (part,)}
    assert refused(pending(1, partition="gpu", gpus=1), **gpu) == ""
    assert "PartitionTimeLimit" in refused(pending(1, partition="gpu", limit_s=3601), **gpu)
    assert "PartitionNodeLimit" in refused(pending(1, partition="gpu", nodes=2), **gpu)
    assert "no partition cpu" in refused(pending(1, partition="cpu"), **gpu)
    assert "no default" in refused(pending(1), **gpu)
    closed = {"partitions": (PartitionView(name="gpu", state="DRAIN"),)}
    assert "accepts no jobs" in refused(pending(1, partition="gpu"), **closed)
    ours = {"partitions": (PartitionView(name="gpu", allow_accounts=frozenset({"lab"})),)}
    assert "does not admit account" in refused(pending(1, partition="gpu", account="guests"), **ours)
    assert "no QoS high" in refused(pending(1, qos="high"), qos=(QosView(name="normal"),))
    assert "no account x" in refused(pending(1, account="x"), accounts=(AccountView(name="lab"),))
    short = {"qos": (QosView(name="short", limits=Limits(max_wall_s=60)),)}
    assert "QOSMaxWallDurationPerJobLimit" in refused(pending(1, qos="short"), **short)
    assert "3 licenses" in refused(pending(1, licenses=(("matlab", 3),)), licenses=(("matlab", 2),))
    assert "largest node" in refused(pending(1, gpus=9))
    assert "no node has ib" in refused(pending(1, resources=Resources(constraint="ib", nodes_min=1)))


def test_a_job_above_the_submit_limit_is_refused() -> None:
    few = (QosView(name="normal", limits=Limits(max_submit_per_user=3)),)
    cluster = with_tables(view([node("a")], []), qos=few, submitted={("", "ann", "normal"): 2})
    assert admit(pending(2, qos="normal"), cluster, PlannerSettings()) is None
    over = admit(pending(2, qos="normal", tasks=((0, 1, 1),)), cluster, PlannerSettings())
    assert over is not None and "QOSMaxSubmitJobPerUserLimit" in over.code


def test_jobs_of_a_down_partition_wait() -> None:
    parts = (PartitionView(name="gpu", state="DOWN"),)
    made = planned(with_tables(view([node("a")], [pending(1, partition="gpu")]), partitions=parts))
    assert code(made, 1) == "PartitionDown"


def test_a_job_for_several_partitions_starts_in_one_with_free_nodes() -> None:
    parts = (
        PartitionView(name="big", nodes=frozenset({NodeName("a")})),
        PartitionView(name="small", nodes=frozenset({NodeName("b")})),
    )
    held = [running(9, "a", tuple(range(8)), ends=NOW + 60)]
    made = planned(
        with_tables(
            view([node("a"), node("b")], [pending(1, gpus=8, partition="big,small")], held), partitions=parts
        )
    )
    assert made.starts[0].allocation.node_names() == ("b",)
    assert made.starts[0].partition == "small"


def test_a_higher_partition_tier_starts_first() -> None:
    parts = (PartitionView(name="high", priority_tier=2), PartitionView(name="low"))
    jobs = [pending(1, gpus=8, partition="low"), pending(2, gpus=8, partition="high")]
    made = planned(with_tables(view([node("a")], jobs), partitions=parts))
    assert [start.job_id for start in made.starts] == [2]


def test_used_wall_time_and_that_reserved_for_running_jobs_count() -> None:
    accounts = (AccountView(name="lab", limits=Limits(grp_wall_s=4 * 3600), tres_usage={"wall": 3600.0}),)
    runs = msgspec.structs.replace(running(9, "a", (0,), ends=NOW + 3600), account="lab", start_at_unix=NOW)
    two_hours = pending(1, account="lab", limit_s=7200)
    assert planned(with_tables(view([node("a")], [two_hours], [runs]), accounts=accounts)).starts
    longer = pending(1, account="lab", limit_s=7260)
    made = planned(with_tables(view([node("a")], [longer], [runs]), accounts=accounts))
    assert code(made, 1) == "AssocGrpWallLimit"
    assert "240 minutes of running jobs; 120 are used or reserved" in made.pending_reasons[JobId(1)].sentence


def test_run_time_since_the_last_usage_count_is_included() -> None:
    accounts = (AccountView(name="lab", limits=Limits(grp_tres_mins={"gres/gpu": 120})),)
    runs = msgspec.structs.replace(
        running(9, "a", (0,), ends=NOW + 3000), account="lab", start_at_unix=NOW - 600
    )
    cluster = with_tables(view([node("a")], [pending(1, gpus=1, account="lab")], [runs]), accounts=accounts)
    assert planned(cluster).starts
    late = with_tables(cluster, counted_unix=NOW - 600)
    assert planned(late).starts, "50 minutes, 10 since the count, and an hour are two hours"
    more = with_tables(late, pending=(pending(1, gpus=1, account="lab", limit_s=3660),))
    assert code(planned(more), 1) == "AssocGrpGRESMinutes"


def test_the_usage_factor_of_a_qos_multiplies_minutes() -> None:
    qos = (QosView(name="dear", usage_factor=2.0, limits=Limits(grp_tres_mins={"gres/gpu": 100})),)
    made = planned(with_tables(view([node("a")], [pending(1, gpus=1, qos="dear")]), qos=qos))
    assert code(made, 1) == "QOSGrpGRESMinutes"
    free = (msgspec.structs.replace(qos[0], usage_factor=0.0),)
    job = pending(1, gpus=1, qos="dear", limit_s=None)
    assert planned(with_tables(view([node("a")], [job]), qos=free)).starts


@pytest.mark.parametrize(("nodes", "starts"), [(2, True), (1, False)])
def test_a_limit_per_node_applies_to_the_largest_share(nodes: int, starts: bool) -> None:
    qos = (QosView(name="flat", limits=Limits(max_tres_per_node={"gres/gpu": 2})),)
    three = Resources(nodes_min=nodes, nodes_max=nodes, gpus=GpuRequest(total=3))
    job = pending(1, resources=three, qos="flat")
    made = planned(with_tables(view([node("a"), node("b")], [job]), qos=qos))
    assert bool(made.starts) == starts
    if not starts:
        assert code(made, 1) == "QOSMaxGRESPerNode"
    uneven = pending(1, qos="flat", resources=Resources(nodes_min=2, nodes_max=2, gpus=GpuRequest(total=5)))
    assert not planned(with_tables(view([node("a"), node("b")], [uneven]), qos=qos)).starts


def test_a_range_of_nodes_spreads_to_satisfy_a_limit_per_node() -> None:
    qos = (
        QosView(name="flat", limits=Limits(max_tres_per_node={"gres/gpu": 2, "cpu": 8})),
        QosView(name="free"),
    )
    nodes = [node(name) for name in "abcd"]
    ranged = Resources(nodes_min=1, nodes_max=4, nodes_open=True, gpus=GpuRequest(total=6))
    jobs = [pending(1, resources=ranged, qos="flat"), pending(2, resources=ranged, qos="free")]
    cluster = with_tables(view(nodes, jobs), qos=qos)
    held = {start.job_id: start.allocation for start in planned(cluster).starts}
    assert [len(share.gpus) for share in held[JobId(1)].shares] == [2, 2, 2]
    assert len(held[JobId(2)].shares) == 1, "nothing makes the other spread"
    assert admit(jobs[0], with_tables(view(nodes, []), qos=qos), PlannerSettings()) is None
    wide = msgspec.structs.replace(jobs[0], resources=msgspec.structs.replace(ranged, nodes_max=2))
    refused = admit(wide, with_tables(view(nodes, []), qos=qos), PlannerSettings())
    assert refused is not None and refused.code == "QOSMaxGRESPerNode"


def test_a_job_that_must_spread_does_not_block_equal_jobs_without_the_limit() -> None:
    qos = (QosView(name="flat", limits=Limits(max_tres_per_node={"gres/gpu": 2})), QosView(name="free"))
    ranged = Resources(nodes_min=1, nodes_max=4, nodes_open=True, gpus=GpuRequest(total=4))
    jobs = [pending(1, resources=ranged, qos="flat"), pending(2, resources=ranged, qos="free", limit_s=100)]
    busy = [running(9, "b", tuple(range(8)), ends=NOW + 90_000)]
    for reservations in (0, 1):
        chosen = PlannerSettings(reservations=reservations, backfill_order="priority")
        made = plan(with_tables(view([node("a"), node("b")], jobs, busy), qos=qos), NOW, chosen)
        assert [start.job_id for start in made.starts] == [2]
