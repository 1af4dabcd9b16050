"""Sparklines: their height says how high the values are, and noise does not look like a trend."""

from __future__ import annotations

import math

import pytest

from warpdeck_tui.widgets.meter import scaled, sparkline


def drawn(values: list[float]) -> str:
    return sparkline(scaled(values), len(values))


def test_only_100_percent_fills_the_whole_height() -> None:
    assert sparkline([0.0, 0.5, 50.0, 85.0, 99.9, 100.0], 6) == " ▁▄▆▇█"


def test_metrics_are_scaled_to_the_range_of_their_values() -> None:
    assert scaled([1.0, 2.0, 3.0]) == [10.0, 55.0, 100.0]
    assert scaled([2.0, 2.0]) == [pytest.approx(55.0)] * 2
    assert scaled([0.0, 0.0]) == [50.0, 50.0]


def test_nearly_equal_values_stay_in_the_middle() -> None:
    assert drawn([680.0, 681.0, 679.0, 680.0]) == "▄▄▄▄"
    assert drawn([-680.0, -681.0, -679.0]) == "▄▄▄"
    assert drawn([600.0, 680.0]) == "▁█"


def test_values_that_are_not_finite_are_unknown() -> None:
    assert scaled([math.nan, math.inf, 0.0]) == [None, None, 50.0]
    assert scaled([]) == []
