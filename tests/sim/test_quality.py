"""The default policy beside plain EASY, on kinds of workloads that it was not chosen on.

Which job waits longest is luck in any one of them, so they are judged together.
"""

from __future__ import annotations

import pytest
from tests.bench.quality import compare, together
from tests.bench.workloads import HELD_OUT

from warpdeck.policy import PlannerSettings

JOBS, LOAD, LIMITS = 700, 0.75, "menu"
SEEDS = {"flat": 4, "helios": 1}
"""How many of each kind; most of one with jobs that take the whole machine: there a longest wait grows most easily."""
LONGEST_IN_ONE = 1.1
"""Of a single workload: beyond this it is no luck."""


@pytest.mark.slow
def test_nobody_pays_for_the_default_with_a_longer_longest_wait() -> None:
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
