"""How often the commands may ask slurmctld."""

from __future__ import annotations

import pytest

from warpdeck.engines.slurm.cluster.polling import (
    ACTION_S,
    ALWAYS,
    MAX_INTERVAL_S,
    MINUTE_S,
    PLANS,
    Allowance,
    Asked,
    Source,
    due_after_action_s,
    due_in_s,
    interval_s,
    rpcs_a_minute,
)
from warpdeck.engines.slurm.settings import SlurmSettings

HOUR_S = 3600
SETTINGS = SlurmSettings()


def requests(looking: list[bool], *, took_s: float = 0.1, urgent: bool = False) -> list[tuple[int, int]]:
    """Return the requests of an hour in which `looking` alternates each second: the second and their number."""
    asked: dict[Source, Asked] = {}
    allowance = Allowance(SETTINGS)
    sent: list[tuple[int, int]] = []
    for second in range(HOUR_S):
        seen = looking[second % len(looking)]
        for source in Source if seen else ALWAYS:
            now, rpcs = float(second), PLANS[source].rpcs
            due = due_in_s(
                source, asked.get(source), allowed=allowance.allowed(looking=seen), urgent=urgent, now=now
            )
            if due == 0 and allowance.wait_s(rpcs, looking=seen, now=now) == 0:
                asked[source] = Asked(started=now, took_s=took_s)
                allowance.count(rpcs, now)
                sent.append((second, rpcs))
    return sent


def total(sent: list[tuple[int, int]]) -> int:
    return sum(rpcs for _, rpcs in sent)


def busiest_minute(sent: list[tuple[int, int]]) -> int:
    return max(
        sum(rpcs for at, rpcs in sent if first <= at < first + MINUTE_S) for first in range(HOUR_S - 60)
    )


def test_an_hour_stays_within_the_promised_number_of_requests() -> None:
    first = sum(plan.rpcs for plan in PLANS.values())
    assert total(requests([False])) <= 60 * SETTINGS.idle_requests_per_minute + first
    assert busiest_minute(requests([True])) <= SETTINGS.requests_per_minute


def test_urgent_looks_use_what_is_left_of_the_allowance_and_no_more() -> None:
    usual, urgent = requests([True]), requests([True], urgent=True)
    assert total(urgent) > total(usual) and busiest_minute(urgent) <= SETTINGS.requests_per_minute


def test_opening_and_closing_the_app_again_and_again_causes_no_more_requests() -> None:
    assert total(requests([True, False])) <= total(requests([True]))


def test_a_slow_answer_is_asked_for_less_often() -> None:
    slow = Asked(started=0.0, took_s=2.0)
    assert interval_s(Source.JOBS, slow, allowed=6) == pytest.approx(100.0)
    assert interval_s(Source.JOBS, Asked(started=0.0, took_s=600.0), allowed=6) == MAX_INTERVAL_S
    assert total(requests([True], took_s=10.0)) <= 2 * len(Source) * (HOUR_S / 500 + 1)


def test_the_first_look_is_at_once_and_the_rate_is_shown() -> None:
    assert due_in_s(Source.JOBS, None, allowed=1, urgent=False, now=0.0) == 0
    assert rpcs_a_minute({}, read=ALWAYS, allowed=6) == pytest.approx(4)
    assert rpcs_a_minute({}, read=ALWAYS, allowed=1) == pytest.approx(2 / 3)
    assert rpcs_a_minute({}, read=Source, allowed=6) <= 5


def test_a_request_waits_until_it_fits_into_the_minute() -> None:
    allowance = Allowance(SETTINGS)
    allowance.count(4, 0.0)
    allowance.count(2, 30.0)
    assert allowance.wait_s(2, looking=True, now=40.0) == pytest.approx(20.0)
    assert allowance.wait_s(6, looking=True, now=40.0) == pytest.approx(50.0)
    assert allowance.wait_s(2, looking=True, now=61.0) == 0.0


def test_a_user_with_many_actions_sees_no_older_queue_than_one_who_does_nothing() -> None:
    allowance = Allowance(SETTINGS)
    for second in range(60):
        allowance.count_action(2, float(second))
    assert allowance.wait_s(2, looking=True, now=60.0, is_usual=True) == 0.0
    assert allowance.wait_s(2, looking=True, now=60.0) > 0.0


def test_the_queue_is_read_a_few_seconds_after_an_action_and_seldom_if_slurm_is_slow() -> None:
    assert due_after_action_s(None, now=0.0) == 0.0
    quick, slow = Asked(started=0.0, took_s=0.1), Asked(started=0.0, took_s=2.0)
    assert due_after_action_s(quick, now=1.0) == pytest.approx(ACTION_S - 1.0)
    assert due_after_action_s(quick, now=ACTION_S) == 0.0
    assert due_after_action_s(slow, now=10.0) == pytest.approx(30.0)
