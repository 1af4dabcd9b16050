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


def test_the_prediction_is_the_mean_of_the_last_two_jobs_up_to_the_limit() -> None:
    predictor = after(1000.0, 100.0, 300.0)
    assert predictor.predict("ann", limit_s=HOUR_S) == 200.0
    assert predictor.predict("ann", limit_s=150.0) == 150.0
    assert predictor.predict("ann", limit_s=None) == 200.0


def test_unknown_users_have_no_prediction() -> None:
    predictor = after(100.0)
    predictor.remember("", 100.0, limit_s=HOUR_S)
    assert predictor.predict("bob", limit_s=HOUR_S) is None
    assert predictor.predict("", limit_s=HOUR_S) is None


def test_nothing_is_predicted_while_the_users_limits_are_more_accurate() -> None:
    predictor = Predictor()
    for ran_s in (10.0, 3000.0, 20.0, 2000.0):
        predictor.remember("ann", ran_s, limit_s=ran_s * 1.2)
    assert predictor.predict("ann", limit_s=HOUR_S) is None
    assert predictor.predict("ann", limit_s=None) == 1010.0
    for _ in range(12):
        predictor.remember("ann", 100.0, limit_s=HOUR_S)
    assert predictor.predict("ann", limit_s=HOUR_S) == 100.0


def test_differences_of_seconds_do_not_prefer_the_limit() -> None:
    predictor = after(1.0, 9.0, 2.0, 8.0, limit_s=10.0)
    assert predictor.predict("ann", limit_s=HOUR_S) == 5.0


def test_recorded_jobs_can_be_undone() -> None:
    predictor = after(100.0)
    known, nobody = predictor.known("ann"), predictor.known("bob")
    for user in ("ann", "bob"):
        predictor.remember(user, 900.0, limit_s=HOUR_S)
    predictor.restore("ann", known)
    predictor.restore("bob", nobody)
    assert predictor.predict("ann", limit_s=HOUR_S) == 100.0
    assert predictor.predict("bob", limit_s=HOUR_S) is None


def test_the_user_without_jobs_for_longest_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict, "MAX_USERS", 2)
    predictor = Predictor()
    for user in ("ann", "bob", "ann", "eve"):
        predictor.remember(user, 100.0, limit_s=None)
    assert [predictor.predict(user, limit_s=None) for user in ("ann", "bob", "eve")] == [100.0, None, 100.0]
