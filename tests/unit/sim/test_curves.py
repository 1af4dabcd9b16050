"""The resolution of a simulated node's past measurements equals that of an agent."""

from __future__ import annotations

import pytest

from warpdeck.sim.curves import span_of

NOW = 1_000_000_000.0
HOUR_S = 3600.0


@pytest.mark.parametrize(
    ("age_s", "step_s"),
    [(5.0, 1.0), (590.0, 1.0), (620.0, 10.0), (1.9 * HOUR_S, 10.0), (23.9 * HOUR_S, 60.0)],
)
def test_older_measurements_have_coarser_steps(age_s: float, step_s: float) -> None:
    span = span_of(NOW - age_s, since=0.0, now=NOW)
    assert span is not None and span[1] == step_s
    assert span[0] <= NOW - age_s < span[0] + step_s and span[0] % step_s == 0


@pytest.mark.parametrize("at", [NOW + 1.0, NOW - 25 * HOUR_S, NOW - 101.0])
def test_times_outside_the_recorded_range_have_no_step(at: float) -> None:
    assert span_of(at, since=NOW - (100.0 if at > NOW - HOUR_S else 1e9), now=NOW) is None
