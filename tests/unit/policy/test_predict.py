"""Predicted run time of a user's next job, from the previous ones."""

from __future__ import annotations

import pytest

from warpdeck.policy.priority import predict
from warpdeck.policy.priority.predict import Predictor

HOUR_S = 3600.0


def after(*ran_s: float, limit_s: float | None = HOUR_S) -> Predictor:
    predictor = Predictor()
    for each in ran_s:
        predictor.remember("ann", each, limit_s=limit_s)
    return predictor


def test_it_is_the_mean_of_the_last_two_but_never_more_than_the_limit() -> None:
    predictor = after(1000.0, 100.0, 300.0)
    assert predictor.predict("ann", limit_s=HOUR_S) == 200.0
    assert predictor.predict("ann", limit_s=150.0) == 150.0
    assert predictor.predict("ann", limit_s=None) == 200.0


def test_of_those_who_are_not_known_nothing_is_predicted() -> None:
    predictor = after(100.0)
    predictor.remember("", 100.0, limit_s=HOUR_S)
    assert predictor.predict("bob", limit_s=HOUR_S) is None
    assert predictor.predict("", limit_s=HOUR_S) is None


def test_while_a_users_limits_are_the_better_word_nothing_is_predicted() -> None:
    predictor = Predictor()
    for ran_s in (10.0, 3000.0, 20.0, 2000.0):
        predictor.remember("ann", ran_s, limit_s=ran_s * 1.2)
    assert predictor.predict("ann", limit_s=HOUR_S) is None
    assert predictor.predict("ann", limit_s=None) == 1010.0
    for _ in range(12):
        predictor.remember("ann", 100.0, limit_s=HOUR_S)
    assert predictor.predict("ann", limit_s=HOUR_S) == 100.0


def test_a_few_seconds_more_or_less_do_not_make_a_limit_the_better_word() -> None:
    predictor = after(1.0, 9.0, 2.0, 8.0, limit_s=10.0)
    assert predictor.predict("ann", limit_s=HOUR_S) == 5.0


def test_what_was_remembered_can_be_taken_back() -> None:
    predictor = after(100.0)
    known, nobody = predictor.known("ann"), predictor.known("bob")
    for user in ("ann", "bob"):
        predictor.remember(user, 900.0, limit_s=HOUR_S)
    predictor.restore("ann", known)
    predictor.restore("bob", nobody)
    assert predictor.predict("ann", limit_s=HOUR_S) == 100.0
    assert predictor.predict("bob", limit_s=HOUR_S) is None


def test_who_ended_a_job_longest_ago_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict, "MAX_USERS", 2)
    predictor = Predictor()
    for user in ("ann", "bob", "ann", "eve"):
        predictor.remember(user, 100.0, limit_s=None)
    assert [predictor.predict(user, limit_s=None) for user in ("ann", "bob", "eve")] == [100.0, None, 100.0]
