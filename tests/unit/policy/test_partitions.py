"""The partitions in which a job may run."""

from __future__ import annotations

from tests.support.builders import node, pending

from warpdeck.model import JobId, NodeName
from warpdeck.policy import PartitionView, Plan, PlannerSettings, PlannerView, QosView, plan
from warpdeck.policy.input.site import Limits

GPU = PartitionView(name="gpu", nodes=frozenset({NodeName("n1")}), max_time_s=7200)


def planned(*jobs: object, settings: PlannerSettings | None = None, **site: object) -> Plan:
    whole = {"partitions": (GPU,), **site}
    view = PlannerView(nodes=(node("n1"), node("n2")), running=(), pending=jobs, **whole)  # type: ignore[arg-type]
    return plan(view, 100.0, settings or PlannerSettings())


def test_a_job_of_a_removed_partition_waits_with_a_reason() -> None:
    made = planned(pending(1, partition="old"), pending(2, partition="old,gpu"))
    assert [(start.job_id, start.partition) for start in made.starts] == [(2, "gpu")]
    assert made.pending_reasons[JobId(1)].code == "PartitionInactive"
    assert "partition old is inactive" in made.pending_reasons[JobId(1)].sentence


def test_a_job_without_a_partition_waits_if_there_is_no_default() -> None:
    made = planned(pending(1))
    assert not made.starts and made.pending_reasons[JobId(1)].code == "PartitionInactive"


def test_a_job_without_a_time_limit_gets_the_maximum_of_its_partition() -> None:
    made = planned(pending(1, partition="gpu", limit_s=None))
    assert [start.time_limit_s for start in made.starts] == [7200]
    made = planned(pending(1, partition="gpu", limit_s=None), settings=PlannerSettings(default_time_s=60))
    assert [start.time_limit_s for start in made.starts] == [60]


def test_jobs_of_equal_resources_count_their_own_licenses() -> None:
    limited = QosView(name="q", limits=Limits(grp_tres={"license/lic": 3}))
    first = pending(1, partition="gpu", qos="q", licenses=(("lic", 1),))
    second = pending(2, partition="gpu", qos="q", licenses=(("lic", 3),), resources=first.resources)
    made = planned(first, second, qos=(limited,), licenses=(("lic", 9),))
    assert [start.job_id for start in made.starts] == [1]
    assert made.pending_reasons[JobId(2)].code == "QOSGrpLicense"
