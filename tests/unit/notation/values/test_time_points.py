"""Points in time as sbatch 22.05.8 read --begin and --deadline on 2026-11-21 at 08:42:30."""

from __future__ import annotations

from datetime import datetime

import pytest

from warpdeck.base.errors import UserError
from warpdeck.notation.values.time_points import parse_moment, parse_past

NOW = datetime(2026, 11, 21, 8, 42, 30)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("16:00", "2026-11-21T16:00:00"),
        ("07:30", "2026-11-22T07:30:00"),
        ("16:00:30", "2026-11-21T16:00:30"),
        ("4:30pm", "2026-11-21T16:30:00"),
        ("4:30 PM", "2026-11-21T16:30:00"),
        ("12:00am", "2026-11-22T00:00:00"),
        ("noon", "2026-11-21T12:00:00"),
        ("midnight", "2026-11-22T00:00:00"),
        ("teatime", "2026-11-21T16:00:00"),
        ("fika", "2026-11-21T15:00:00"),
        ("today", "2026-11-21T00:00:00"),
        ("tomorrow", "2026-11-22T00:00:00"),
        ("now", "2026-11-21T08:42:30"),
        ("now+60", "2026-11-21T08:43:30"),
        ("now+2weeks", "2026-12-05T08:42:30"),
        ("now-1hour", "2026-11-21T07:42:30"),
        ("now+ 5", "2026-11-21T08:42:35"),
        ("2027-01-20", "2027-01-20T00:00:00"),
        ("2027-01-20T12:34", "2027-01-20T12:34:00"),
        ("2027-01-20T12:34:56", "2027-01-20T12:34:56"),
        ("2027-01-20 12:34", "2027-01-20T12:34:00"),
        ("012027", "2027-01-20T00:00:00"),
        ("01/20/27", "2027-01-20T00:00:00"),
        ("01/20", "2027-01-20T00:00:00"),
        ("11/01", "2027-11-01T00:00:00"),
        ("11/21", "2027-11-21T00:00:00"),
        ("01.20.27", "2027-01-20T00:00:00"),
        ("tomorrow 12:00", "2026-11-22T12:00:00"),
        ("12:00 tomorrow", "2026-11-22T12:00:00"),
        ("010227 12:00", "2027-01-02T12:00:00"),
        ("01/02 13:00", "2027-01-02T13:00:00"),
        ("uts1800000000", "2027-01-15T08:00:00"),
        ("NOON", "2026-11-21T12:00:00"),
        ("2020-01-01", "2020-01-01T00:00:00"),
        ("2027-01-20T", "2027-01-20T00:00:00"),
        ("noontomorrow", "2026-11-22T12:00:00"),
    ],
)
def test_time_points_are_read_as_in_sbatch(text: str, wanted: str) -> None:
    assert datetime.fromtimestamp(parse_moment(text, NOW.timestamp())).isoformat() == wanted


@pytest.mark.parametrize(
    "text",
    [
        "8:5",
        "12am",
        "elevenses",
        "now+5sec",
        "20.01.27",
        "1800000000",
        "60",
        "+60",
        "13",
        "2027-1-2",
        "2027-13-01",
        "25:00",
        "12:61",
        "now+",
        "now+1h",
        "01/20/2027",
        "2027-01-20T12",
        "now+1.5",
        "",
    ],
)
def test_invalid_time_points_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="is not a point in time"):
        parse_moment(text, NOW.timestamp())


def test_the_current_time_of_day_means_tomorrow() -> None:
    at_noon = NOW.replace(hour=12, minute=0, second=0).timestamp()
    assert parse_moment("noon", at_noon) == at_noon + 86_400


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("03:12", "2026-11-21T03:12:00"),
        ("16:00", "2026-11-20T16:00:00"),
        ("4:30 pm", "2026-11-20T16:30:00"),
        ("noon", "2026-11-20T12:00:00"),
        ("now-2hours", "2026-11-21T06:42:30"),
        ("11/20", "2026-11-20T00:00:00"),
        ("2026-11-20T14:00", "2026-11-20T14:00:00"),
    ],
)
def test_a_time_of_day_in_the_past_is_its_last_occurrence(text: str, wanted: str) -> None:
    assert datetime.fromtimestamp(parse_past(text, NOW.timestamp())).isoformat() == wanted


@pytest.mark.parametrize(
    "text", ["now+1minute", "tomorrow", "2026-11-21T16:00", "uts1999999999", "tomorrow 03:12"]
)
def test_future_times_are_refused_as_past_times(text: str) -> None:
    with pytest.raises(UserError, match="in the future"):
        parse_past(text, NOW.timestamp())


def test_an_error_about_a_past_time_shows_how_to_write_one() -> None:
    with pytest.raises(UserError, match="is not a point in time") as told:
        parse_past("soon", NOW.timestamp())
    assert "now-2hours" in told.value.hint and "tomorrow" not in told.value.hint
