"""How often the commands may ask slurmctld."""

from __future__ import annotations

import pytest

from warpdeck.engines.slurm.cluster.polling import (
    ACTION_S,
    ALWAYS,
    BUSY,
    LOAD_AGAIN_S,
    LOAD_KEPT_S,
    MAX_INTERVAL_S,
    MAX_LOAD_FACTOR,
    MINUTE_S,
    PLANS,
    SLOW_S,
    Allowance,
    Asked,
    Source,
    due_after_action_s,
    due_in_s,
    interval_s,
    is_load_wanted,
    load_factor,
    rpcs_a_minute,
)
from warpdeck.engines.slurm.reading.load_table import Load, read_load
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
                source,
                asked.get(source),
                allowed=allowance.allowed(looking=seen, now=now),
                urgent=urgent,
                now=now,
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


def test_the_requests_become_fewer_with_the_load_that_sdiag_shows() -> None:
    assert load_factor(Load()) == load_factor(BUSY) == 1.0
    assert load_factor(Load(threads=128)) == pytest.approx(2.0)
    assert load_factor(Load(agent_queue=3000, threads=128)) == pytest.approx(3.0)
    assert load_factor(Load(mean_cycle_s=600.0)) == MAX_LOAD_FACTOR
    allowance = Allowance(SETTINGS)
    allowance.note_load(Load(threads=128), 0.0)
    assert allowance.allowed(looking=True, now=1.0) == pytest.approx(3.0)
    allowance.count(2, 0.0)
    assert allowance.wait_s(2, looking=True, now=1.0) == pytest.approx(59.0)


def test_an_old_figure_of_sdiag_counts_no_longer_and_a_site_may_keep_it_secret() -> None:
    allowance = Allowance(SETTINGS)
    allowance.note_load(Load(threads=250), 0.0)
    assert allowance.load_factor(LOAD_KEPT_S - 1.0) > 3 and allowance.load_factor(LOAD_KEPT_S) == 1.0
    allowance.note_load(None, 10.0)
    assert allowance.load_factor(11.0) == 1.0


def test_sdiag_is_asked_once_in_ten_minutes_and_sooner_while_slurm_is_slow_or_busy() -> None:
    assert interval_s(Source.LOAD, None, allowed=6) == pytest.approx(600.0)
    asked = Asked(started=0.0, took_s=0.1)
    assert not is_load_wanted(0.1, asked, factor=1.0, now=500.0)
    assert is_load_wanted(SLOW_S, asked, factor=1.0, now=LOAD_AGAIN_S)
    assert is_load_wanted(0.1, asked, factor=2.0, now=LOAD_AGAIN_S)
    assert not is_load_wanted(SLOW_S, asked, factor=2.0, now=LOAD_AGAIN_S - 1.0)


def test_the_figures_are_read_from_sdiag() -> None:
    text = (
        "Server thread count:  3\nRPC queue enabled:    0\nAgent queue size:     12\nDBD Agent queue size: 7\n\n"
        "Main schedule statistics (microseconds):\n\tLast cycle:   1\n\tMean cycle:   2500000\n\n"
        "Main scheduler exit:\n\tEnd of job queue: 1\n\nBackfilling stats\n\tMean cycle:   9000000\n"
    )
    assert read_load(text) == Load(threads=3, agent_queue=12, mean_cycle_s=2.5)
    assert (
        read_load("Main schedule statistics (microseconds):\n\nBackfilling stats\n\tMean cycle: 9\n")
        == Load()
    )
