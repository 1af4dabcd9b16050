"""The default policy compared with plain EASY, on kinds of workloads that were not used to choose it.

The longest wait of a single workload is random, so the workloads are judged together.
"""

from __future__ import annotations

import pytest
from tests.bench.quality import compare, together
from tests.bench.workloads import HELD_OUT

from warpdeck.policy import PlannerSettings

JOBS, LOAD, LIMITS = 700, 0.75, "menu"
SEEDS = {"flat": 4, "helios": 1}
"""Number of workloads of each kind. Most have jobs that take the whole machine, where a longest wait grows easily."""
LONGEST_IN_ONE = 1.1
"""Limit for a single workload. A larger ratio is not random."""


@pytest.mark.slow
def test_the_default_policy_shortens_the_longest_wait_of_easy() -> None:
    made = [
        compare(kind, limits=LIMITS, load=LOAD, seed=seed, jobs=JOBS, own=PlannerSettings())
        for kind in HELD_OUT
        for seed in range(SEEDS.get(kind.name, 0))
    ]
    found = [ratios for ratios in made if ratios is not None]
    assert len(found) == sum(SEEDS.values())
    altogether = together(found)
    assert altogether.max_wait < 1 and altogether.mean_wait < 1 and altogether.slowdown < 1
    assert max(ratios.max_wait for ratios in found) < LONGEST_IN_ONE
