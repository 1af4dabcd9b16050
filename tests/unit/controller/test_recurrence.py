"""When something that comes again comes: on the calendar, through changes of the clock, however long ago it began."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import pytest

from warpdeck.controller.recurrence import occurrences
from warpdeck.model.reservation import Repeat

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


def some(repeat: Repeat, count: int, *, after: float = 0.0) -> list[str]:
    found = itertools.islice(occurrences(FIRST, repeat, after_unix=after or FIRST), count)
    return [time.strftime("%a %d.%m. %H:%M", time.localtime(at)) for at in found]


def test_weekdays_and_weekends_leave_out_the_other_days() -> None:
    assert [each[:3] for each in some("weekday", 6)] == ["Mon", "Tue", "Wed", "Thu", "Fri", "Mon"]
    assert [each[:3] for each in some("weekend", 3)] == ["Sat", "Sun", "Sat"]


def test_a_change_of_the_clock_changes_no_hour_of_the_day() -> None:
    assert some("weekly", 5)[3:] == ["Mon 23.03. 09:00", "Mon 30.03. 09:00"]
    assert {each[-5:] for each in some("daily", 40)} == {"09:00"}


def test_the_last_one_before_a_moment_comes_first_however_long_ago_it_began() -> None:
    years = FIRST + 1000 * DAY_S + HOUR_S
    first, second = itertools.islice(occurrences(FIRST, "daily", after_unix=years), 2)
    assert first <= years < second and second - first in (23 * HOUR_S, DAY_S, 25 * HOUR_S)
    hours = itertools.islice(occurrences(FIRST, "hourly", after_unix=years + 60), 2)
    assert list(hours) == [years, years + HOUR_S]


def test_nothing_comes_before_the_first() -> None:
    assert next(occurrences(FIRST, "daily", after_unix=FIRST - 100 * DAY_S)) == FIRST
