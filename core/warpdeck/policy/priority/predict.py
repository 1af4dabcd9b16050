"""Run time prediction: the mean of a user's last two run times, but at most the time limit.

The rule is that of Tsafrir, Etsion and Feitelson (2007). It is as good as much more complex rules, because
users repeat themselves. Some users do not, and some request accurate limits. So for each user the errors of
the rule and of the limits are recorded, as factors, with a higher weight for the latest. While the limits are
more accurate, nothing is predicted.

A prediction orders backfill and appears as an expected end. It guarantees nothing: reservations depend only
on time limits.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

import math

import msgspec

REMEMBERED = 2
"""Number of run times kept for each user."""
MAX_USERS = 100_000
"""Maximum number of users that are remembered. The user without an ended job for the longest time is
forgotten first.
"""
KEPT = 0.9
"""Factor applied to the accumulated errors with every job that ends. About the last ten jobs count."""
SHORTEST_S = 10.0
"""Shorter times count as this value, because relative errors of a few seconds do not matter."""


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """A prediction made at submission and the actual run time, in seconds."""

    predicted_s: float
    limit_s: float
    ran_s: float

    @property
    def error_s(self) -> float:
        """Predicted minus actual run time: positive if the job ended earlier."""
        return self.predicted_s - self.ran_s

    @property
    def limit_error_s(self) -> float:
        """Limit minus actual run time: the error of backfill without a prediction."""
        return self.limit_s - self.ran_s


class UserHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The run time history of one user."""

    ran_s: tuple[float, ...] = ()
    """The last run times in seconds, the latest last."""
    rule_error: float = 0.0
    limit_error: float = 0.0
    """Errors of the rule and of the limits: sums of the logarithms of the error factors, with lower weights
    for older errors.
    """

    def after(self, ran_s: float, limit_s: float | None) -> UserHistory:
        """Return the history extended by one more job."""
        rule_error, limit_error = self.rule_error, self.limit_error
        if self.ran_s and limit_s is not None:
            rule_error = KEPT * rule_error + _factor(min(self.mean_s, limit_s), ran_s)
            limit_error = KEPT * limit_error + _factor(limit_s, ran_s)
        return UserHistory(
            ran_s=(*self.ran_s, ran_s)[-REMEMBERED:], rule_error=rule_error, limit_error=limit_error
        )

    @property
    def mean_s(self) -> float:
        """Mean of the last run times. There must be at least one."""
        return sum(self.ran_s) / len(self.ran_s)


class Predictor:
    """Run time history of each user. Ends must be recorded in the order in which they happen."""

    def __init__(self) -> None:
        self._histories: dict[str, UserHistory] = {}

    def remember(self, user: str, ran_s: float, *, limit_s: float | None) -> None:
        """Record that a job of this user ended by itself or at its limit after this many seconds.

        Jobs without a user ("") are not recorded.
        """
        if not user:
            return
        self._histories[user] = self._histories.pop(user, UserHistory()).after(ran_s, limit_s)
        if len(self._histories) > MAX_USERS:
            del self._histories[next(iter(self._histories))]

    def known(self, user: str) -> UserHistory | None:
        """Return the history of a user."""
        return self._histories.get(user)

    def restore(self, user: str, known: UserHistory | None) -> None:
        """Restore an earlier history of a user."""
        self._histories.pop(user, None)
        if known is not None:
            self._histories[user] = known

    def predict(self, user: str, *, limit_s: float | None) -> float | None:
        """Return the predicted seconds; None without history, or if the user's limits are more accurate."""
        history = self._histories.get(user)
        if history is None:
            return None
        if limit_s is None:
            return history.mean_s
        return None if history.limit_error < history.rule_error else min(history.mean_s, limit_s)


def _factor(estimate_s: float, true_s: float) -> float:
    """Return the logarithm of the factor between the two times, whichever is larger."""
    return abs(math.log(max(estimate_s, SHORTEST_S) / max(true_s, SHORTEST_S)))
