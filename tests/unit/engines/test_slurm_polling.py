"""How often the commands may ask slurmctld."""

from __future__ import annotations

import pytest

from warpdeck.engines.slurm.polling import (
    IDLE_RPCS_A_MINUTE,
    LOOKING_RPCS_A_MINUTE,
    MAX_INTERVAL_S,
    PLANS,
    Asked,
    Source,
    due_in_s,
    interval_s,
    rpcs_a_minute,
)

HOUR_S = 3600.0


def requests(looking: list[bool], *, took_s: float = 0.1) -> float:
    """Return the number of requests in an hour in which `looking` alternates each second, asking whenever allowed."""
    asked: dict[Source, Asked] = {}
    total = 0
    for second in range(int(HOUR_S)):
        for source in Source:
            seen = looking[second % len(looking)]
            if due_in_s(source, asked.get(source), looking=seen, now=float(second)) == 0:
                asked[source] = Asked(started=float(second), took_s=took_s)
                total += PLANS[source].rpcs
    return total


def test_an_hour_stays_within_the_promised_number_of_requests() -> None:
    first = sum(plan.rpcs for plan in PLANS.values())
    assert requests([False]) <= 60 * IDLE_RPCS_A_MINUTE + first
    assert requests([True]) <= 60 * LOOKING_RPCS_A_MINUTE + first
    assert requests([True]) >= 60 * LOOKING_RPCS_A_MINUTE - first, "the allowed requests are used"


def test_opening_and_closing_the_app_again_and_again_causes_no_more_requests() -> None:
    assert requests([True, False]) <= requests([True])


def test_a_slow_answer_is_asked_for_less_often() -> None:
    slow = Asked(started=0.0, took_s=2.0)
    assert interval_s(Source.JOBS, slow, looking=True) == pytest.approx(100.0)
    assert interval_s(Source.JOBS, Asked(started=0.0, took_s=600.0), looking=True) == MAX_INTERVAL_S
    assert requests([True], took_s=10.0) <= 2 * 2 * (HOUR_S / 500 + 1)


def test_the_first_look_is_at_once_and_the_rate_is_shown() -> None:
    assert due_in_s(Source.JOBS, None, looking=False, now=0.0) == 0
    assert rpcs_a_minute(looking=True, asked={}) == pytest.approx(LOOKING_RPCS_A_MINUTE)
    assert rpcs_a_minute(looking=False, asked={}) == pytest.approx(IDLE_RPCS_A_MINUTE)
