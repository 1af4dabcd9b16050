"""The pass cache: entries are compared by identity, removed when they become invalid, and bounded."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest
from tests.support.builders import node, pending, running, view

from warpdeck.policy import (
    Limits,
    PartitionView,
    PassCache,
    PendingJob,
    PlannerSettings,
    PlannerView,
    QosView,
    RunningJob,
    plan,
)
from warpdeck.policy.cache.waiting_queue import SPARE_CLASSES
from warpdeck.policy.resources.row_diff import NEW, old_positions

NOW = 1000.0
SETTINGS = PlannerSettings()


@dataclass(frozen=True)
class Thing:
    number: int


THINGS = [Thing(number) for number in range(1000)]


@pytest.mark.parametrize(
    ("now", "new"),
    [
        (THINGS, []),
        (THINGS[:500] + THINGS[501:], []),
        ([Thing(-1), *THINGS[1:], Thing(1000)], [0, 1000]),
        ([*THINGS[:700], Thing(700), *THINGS[701:]], [700]),
        (THINGS[3:], []),
        ([], []),
    ],
    ids=["nothing", "one gone", "first replaced and one more", "one replaced", "the first gone", "all gone"],
)
def test_rows_of_replaced_objects_are_new(now: list[Thing], new: list[int]) -> None:
    found = old_positions(THINGS, now, lambda thing: thing.number).tolist()
    assert [at for at, before in enumerate(found) if before == NEW] == new
    assert all(THINGS[before] is now[at] for at, before in enumerate(found) if before != NEW)


def full_site(limit: int) -> PlannerView:
    """Return a site with a node half used by jobs without a QoS, and a partition with a QoS that limits GPUs."""
    held = msgspec.structs.replace(running(1, "a", (0, 1, 2, 3), ends=NOW + 9000), partition="p")
    waiting = pending(2, gpus=1, partition="p")
    return msgspec.structs.replace(
        view([node("a")], [waiting], [held]),
        partitions=(PartitionView(name="p"),),
        qos=(QosView(name="few", limits=Limits(grp_tres={"gres/gpu": limit})),),
    )


def test_running_jobs_count_under_their_partitions_qos() -> None:
    cache, site = PassCache(), full_site(4)
    assert [start.job_id for start in plan(site, NOW, SETTINGS, cache=cache).starts] == [2]
    strict = msgspec.structs.replace(site, partitions=(PartitionView(name="p", qos="few"),))
    made = plan(strict, NOW, SETTINGS, cache=cache)
    assert not made.starts and made.pending_reasons[strict.pending[0].id].code == "QOSGrpGRES"


def test_an_overdue_job_is_expected_to_end_in_a_second() -> None:
    cache = PassCache()
    site = view([node("a")], [pending(2, gpus=8)], [running(1, "a", tuple(range(8)), ends=NOW + 10)])
    assert plan(site, NOW, SETTINGS, cache=cache).reserves[0].at_unix == NOW + 10
    assert plan(site, NOW + 500, SETTINGS, cache=cache).reserves[0].at_unix == NOW + 501


def test_jobs_without_a_limit_never_get_an_expected_end() -> None:
    cache = PassCache()
    site = view([node("a")], [pending(2, gpus=8)], [running(1, "a", tuple(range(8)), ends=None)])
    for later in (0.0, 500.0, 1e6):
        made = plan(site, NOW + later, SETTINGS, cache=cache)
        assert not made.reserves and made.pending_reasons[site.pending[0].id].expected_start_unix is None


def test_unused_equivalence_classes_are_removed() -> None:
    cache = PassCache()
    blocker: RunningJob = running(1, "a", tuple(range(8)), ends=NOW + 10)
    for round_ in range(2, 12):
        jobs: list[PendingJob] = [
            pending(round_ * 100 + number, gpus=1, limit_s=round_ * 1000 + number) for number in range(100)
        ]
        made = plan(view([node("a")], jobs, [blocker]), NOW, SETTINGS, cache=cache)
        assert len(made.pending_reasons) == 100
        assert len(cache.queue.representatives) <= 2 * 100 + SPARE_CLASSES + 100
