"""An agent ends only if a person stopped its controller, and if it has no jobs."""

from __future__ import annotations

import pytest

from warpdeck_agent.daemon.idle_end import IDLE_END_S, ends_now


@pytest.mark.parametrize(
    ("stopped_for_s", "has_jobs", "stays", "ends"),
    [
        (IDLE_END_S, False, False, True),
        (IDLE_END_S - 1, False, False, False),
        (IDLE_END_S, True, False, False),
        (IDLE_END_S, False, True, False),
        (float("-inf"), False, False, False),  # No controller has said that it stops.
    ],
)
def test_an_agent_ends_after_a_stop_without_jobs(
    stopped_for_s: float, has_jobs: bool, stays: bool, ends: bool
) -> None:
    assert ends_now(stopped_for_s=stopped_for_s, has_jobs=has_jobs, stays=stays) is ends
