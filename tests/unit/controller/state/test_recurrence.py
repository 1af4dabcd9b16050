"""Times of recurring reservations: by the calendar, across clock changes, however long ago they began."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import pytest
from tests.support.core import BOB, Core, make_request

from warpdeck.controller.events.events import ReservationMade
from warpdeck.controller.state.planner_view import build_view
from warpdeck.controller.state.recurrence import occurrences
from warpdeck.controller.state.reservations import EXTRA_OCCURRENCES, MAX_OCCURRENCES
from warpdeck.model import JobState, Reservation
from warpdeck.model.reservation import Repeat
from warpdeck.policy import plan

HOUR_S, DAY_S = 3600, 86_400
FIRST = 1_772_438_400.0
"""Monday 2 March 2026, 09:00 in Berlin."""


@pytest.fixture(autouse=True)
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        time.tzset()
        yield
    time.tzset()


def first_times(repeat: Repeat, count: int, *, after: float = 0.0) -> list[str]:
    found = itertools.islice(occurrences(FIRST, repeat, after_unix=after or FIRST), count)
    return [time.strftime("%a %d.%m. %H:%M", time.localtime(at)) for at in found]


def test_weekday_and_weekend_reservations_skip_the_other_days() -> None:
    assert [each[:3] for each in first_times("weekday", 6)] == ["Mon", "Tue", "Wed", "Thu", "Fri", "Mon"]
    assert [each[:3] for each in first_times("weekend", 3)] == ["Sat", "Sun", "Sat"]


def test_daylight_saving_does_not_change_the_time_of_day() -> None:
    assert first_times("weekly", 5)[3:] == ["Mon 23.03. 09:00", "Mon 30.03. 09:00"]
    assert {each[-5:] for each in first_times("daily", 40)} == {"09:00"}


def test_the_last_occurrence_before_the_given_time_comes_first() -> None:
    years = FIRST + 1000 * DAY_S + HOUR_S
    first, second = itertools.islice(occurrences(FIRST, "daily", after_unix=years), 2)
    assert first <= years < second and second - first in (23 * HOUR_S, DAY_S, 25 * HOUR_S)
    hours = itertools.islice(occurrences(FIRST, "hourly", after_unix=years + 60), 2)
    assert list(hours) == [years, years + HOUR_S]


def test_no_occurrence_precedes_the_first() -> None:
    assert next(occurrences(FIRST, "daily", after_unix=FIRST - 100 * DAY_S)) == FIRST


def recurring(repeat: Repeat) -> tuple[Core, float]:
    """Return a site with one node and a recurring reservation of ten minutes that starts in half an hour."""
    core = Core("a")
    begin = core.now + 1800
    made = Reservation(name="class", start_unix=begin, end_unix=begin + 600, users=("ann",), repeat=repeat)
    core.apply(ReservationMade(reservation=made))
    return core, begin


def test_a_job_longer_than_the_gaps_gets_no_expected_start() -> None:
    core, _ = recurring("hourly")
    job_id = core.submit(make_request(gpus=1, time_limit_s=40 * HOUR_S), BOB)
    core.plan()
    view = build_view(core.state, now=core.now)
    assert len(view.reservations) == 40 + EXTRA_OCCURRENCES
    made = plan(view, core.now, core.state.site.settings)
    assert core.job(job_id).state is JobState.PENDING
    assert made.pending_reasons[job_id].expected_start_unix is None and not made.reserves


def test_a_job_that_fits_between_occurrences_is_expected_after_the_next() -> None:
    core, begin = recurring("daily")
    core.run(make_request(gpus=4, time_limit_s=1000), BOB)
    job_id = core.submit(make_request(gpus=4, time_limit_s=4 * HOUR_S), BOB)
    made = plan(build_view(core.state, now=core.now), core.now, core.state.site.settings)
    assert made.pending_reasons[job_id].expected_start_unix == begin + 600


def test_the_longest_job_determines_the_number_of_occurrences() -> None:
    core, begin = recurring("daily")

    def starts() -> list[float]:
        return sorted(each.start_unix for each in build_view(core.state, now=core.now).reservations)

    assert len(starts()) == 1 + EXTRA_OCCURRENCES
    core.submit(make_request(gpus=1, time_limit_s=30 * DAY_S), BOB)
    assert len(starts()) == 30 + EXTRA_OCCURRENCES and starts()[0] == begin
    core.submit(make_request(gpus=1, time_limit_s=300 * DAY_S), BOB)
    assert len(starts()) == MAX_OCCURRENCES
    last = max(build_view(core.state, now=core.now).reservations, key=lambda each: each.start_unix)
    assert last.end_unix == float("inf"), "no start is promised after the last occurrence"


def test_the_name_of_an_ended_reservation_can_be_reused() -> None:
    core = Core("a")
    once = Reservation(name="once", start_unix=core.now, end_unix=core.now + 60, users=("ann",), overlap=True)
    floats = Reservation(
        name="floats", start_unix=core.now, end_unix=core.now + 60, users=("ann",), float_s=600, overlap=True
    )
    for made in (once, floats):
        core.apply(ReservationMade(reservation=made))
    core.now += 2 * DAY_S
    again = Reservation(
        name="once", start_unix=core.now, end_unix=core.now + 60, users=("bob",), overlap=True
    )
    core.apply(ReservationMade(reservation=again))
    assert core.state.reserved.keys() == {"once", "floats"}
    core.now += 61
    core.apply(
        ReservationMade(
            reservation=Reservation(name="once", start_unix=core.now, users=("ann",), overlap=True)
        )
    )
    assert core.state.reserved["once"].users == ("ann",)
