"""Decide from a launch's own past whether it is suspected to hang."""

from __future__ import annotations

import pytest

from warpdeck_agent.progress.progress_monitor import Counters, activity_between
from warpdeck_agent.progress.rhythm import IO_BYTES, MIN_GAPS, MIN_QUIET_S, Activity, Rhythm

LOOK_S = 5.0


def trained(*, gap: int = 2, power_w: float | None = None, cpu_s: float = 1.0) -> tuple[Rhythm, float]:
    """Return a rhythm with an output every `gap` looks, and the time of the last look."""
    rhythm, at = Rhythm(0.0), 0.0
    for number in range(gap * (MIN_GAPS + 1) + 1):
        at += LOOK_S
        rhythm.add(Activity(at, LOOK_S, number % gap == 0, 0, cpu_s, power_w))
    return rhythm, at


def quiet(rhythm: Rhythm, at: float, looks: int, **activity: float) -> float | None:
    """Add looks without output, and return for how long the launch is then suspected."""
    values = {"io_bytes": 0, "cpu_s": 0.0, "gpu_power_w": None, **activity}
    for number in range(1, looks + 1):
        rhythm.add(Activity(at + number * LOOK_S, LOOK_S, False, **values))  # type: ignore[arg-type]
    return rhythm.stall(at + looks * LOOK_S)


def test_a_launch_is_suspected_after_three_times_its_usual_gap() -> None:
    rhythm, at = trained(gap=2)
    assert quiet(rhythm, at, 5) is None
    assert quiet(rhythm, at, 6) == 30.0


def test_a_fast_launch_is_suspected_after_a_minimum() -> None:
    rhythm, at = trained(gap=1)
    assert quiet(rhythm, at, 3) is None
    assert quiet(rhythm, at, 4) == MIN_QUIET_S


@pytest.mark.parametrize(
    ("usual", "now"),
    [
        ({}, {"io_bytes": IO_BYTES}),
        ({}, {"cpu_s": 0.5}),
        ({"power_w": 400.0}, {"gpu_power_w": 250.0}),
        ({"cpu_s": 0.0}, {"cpu_s": 0.5}),
    ],
    ids=["reads or writes", "computes on CPUs", "computes on GPUs", "computes for the first time"],
)
def test_a_launch_that_works_without_output_is_never_suspected(
    usual: dict[str, float], now: dict[str, float]
) -> None:
    rhythm, at = trained(**usual)  # type: ignore[arg-type]
    assert quiet(rhythm, at, 2000, **now) is None


def test_cpu_time_is_no_work_on_gpus() -> None:
    rhythm, at = trained(power_w=400.0, cpu_s=LOOK_S)
    assert quiet(rhythm, at, 20, cpu_s=LOOK_S, gpu_power_w=120.0) == 100.0


def test_a_launch_without_a_rhythm_is_never_suspected() -> None:
    rhythm = Rhythm(0.0)
    for number in range(MIN_GAPS):
        rhythm.add(Activity(number * LOOK_S, LOOK_S, True, 0, 0.0))
    assert quiet(rhythm, MIN_GAPS * LOOK_S, 2000) is None


def test_a_long_quiet_time_of_the_past_is_usual() -> None:
    rhythm, at = trained(gap=1)
    rhythm.add(Activity(at + 600, LOOK_S, True, 0, 1.0))
    assert quiet(rhythm, at + 600, 179) is None
    assert quiet(rhythm, at + 600, 180) == 900.0


def test_a_long_gap_in_which_it_worked_does_not_delay_the_suspicion() -> None:
    rhythm, at = trained(gap=1)
    assert quiet(rhythm, at, 120, io_bytes=IO_BYTES) is None
    rhythm.add(Activity(at + 605, LOOK_S, True, 0, 1.0))
    assert quiet(rhythm, at + 605, 4) == MIN_QUIET_S


def test_a_rest_counts_as_activity() -> None:
    rhythm, at = trained(gap=1)
    rhythm.rest(at + 100)
    assert rhythm.stall(at + 119) is None
    assert rhythm.stall(at + 120) == 20.0


def test_the_activity_of_processes_is_the_difference_of_their_counters() -> None:
    before = {1: Counters((0, 10), 100, 1.0), 2: Counters((5, 5), 50, 2.0)}
    after = {1: Counters((0, 10), 300, 1.5), 3: Counters((7, 7), 40, 0.25)}
    found = activity_between(before, after, at=9.0, passed_s=5.0, power_w=None)
    assert found == Activity(9.0, 5.0, False, 240, 0.75)
    grown = {**after, 1: Counters((0, 11), 300, 1.5)}
    assert activity_between(before, grown, at=9.0, passed_s=5.0, power_w=None).wrote_output
