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
def test_the_longer_ago_the_longer_the_step_that_holds_the_moment(age_s: float, step_s: float) -> None:
    span = span_of(NOW - age_s, since=0.0, now=NOW)
    assert span is not None and span[1] == step_s
    assert span[0] <= NOW - age_s < span[0] + step_s and span[0] % step_s == 0


@pytest.mark.parametrize("at", [NOW + 1.0, NOW - 25 * HOUR_S, NOW - 101.0])
def test_what_is_to_come_too_long_ago_or_before_the_beginning_is_in_no_step(at: float) -> None:
    assert span_of(at, since=NOW - (100.0 if at > NOW - HOUR_S else 1e9), now=NOW) is None
