"""Times as Slurm's commands print them."""

from __future__ import annotations

import time

import pytest

from warpdeck.slurm.format.timestamps import Stamps, ctime

NOW = time.mktime((2026, 11, 21, 14, 16, 12, 0, 0, -1))
HOUR_S, DAY_S = 3600.0, 86400.0


def text(at_unix: float | None, form: str = "") -> str:
    return Stamps({"SLURM_TIME_FORMAT": form}, clock=lambda: NOW).text(at_unix)


def test_the_standard_is_iso_without_a_zone() -> None:
    assert text(NOW) == text(NOW, "standard") == "2026-11-21T14:16:12"
    assert text(None) == text(0) == "N/A"
    assert Stamps({}).text(None, unknown="Unknown") == "Unknown"


def test_a_format_of_strftime_is_used() -> None:
    assert text(NOW, "%H:%M") == "14:16"


@pytest.mark.parametrize(
    ("later_s", "printed"),
    [
        (0, "14:16:12"),
        (-HOUR_S, "13:16:12"),
        (DAY_S, "Tomorr 14:16"),
        (-DAY_S, "Ystday 14:16"),
        (3 * DAY_S, "Tue 14:16"),
        (-3 * DAY_S, "18 Nov 14:16"),
        (10 * DAY_S, "1 Dec 14:16"),
        (60 * DAY_S, "20 Jan 2027"),
    ],
)
def test_relative_times_name_near_days(later_s: float, printed: str) -> None:
    assert text(NOW + later_s, "relative") == printed


def test_a_wrong_format_is_reported_once_and_only_when_a_time_is_printed() -> None:
    told: list[str] = []
    stamps = Stamps({"SLURM_TIME_FORMAT": "nosuch"}, complain=told.append)
    assert stamps.text(None) == "N/A" and told == []
    assert stamps.text(NOW) == stamps.text(NOW) == "2026-11-21T14:16:12"
    assert told == ["invalid SLURM_TIME_FORMAT = 'nosuch'"]


def test_the_headline_of_a_repeated_listing_is_that_of_ctime() -> None:
    assert ctime(NOW) == "Sat Nov 21 14:16:12 2026"
