"""On whole nodes the planner starts the same jobs as a simple reference planner."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.builders import node, pending, running, view
from tests.support.reference_plan import Waiting, easy, strict

from warpdeck.policy import PlannerSettings, plan

NOW = 1000.0
EXAMPLES = 200
GPUS = 2


def reference_site(rng: Random) -> tuple[int, list[tuple[float, int]], list[Waiting]]:
    """Return the number of free nodes, the running jobs and the queue.

    End times are so far apart that rounding does not matter.
    """
    free = rng.randint(0, 5)
    ends = [(NOW + 100.0 * rng.randint(1, 9), 1) for _ in range(rng.randint(0, 6))]
    most = max(1, free + len(ends))
    queue = [
        Waiting(number=100 + number, nodes=rng.randint(1, most), limit_s=rng.choice([50, 150, 450, 2000]))
        for number in range(rng.randint(1, 8))
    ]
    return free, ends, queue


@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 2**32))
@pytest.mark.parametrize(("backfill", "holds"), [("none", "nodes"), ("easy", "nodes"), ("easy", "start")])
def test_the_planner_starts_the_same_jobs_as_the_reference(backfill: str, holds: str, seed: int) -> None:
    free, ends, queue = reference_site(Random(seed))
    nodes = [node(f"n{number:02}", gpus=GPUS) for number in range(free + len(ends))]
    if not nodes:
        return
    held = [
        running(number, f"n{number:02}", tuple(range(GPUS)), ends=end)
        for number, (end, _) in enumerate(ends, start=free)
    ]
    jobs = [pending(job.number, gpus=GPUS, nodes=job.nodes, limit_s=job.limit_s) for job in queue]
    chosen = PlannerSettings(
        backfill=backfill,
        queue_order="submission",
        backfill_order="priority",
        reservation_holds=holds,
        reservations=1,
    )
    made = plan(view(nodes, jobs, held), NOW, chosen)
    expected = strict(free, queue) if backfill == "none" else easy(free, ends, queue, NOW)
    assert sorted(start.job_id for start in made.starts) == sorted(expected)
