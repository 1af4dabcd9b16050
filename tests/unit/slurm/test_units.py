"""Times as Slurm's commands print them."""

from __future__ import annotations

import time

import pytest

from warpdeck.slurm.format.units import moment, stamped

AT = time.mktime((2026, 11, 21, 14, 10, 27, 0, 0, -1))


@pytest.mark.parametrize(
    ("form", "text"), [("", "2026-11-21T14:10:27"), ("%Y", "2026"), ("standard", "2026-11-21T14:10:27")]
)
def test_moments_are_as_the_callers_variable_has_them(form: str, text: str) -> None:
    with stamped({"SLURM_TIME_FORMAT": form}):
        assert moment(AT) == text
        assert moment(None) == "Unknown"
    assert moment(AT) == "2026-11-21T14:10:27"
