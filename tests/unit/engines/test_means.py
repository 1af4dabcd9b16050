"""Curves in bounded memory keep the means of their readings."""

from __future__ import annotations

import random

import pytest

from warpdeck.engines.slurm.history.means import MAX_POINTS, LifeCurve, Ring


def test_a_life_of_any_length_has_a_bounded_number_of_points_and_keeps_its_mean() -> None:
    numbers, values = random.Random(5), list[float]()
    curve = LifeCurve(1000.0)
    for second in range(0, 40_000, 10):
        values.append(numbers.uniform(0, 100))
        curve.add({"gpu_util_pct": values[-1]}, 1000.0 + second)
    points = curve.curve().columns["gpu_util_pct"]
    assert MAX_POINTS / 2 <= len(points) <= MAX_POINTS and None not in points
    step = round(curve.step_s / 10)
    expected = [
        sum(values[at : at + step]) / len(values[at : at + step]) for at in range(0, len(values), step)
    ]
    assert points == pytest.approx(expected, abs=0.06)


def test_a_column_that_comes_later_is_unknown_before() -> None:
    curve = LifeCurve(0.0)
    curve.add({"a": 1.0}, 5.0)
    curve.add({"b": 7.0}, 25.0)
    assert curve.curve().columns == {"a": (1.0, None, None), "b": (None, None, 7.0)}


@pytest.mark.parametrize("seconds", [1_000, 5_000, 100_000])
def test_a_stored_curve_is_continued(seconds: int) -> None:
    whole, first, second = LifeCurve(0.0), LifeCurve(0.0), LifeCurve(0.0)
    for at in range(0, seconds, 10):
        part = first if at < seconds / 2 else second
        for each in (whole, part):
            each.add({"a": float(at)}, float(at))
    second.add_earlier(LifeCurve.of(first.curve()))
    assert second.step_s == whole.step_s
    known = second.curve().columns["a"]
    assert len(known) == len(whole.curve().columns["a"])
    # Means of means differ a little where a step has readings of both parts.
    assert known == pytest.approx(whole.curve().columns["a"], abs=whole.step_s)


def test_a_reading_from_before_the_beginning_belongs_to_the_first_step() -> None:
    curve = LifeCurve(100.0)
    curve.add({"a": 3.0}, 90.0)
    assert curve.curve().columns == {"a": (3.0,)}


def test_a_ring_forgets_what_is_too_old() -> None:
    ring = Ring(10.0, 6)
    for at, value in ((100, 1.0), (104, 3.0), (130, 5.0), (99, 9.0)):
        ring.add({"a": value}, float(at))
    assert ring.curve(span_s=60.0, now=139.0).columns == {"a": (None, None, 2.0, None, None, 5.0)}
    curve = ring.curve(span_s=30.0, now=150.0)
    assert (curve.begin_unix, curve.columns) == (130.0, {"a": (5.0, None, None)})
    assert ring.curve(span_s=60.0, now=1000.0).columns == {"a": (None,) * 6}
    ring.add({"a": 7.0}, 170.0)
    assert ring.curve(span_s=60.0, now=170.0).columns == {"a": (None, 5.0, None, None, None, 7.0)}
    ring.add({"a": 8.0}, 10_000.0)
    assert ring.curve(span_s=60.0, now=10_000.0).columns == {"a": (None, None, None, None, None, 8.0)}


def test_a_ring_without_readings_is_empty() -> None:
    assert Ring(10.0, 6).curve(span_s=60.0, now=5.0).columns == {}
